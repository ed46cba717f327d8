// SPDX-License-Identifier: Apache-2.0
// The write-ahead log beside the ledger, from SQLite's published file format (section 4 of "Database File Format").
// SQLite itself takes the frames up to the first broken one and forgets the rest without a word; here a broken frame is
// damage when later frames prove that it had been flushed.
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_READER_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_READER_H_

#include <cstdint>
#include <optional>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

struct WalCheck {
  uint64_t frames = 0;             // of the newest generation, from the start up to the first broken one
  std::optional<uint64_t> broken;  // offset of the header or frame that is broken though it was durable
  uint64_t lost_frames = 0;        // whole frames behind it
};

// With synchronous=FULL a transaction is begun only after the commit of the one before was flushed. So a frame is known
// to have been durable when a whole frame follows a later commit.
absl::StatusOr<WalCheck> CheckWal(const File& wal);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_READER_H_
