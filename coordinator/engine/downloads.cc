// SPDX-License-Identifier: Apache-2.0
// Opens downloads, each from an immutable source: encoded updates, snapshots, checkpoints, blobs,
// shards.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/format/corpus_copy.h"
#include "common/format/corpus_manifest.h"
#include "common/format/token_shard.h"
#include "common/plan/data_order.h"
#include "common/rpc/read_at_source.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/store/file_by_path.h"

namespace atl {
namespace {

absl::Status NotRunning(const JobId& job) {
  return absl::NotFoundError(absl::StrCat("job ", job.value, " is not running"));
}

// Reads from a file that may disappear during the download: NotFound if it was deleted, Aborted if replaced.
template <typename Reader>
class WhileKept {
 public:
  WhileKept(std::shared_ptr<const Reader> reader, std::string name)
      : reader_(std::move(reader)), name_(std::move(name)) {}
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const {
    absl::Status read = reader_->ReadAt(offset, out);
    if (absl::IsNotFound(read)) return absl::NotFoundError(absl::StrCat(name_, " is no longer kept"));
    if (!absl::IsAborted(read)) return read;
    return absl::AbortedError(absl::StrCat(name_, " was written again since this download began; begin again"));
  }

 private:
  const std::shared_ptr<const Reader> reader_;
  const std::string name_;
};

// `reader` holds no open file between its reads.
template <typename Reader>
std::shared_ptr<BulkSource> SourceOf(std::shared_ptr<const Reader> reader, uint64_t bytes, std::string name) {
  using Readable = WhileKept<Reader>;
  return std::make_shared<ReadAtSource<Readable>>(std::make_shared<Readable>(std::move(reader), std::move(name)),
                                                  bytes);
}

DownloadContent ContentOf(std::shared_ptr<const SnapshotReader> reader, std::string name) {
  const uint64_t bytes = reader->size_bytes();
  DownloadHeader header{.total_bytes = bytes,
                        .version = reader->header().at.version,
                        .hash = reader->header().hash,
                        .codec = CodecKind::kFp32,
                        .digest = {}};
  return {header, SourceOf(std::move(reader), bytes, std::move(name)), {}};
}

DownloadContent ContentOf(const UpdateInfo& update, std::shared_ptr<BulkSource> source) {
  return {{.total_bytes = update.encoded_bytes,
           .version = update.reached.version,
           .hash = update.hash,
           .codec = update.codec,
           .digest = update.digest},
          std::move(source),
          {}};
}

std::string NameOf(const FragmentVersion& at) {
  return absl::StrCat("version ", at.version.value, " of fragment ", at.fragment.value);
}

// `source` itself, which also keeps `held` until it is released.
std::shared_ptr<BulkSource> Holding(std::shared_ptr<const void> held, std::shared_ptr<BulkSource> source) {
  const auto both = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<BulkSource>>>(
      std::move(held), std::move(source));
  return {both, both->second.get()};
}

// A snapshot in transfer to a worker. VersionPins bounds the snapshots and updates kept for it.
class DownloadPin {
 public:
  DownloadPin(const std::shared_ptr<JobData>& data, FragmentVersion at, WorkerId worker, Clock& clock)
      : data_(data), fragment_(at.fragment), worker_(std::move(worker)), clock_(clock) {
    MutexLock lock(data->mutex);
    download_ = data->pins[at.fragment.value].Begin(worker_, at.version);
  }
  ~DownloadPin() {
    const std::shared_ptr<JobData> data = data_.lock();
    if (data == nullptr) return;
    MutexLock lock(data->mutex);
    data->pins[fragment_.value].End(worker_, download_, clock_.Now());
  }
  DownloadPin(const DownloadPin&) = delete;
  DownloadPin& operator=(const DownloadPin&) = delete;

 private:
  const std::weak_ptr<JobData> data_;  // weak: does not keep a released job in memory
  const FragmentIndex fragment_;
  const WorkerId worker_;
  Clock& clock_;
  uint64_t download_ = 0;
};

// A block of a shard. The shard's file is opened for each read.
class BlockReader {
 public:
  BlockReader(const Files& files, std::string path, uint64_t begin)
      : files_(files), path_(std::move(path)), begin_(begin) {}
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const {
    ATOLL_ASSIGN_OR_RETURN(const auto shard, TokenShard::Open(files_, path_));
    return shard->ReadArea(begin_ + offset, out);
  }

