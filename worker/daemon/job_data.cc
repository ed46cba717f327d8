// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/job_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

absl::StatusOr<CorpusManifests> FetchManifests(const DataSpec& data, const JobDataOptions& options, BulkClient& bulk) {
  std::vector<CorpusManifest> manifests;
  for (const CorpusSpec& corpus : data.corpora) {
    const std::string what = absl::StrCat("the manifest of corpus ", corpus.name);
    auto text =
        DownloadBlob(bulk, corpus.manifest, options.worker, limits::kManifestBytes, options.leave, options.pauses);
    if (!text.ok()) return Annotate(text.status(), what);
    auto manifest = ParseManifest(*text);
    if (!manifest.ok()) return Annotate(manifest.status(), what);
    manifests.push_back(*std::move(manifest));
  }
  if (manifests.empty()) return absl::InvalidArgumentError("the job names no corpus");
  return std::make_shared<const std::vector<CorpusManifest>>(std::move(manifests));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobData>> JobData::Create(const JobDataOptions& options, const JobId& job,
                                                         const DataSpec& data, BulkClient& bulk, Files& files,
                                                         const Clock& clock, Log& log) {
  auto made = std::unique_ptr<JobData>(new JobData);
  ATOLL_ASSIGN_OR_RETURN(made->manifests_, FetchManifests(data, options, bulk));
  ATOLL_RETURN_IF_ERROR(made->MakeSources(options, job, data, bulk, files, log));
  // At most half of the cache, or prefetched blocks would evict those that are read next.
  SampleReaderOptions reading;
  reading.ahead_blocks = options.cache_bytes / kBlockBytes / 2;
  ATOLL_ASSIGN_OR_RETURN(made->reader_, SampleReader::Create(data, made->manifests_, *made->blocks_, clock, reading));
  return made;
}

JobData::~JobData() {
  if (remote_ != nullptr) remote_->Stop();  // the reader's thread, which ends next, may wait for a fetch
}

absl::Status JobData::MakeSources(const JobDataOptions& options, const JobId& job, const DataSpec& data,
                                  BulkClient& bulk, Files& files, Log& log) {
  std::vector<std::string> directories;
  std::vector<Sha256> hashes;
  for (uint32_t c = 0; c < data.corpora.size(); ++c) {
    directories.push_back((*manifests_)[c].name);  // the name in the manifest, not the job's name for the corpus
    hashes.push_back(data.corpora[c].manifest);
  }
  if (!options.data_root.empty()) {
    ATOLL_ASSIGN_OR_RETURN(local_, LocalBlockSource::Create(files, options.data_root, manifests_, directories));
  }
  remote_ = std::make_unique<RemoteBlockSource>(bulk, job, options.worker, manifests_, std::move(hashes));
  ATOLL_ASSIGN_OR_RETURN(
      cached_, CachedBlockSource::Create(files, options.cache_dir, options.cache_bytes, manifests_, *remote_));
  std::vector<BlockSource*> sources;
  std::vector<std::string> not_local;
  for (uint32_t c = 0; c < data.corpora.size(); ++c) {
    const absl::Status here = local_ ? local_->CheckCorpus(c) : absl::NotFoundError("no --data-root was given");
    sources.push_back(here.ok() ? static_cast<BlockSource*>(local_.get()) : cached_.get());
    not_local.emplace_back(here.message());
    log.Info("corpus", {{"name", data.corpora[c].name},
                        {"from", here.ok() ? "local files" : "coordinator"},
                        {"why", std::string(here.message())}});
  }
  blocks_ = std::make_unique<BlockSourceByCorpus>(std::move(sources), std::move(not_local));
  return absl::OkStatus();
}

}  // namespace atl
