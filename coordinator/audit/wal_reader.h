// SPDX-License-Identifier: Apache-2.0
// Checks the write-ahead log of the ledger, from SQLite's published file format (section 4 of
// "Database File Format"). SQLite takes the frames up to the first broken one and silently discards
// the rest. Here a broken frame is damage if later frames prove that it had been flushed.
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_READER_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_READER_H_

#include <cstdint>
#include <optional>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

struct WalCheck {
  uint64_t frames = 0;             // of the newest generation, from the start to the first broken one
  std::optional<uint64_t> broken;  // offset of a broken header or frame that was durable
  uint64_t lost_frames = 0;        // whole frames after it
};

// With synchronous=FULL, a transaction begins only after the previous commit was flushed. So a
// frame was durable if a whole frame follows a later commit.
absl::StatusOr<WalCheck> CheckWal(const File& wal);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_READER_H_