 private:
  const Files& files_;
  const std::string path_;
  const uint64_t begin_;
};

}  // namespace

void DataPlane::OpenDownload(const DownloadRequest& request, DownloadReply reply) {
  if (absl::Status may = rights_.Check(request); !may.ok()) return reply(std::move(may));
  NoteCatchUp(request);
  // Every worker asks for an update as soon as it is published: it is served from memory while the
  // log is written.
  if (std::optional<DownloadContent> held = FindInMemory(request.key)) return reply(*std::move(held));
  if (std::holds_alternative<Probe>(request.key)) return reply(Open(request));  // reads no file
  Executor& executor = std::holds_alternative<BlockKey>(request.key) ? parts_.blocks : parts_.io;
  executor.Post([this, request, reply = std::move(reply)] { reply(Open(request)); });
}

absl::StatusOr<DownloadContent> DataPlane::Open(const DownloadRequest& request) {
  struct Visitor {
    DataPlane& data;
    const WorkerId& worker;
    absl::StatusOr<DownloadContent> operator()(const UpdateKey& key) const { return data.OpenUpdate(key); }
    absl::StatusOr<DownloadContent> operator()(const FragmentKey& key) const { return data.OpenFragment(key, worker); }
    absl::StatusOr<DownloadContent> operator()(const BlockKey& key) const { return data.OpenBlock(key); }
    absl::StatusOr<DownloadContent> operator()(const BlobKey& key) const {
      ATOLL_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, data.parts_.blobs.Open(key.sha256));
      ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
      auto reader = std::make_shared<const FileByPath>(data.parts_.files, data.parts_.directory.BlobPath(key.sha256));
      return DownloadContent{
          {.total_bytes = size}, SourceOf(std::move(reader), size, absl::StrCat("file ", key.sha256.Hex())), {}};
    }
    absl::StatusOr<DownloadContent> operator()(const CheckpointFragmentKey& key) const {
      ATOLL_ASSIGN_OR_RETURN(auto reader, data.parts_.snapshots.OpenCheckpointReader(key.job, key.step, key.fragment));
      return ContentOf(std::move(reader), absl::StrCat("the checkpoint at step ", key.step, " of job ", key.job.value));
    }
    absl::StatusOr<DownloadContent> operator()(const Probe& probe) const {
      return DownloadContent{{.total_bytes = probe.bytes}, MakeProbeSource(probe.bytes), {}};
    }
  };
  return std::visit(Visitor{*this, request.worker}, request.key);
}

absl::StatusOr<DownloadContent> DataPlane::OpenUpdate(const UpdateKey& key) {
  const std::shared_ptr<JobData> data = jobs_.Find(key.job);
  if (data == nullptr) return jobs_.WhyNotLoaded(key.job, NotRunning(key.job));
  if (key.reached.version.value == 0)
    return absl::InvalidArgumentError("no update produces version 0; fetch the fragment");
  {
    MutexLock lock(data->mutex);
    const auto committed = data->committed.find(key.reached.fragment);
    if (committed == data->committed.end() || committed->second < key.reached.version) {
      return absl::NotFoundError(absl::StrCat("version ", key.reached.version.value, " of fragment ",
                                              key.reached.fragment.value, " is not committed"));
    }
  }
  if (std::optional<DownloadContent> held = FindInMemory(key)) return *std::move(held);
  const RoundKey round{key.job, data->epoch, {key.reached.fragment, Version{key.reached.version.value - 1}}};
  auto update = parts_.rounds.OpenUpdate(round, data->layout.digest);
  if (absl::IsNotFound(update.status())) {
    return absl::NotFoundError(absl::StrCat("the update to version ", key.reached.version.value, " of fragment ",
                                            key.reached.fragment.value, " is no longer kept; fetch the fragment"));
  }
  ATOLL_RETURN_IF_ERROR(update.status());
  const UpdateInfo& info = (*update)->info();
  return ContentOf(info, SourceOf(*update, info.encoded_bytes, absl::StrCat("the update to ", NameOf(key.reached))));
}

std::optional<DownloadContent> DataPlane::FindInMemory(const DownloadKey& key) const {
  const auto* wanted = std::get_if<UpdateKey>(&key);
  const std::shared_ptr<JobData> data = wanted == nullptr ? nullptr : jobs_.Find(wanted->job);
  if (data == nullptr) return std::nullopt;
  MutexLock lock(data->mutex);
  const auto is_it = [wanted](const PublishedUpdate& update) { return update.info.reached == wanted->reached; };
  const auto newest = data->published.find(wanted->reached.fragment);
  if (newest != data->published.end() && is_it(newest->second))
    return ContentOf(newest->second.info, newest->second.source);
  const auto unlogged = std::find_if(data->unlogged.begin(), data->unlogged.end(), is_it);
  if (unlogged == data->unlogged.end()) return std::nullopt;
  return ContentOf(unlogged->info, unlogged->source);
}

