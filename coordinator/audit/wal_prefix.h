// SPDX-License-Identifier: Apache-2.0
// Reads a write-ahead log while another process writes it: everything up to the last commit. Later
// frames are incomplete, to be rolled back, or from an earlier generation.
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/wal_format.h"

namespace atl::audit {

// A generation begins with its own header (new salts), written over the previous one once all of that
// generation is in the database. Within a generation, committed frames are only appended. Not thread-safe.
class WalPrefix {
 public:
  // Reads on from the last known commit or, if the header changed, from the start.
  absl::Status Extend(const File& wal);
  // There is no log: the database holds everything.
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

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_
