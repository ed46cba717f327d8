// SPDX-License-Identifier: Apache-2.0
// The state of a coordinator at one instant, while it runs: what a kill at that instant would have left, which is what
// every start can go on from (docs/adr/0016). The instant is one at which the ledger stands still between two looks:
//
//   open every file of the state   what retention drops from now on stays readable until it is copied
//   ledger: its newest commit
//   lengths of the files that are appended to
//   ledger: still that commit      or again
//   names: none is new             or again, with those
//
// So no file is newer than the ledger, and none that the ledger needs is missing. Nothing is written to the state and
// no lock of it is taken: whatever becomes of the reader, the coordinator does not notice.
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
  uint64_t bytes = 0;                        // of it that belong to the cut
  std::pair<uint64_t, uint64_t> inode = {};  // device and number: names of one file have the same
  std::unique_ptr<File> file;                // null: too many are open; it is opened when it is copied
};

struct Cut {
  std::vector<CutFile> files;  // those that are appended to come first; without the ledger
  Manifest manifest;           // of the ledger, whose copy lies in the target
  std::string start;           // StartOf the state
};

// Whether a coordinator adds to files of that name. All others are immutable once they have it.
bool IsAppendedTo(const std::string& path);

// Changes with each start of a coordinator on `state_dir`: a start cuts off what was not written to its end, and what
// is appended then is not of the cut.
std::string StartOf(const Files& files, const std::string& state_dir);

// Copies the ledger of `state_dir` to `target` and holds every other file, at most `most_open` of them open.
// Unavailable, with what to do: there was no such instant in many tries.
absl::StatusOr<Cut> TakeCut(Files& files, const std::string& state_dir, const std::string& target, size_t most_open);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_CUT_H_
