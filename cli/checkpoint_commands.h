// SPDX-License-Identifier: Apache-2.0
// `atoll checkpoint ...` and `atoll worker ...` as functions of parsed options. Each returns the
// exit code.
#ifndef ATOLL_CLI_CHECKPOINT_COMMANDS_H_
#define ATOLL_CLI_CHECKPOINT_COMMANDS_H_

#include <string>

#include "cli/session.h"

namespace atl::cli {

int ListCheckpoints(Session& session, const std::string& job);

struct ExportOptions {
  std::string checkpoint;      // JOB, JOB/STEP, JOB/latest or the full name
  std::string directory;       // must be missing or empty
  std::string dtype = "fp32";  // of the weights: fp32, fp16 or bf16
};
// Writes a Hugging Face directory. Fragments are fetched one after another, so that at most one is on disk in
// addition to the result.
int ExportCheckpoint(Session& session, const ExportOptions& options);
// Writes the fragments as raw little-endian fp32, and checkpoint.json next to them
// (docs/formats/checkpoint-download.md).
int DownloadCheckpoint(Session& session, const std::string& checkpoint, const std::string& directory);

// For a complete checkpoint that is not the job's newest: JOB/STEP or the full name.
int DeleteCheckpoint(Session& session, const std::string& checkpoint);

int ListWorkers(Session& session, const std::string& job, bool all);
int DrainWorker(Session& session, const std::string& worker);
int CordonWorker(Session& session, const std::string& worker);
int EvictWorker(Session& session, const std::string& worker);
int ReadmitWorker(Session& session, const std::string& worker);

}  // namespace atl::cli

#endif  // ATOLL_CLI_CHECKPOINT_COMMANDS_H_
