// SPDX-License-Identifier: Apache-2.0
// The task files that a job file names: reads and fully checks them, and replaces them by hashes in
// the spec.
#ifndef ATOLL_CLI_STAGE_TASKS_H_
#define ATOLL_CLI_STAGE_TASKS_H_

#include <string>
#include <vector>

#include "cli/stage_files.h"
#include "common/text/tokenizer.h"

namespace atl::cli {

// Replaces evaluation.tasks[].file, relative to `directory`, by hashes, and fills in missing names.
// With a `tokenizer` (that of the corpora; may be null) checks the length of every choice to be
// scored, so that no evaluation fails because of it during the run. Files that cannot be read or
// scored become faults at their positions in the job file.
void StageTasks(const Files& files, const std::string& directory, const Tokenizer* tokenizer, JobFile& job,
                std::vector<StagedFile>& staged, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_TASKS_H_
