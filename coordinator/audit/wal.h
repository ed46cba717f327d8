// SPDX-License-Identifier: Apache-2.0
// SQLite's write-ahead log, from its published file format (section 4 of "Database File Format").
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

constexpr uint64_t kWalHeaderBytes = 32, kWalFrameHeaderBytes = 24;

using WalSum = std::pair<uint32_t, uint32_t>;

// The size of a page, from a header of kWalHeaderBytes.
uint32_t WalPageBytes(const std::string& header);

struct WalCheck {
  uint64_t frames = 0;             // of the newest generation, from the start to the first broken one
  std::optional<uint64_t> broken;  // offset of a broken header or frame that was durable
  uint64_t lost_frames = 0;        // whole frames after it
};

// SQLite takes the frames up to the first broken one and silently discards the rest. Here a broken frame is damage if
// later frames prove that it had been flushed: with synchronous=FULL, a transaction begins only after the previous
// commit was flushed, so a frame was durable if a whole frame follows a later commit.
absl::StatusOr<WalCheck> CheckWal(const File& wal);

// Reads a log while another process writes it: everything up to the last commit. Later frames are incomplete, to be
// rolled back, or from an earlier generation. A generation begins with its own header (new salts), written over the
// previous one once all of that generation is in the database. Within a generation, committed frames are only
// appended. Not thread-safe.
class WalPrefix {
 public:
  // Reads on from the last known commit or, if the header changed, from the start.
  absl::Status Extend(const File& wal);
  // Forgets the log: call it if there is none, because the database then holds everything.
  void Clear();

  // The header; empty if no header was written completely.
  const std::string& generation() const { return header_; }
  // Header and whole frames up to the last commit, as SQLite reads them; empty if nothing was committed.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string header_, bytes_;
  WalSum sum_;  // of the last frame of bytes_, or of the header
};

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_H_