absl::StatusOr<DownloadContent> DataPlane::OpenFragment(const FragmentKey& key, const WorkerId& worker) {
  const std::shared_ptr<JobData> data = jobs_.Find(key.job);
  if (data == nullptr) return jobs_.WhyNotLoaded(key.job, NotRunning(key.job));
  const FragmentIndex fragment = key.at.fragment;
  Version committed;
  bool may_go_on = false;
  {
    MutexLock lock(data->mutex);
    const auto it = data->committed.find(fragment);
    if (it == data->committed.end())
      return absl::NotFoundError(absl::StrCat("job ", key.job.value, " has no fragment ", fragment.value));
    committed = it->second;
    may_go_on = data->pins[fragment.value].MayGoOn(key.at.version, committed);
  }
  ATOLL_ASSIGN_OR_RETURN(const std::optional<Version> newest,
                         parts_.snapshots.NewestUpTo(key.job, data->epoch, fragment, committed));
  if (!newest.has_value())
    return absl::NotFoundError(absl::StrCat("fragment ", fragment.value, " has no snapshot yet"));
  const FragmentVersion at{fragment, key.newest ? *newest : key.at.version};
  // A worker can catch up from this snapshot only if the updates since it still exist.
  const bool caught_up_from =
      at.version == *newest || (may_go_on && parts_.rounds.HasUpdate({key.job, data->epoch, at}));
  absl::StatusOr<std::shared_ptr<SnapshotReader>> reader =
      caught_up_from ? parts_.snapshots.OpenReader({key.job, data->epoch, at}) : absl::NotFoundError("");
  if (absl::IsNotFound(reader.status())) {
    return absl::NotFoundError(absl::StrCat("version ", at.version.value, " of fragment ", fragment.value,
                                            " is no longer kept; fetch the newest"));
  }
  ATOLL_RETURN_IF_ERROR(reader.status());
  DownloadContent content = ContentOf(*std::move(reader), NameOf(at));
  if (!worker.value.empty()) {
    content.source = Holding(std::make_shared<DownloadPin>(data, at, worker, parts_.clock), std::move(content.source));
  }
  return content;
}

void DataPlane::NoteCatchUp(const DownloadRequest& request) {
  const auto* update = std::get_if<UpdateKey>(&request.key);
  const std::shared_ptr<JobData> data = update == nullptr ? nullptr : jobs_.Find(update->job);
  if (data == nullptr) return;
  MutexLock lock(data->mutex);
  const auto committed = data->committed.find(update->reached.fragment);
  if (committed == data->committed.end()) return;
  data->pins[update->reached.fragment.value].AskedForUpdate(request.worker, update->reached.version, committed->second,
                                                            parts_.clock.Now());
}

absl::StatusOr<DownloadContent> DataPlane::OpenBlock(const BlockKey& key) {
  if (parts_.data_root.empty()) {
    return absl::NotFoundError(absl::StrCat("shard ", key.shard,
                                            " is not served: the coordinator was started without --data-root; set it, "
                                            "or start the worker with the corpus below its own --data-root"));
  }
  ATOLL_ASSIGN_OR_RETURN(const auto known, manifests_.Get(key.manifest));
  const CorpusManifest& manifest = *known;
  const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                 [&key](const CorpusFile& f) { return f.name == key.shard; });
  if (file == manifest.files.end() || key.block >= file->blocks.size()) {
    return absl::NotFoundError(
        absl::StrCat("the manifest of corpus ", manifest.name, " has no block ", key.block, " of a shard ", key.shard));
  }
  const std::vector<std::string> places = CorpusDirectories(parts_.data_root, manifest.name);
  const std::string of_corpus = JoinPath(places[0], key.shard), beside = JoinPath(places[1], key.shard);
  if (!parts_.files.Exists(of_corpus) && !parts_.files.Exists(beside)) {
    return absl::NotFoundError(absl::StrCat("shard ", key.shard, " of corpus ", manifest.name,
                                            " cannot be served from the coordinator's data root: neither ", of_corpus,
                                            " nor ", beside, " exists"));
  }
  const std::string path = parts_.files.Exists(of_corpus) ? of_corpus : beside;
  auto shard = TokenShard::Open(parts_.files, path);
  if (!shard.ok()) {
    return Annotate(shard.status(), absl::StrCat("shard ", key.shard, " of corpus ", manifest.name,
                                                 " cannot be served from the coordinator's data root"));
  }
  const uint64_t begin = key.block * kBlockBytes;
  std::vector<std::byte> bytes(std::min(kBlockBytes, (*shard)->area_bytes() - std::min((*shard)->area_bytes(), begin)));
  ATOLL_RETURN_IF_ERROR((*shard)->ReadArea(begin, bytes));
  if (Sha256Of(bytes) != file->blocks[key.block]) {
    return absl::DataLossError(
        absl::StrCat("block ", key.block, " of ", path,
                     " does not have the hash of the manifest; 'atoll data verify' checks the whole corpus"));
  }
  // The block is read again while it is sent, so that a slow receiver holds no memory.
  auto reader = std::make_shared<const BlockReader>(parts_.files, path, begin);
  return DownloadContent{
      {.total_bytes = bytes.size()}, SourceOf(std::move(reader), bytes.size(), absl::StrCat("shard ", key.shard)), {}};
}

}  // namespace atl
