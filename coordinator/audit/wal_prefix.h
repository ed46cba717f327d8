// SPDX-License-Identifier: Apache-2.0
// What a write-ahead log holds while somebody writes to it: everything up to the end of its last commit. What is behind
// that is being written, is to be taken back, or is left of an earlier generation.
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/wal_format.h"

namespace atl::audit {

// A generation begins with a header of its own (new salts), written over the one before once all of that is in the
// database; within one, what is committed is only added to. Not thread-safe.
class WalPrefix {
 public:
  // Reads on from the last commit known, or, where the header is another one, from the start.
  absl::Status Extend(const File& wal);
  // There is no log: all is in the database.
  void Clear();

  // The header; empty where there is none that was written to its end.
  const std::string& generation() const { return header_; }
  // Header and whole frames up to the last commit, as SQLite reads them; empty where nothing was committed.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string header_, bytes_;
  WalSum sum_;  // of the last frame of bytes_, or of the header
};

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_PREFIX_H_
