// SPDX-License-Identifier: Apache-2.0
// The files that a job file names: read, checked, replaced by hashes in the spec, and stored at the coordinator.
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

// A file to be stored by content.
struct StagedFile {
  Sha256 sha256;
  std::string what;  // for progress and errors: "manifest corpus/manifest.json"
  std::shared_ptr<BulkSource> source;
};

// A path of a job file, relative to the `directory` that the job file lies in.
std::string ResolvePath(const std::string& directory, const std::string& path);
StagedFile StageText(std::string what, std::string bytes);

struct Staged {
  std::vector<StagedFile> files;
  std::vector<CorpusManifest> manifests;  // of data.corpora, in their order; none where one is given by its hash
};

// Replaces data.corpora[].manifest, evaluation.tasks[].file and model.init.directory, which are relative to
// `directory`, by hashes; fills corpus names, the tokenizer's files, and from a directory's config.json the sizes of
// the model that the job file does not give. What cannot be read or does not fit together becomes a fault at its place
// in the job file; `notes` gets what its writer should know and nothing forbids.
Staged StageFiles(const Files& files, const std::string& directory, JobFile& file, std::vector<Fault>& faults,
                  std::vector<std::string>& notes);

// What the coordinator will say of a valid job file with these corpora, as far as their manifests tell.
std::vector<Fault> CheckCorpora(const JobFile& file, const std::vector<CorpusManifest>& manifests);

// Stores what the coordinator does not have yet, with a progress line. A broken connection is tried again a few times.
absl::Status UploadFiles(Session& session, const std::vector<StagedFile>& staged);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_FILES_H_
