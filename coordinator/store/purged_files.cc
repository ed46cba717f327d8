// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/purged_files.h"

#include <memory>
#include <set>
#include <string>

#include "common/base/status.h"

namespace atl {
namespace {

void AddFilesOf(const JobSpec& spec, std::set<Sha256>& to) {
  for (const CorpusSpec& corpus : spec.data.corpora) to.insert(corpus.manifest);
  to.insert(spec.data.tokenizer_files.begin(), spec.data.tokenizer_files.end());
  to.insert(spec.init.safetensors.begin(), spec.init.safetensors.end());
  for (const EvaluationTaskSpec& task : spec.evaluation.tasks) to.insert(task.file);
}

absl::Status Drop(Files& files, const std::string& path, DroppedFiles& dropped) {
  if (!files.Exists(path)) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  ATOLL_RETURN_IF_ERROR(files.Remove(path));
  ++dropped.files;
  dropped.bytes += bytes;
  return absl::OkStatus();
}

}  // namespace

DroppedFiles DropFilesOfPurgedJobs(Files& files, const DataDirectory& directory, const RecoveredState& state,
                                   Log& log) {
  std::set<Sha256> purged, needed;
  for (const RecoveredJob& job : state.jobs) {
    const bool gone = HasEnded(job.job.state) && !job.job.parameters_ready;
    AddFilesOf(job.job.spec, gone ? purged : needed);
  }
  DroppedFiles dropped;
  for (const Sha256& sha256 : purged) {
    if (needed.contains(sha256)) continue;
    const std::string path = directory.BlobPath(sha256);
    const absl::Status removed = Drop(files, path, dropped);
    if (!removed.ok()) log.Warn("file of a purged job not removed", {{"reason", std::string(removed.message())}});
  }
  if (dropped.files > 0) {
    log.Info("files of purged jobs removed", {{"files", dropped.files}, {"bytes", dropped.bytes}});
  }
  return dropped;
}

}  // namespace atl
