// SPDX-License-Identifier: Apache-2.0
// The files that a job file names: reads and checks them, replaces them by hashes in the spec, and
// stores them at the coordinator.
#ifndef ATOLL_CLI_STAGE_FILES_H_
#define ATOLL_CLI_STAGE_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/job/job_file.h"
#include "cli/session.h"
#include "common/format/corpus_manifest.h"
#include "common/rpc/bulk.h"

namespace atl::cli {

// A file to store by its content hash.
struct StagedFile {
  Sha256 sha256;
  std::string what;  // for progress and errors: "manifest corpus/manifest.json"
  std::shared_ptr<BulkSource> source;
};

// Resolves a path of a job file, relative to the job file's `directory`.
std::string ResolvePath(const std::string& directory, const std::string& path);
StagedFile StageText(std::string what, std::string bytes);

struct Staged {
  std::vector<StagedFile> files;
  std::vector<CorpusManifest> manifests;  // of data.corpora, in order; none if a corpus is given by its hash
};

// Replaces data.corpora[].manifest, evaluation.tasks[].file and model.init.directory, which are
// relative to `directory`, by hashes. Fills in corpus names, the tokenizer's files and, from a
// directory's config.json, the model sizes missing in the job file. Unreadable or inconsistent
// files become faults at their positions in the job file; `notes` receives warnings.
Staged StageFiles(const Files& files, const std::string& directory, JobFile& file, std::vector<Fault>& faults,
                  std::vector<std::string>& notes);

// Predicts the coordinator's violations for a valid job file with these corpora, as far as their
// manifests allow.
std::vector<Fault> CheckCorpora(const JobFile& file, const std::vector<CorpusManifest>& manifests);

// Uploads the files that the coordinator does not have yet, with a progress line. Retries each file after broken
// connections, until several attempts in a row made no progress.
absl::Status UploadFiles(Session& session, const std::vector<StagedFile>& staged);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_FILES_H_
