// SPDX-License-Identifier: Apache-2.0
// The task files that a job file names: read, checked whole, replaced by hashes in the spec.
#ifndef ATOLL_CLI_STAGE_TASKS_H_
#define ATOLL_CLI_STAGE_TASKS_H_

#include <string>
#include <vector>

#include "cli/stage_files.h"
#include "common/text/tokenizer.h"

namespace atl::cli {

// Replaces evaluation.tasks[].file, relative to `directory`, by hashes and fills absent names. With a `tokenizer` (that
// of the corpora; may be null) every choice that will be scored is checked for its length, so that no evaluation fails
// for it in mid-run. What cannot be read or scored becomes a fault at its place in the job file.
void StageTasks(const Files& files, const std::string& directory, const Tokenizer* tokenizer, JobFile& job,
                std::vector<StagedFile>& staged, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_TASKS_H_
