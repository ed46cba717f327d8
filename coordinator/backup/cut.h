// SPDX-License-Identifier: Apache-2.0
// Reads the state of a running coordinator as of one instant: the state that a kill at that instant
// would leave, from which every start can continue (docs/adr/0016). At that instant the ledger does
// not change between two reads:
//
//   open every file of the state   files that retention drops from now on stay readable until they are copied
//   ledger: its newest commit
//   lengths of the append-only files
//   ledger: still that commit      else repeat
//   names: none is new             else repeat, with the new ones
//
// So no file is newer than the ledger, and no file that the ledger needs is missing. The reader
// writes nothing to the state and takes none of its locks, so it cannot affect the coordinator.
#ifndef ATOLL_COORDINATOR_BACKUP_CUT_H_
#define ATOLL_COORDINATOR_BACKUP_CUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/backup/manifest.h"

namespace atl::backup {

struct CutFile {
  std::string path;                          // below the state directory
  uint64_t bytes = 0;                        // of the file that belong to the cut
  std::pair<uint64_t, uint64_t> inode = {};  // device and number: equal for names of the same file
  std::unique_ptr<File> file;                // null: too many are open; opened when copied
};

struct Cut {
  std::vector<CutFile> files;  // append-only ones first; without the ledger
  Manifest manifest;           // of the ledger, copied to the target
  std::string start;           // StartOf the state
};

// Whether a coordinator appends to files of that name. All others are immutable once they have their name.
bool IsAppendedTo(const std::string& path);

// A text that changes with each start of a coordinator on `state_dir`: a start truncates incomplete writes, and bytes
// appended later do not belong to the cut.
std::string StartOf(const Files& files, const std::string& state_dir);

// Copies the ledger of `state_dir` to `target` and holds every other file, at most `most_open` of
// them open. Unavailable, with the remedy: no such instant was found in many attempts.
absl::StatusOr<Cut> TakeCut(Files& files, const std::string& state_dir, const std::string& target, size_t most_open);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_CUT_H_
