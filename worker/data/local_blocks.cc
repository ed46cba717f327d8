// SPDX-License-Identifier: Apache-2.0
#include "worker/data/local_blocks.h"

#include <filesystem>
#include <system_error>

#include "common/plan/data_order.h"

namespace atl {
namespace {

namespace fs = std::filesystem;
constexpr size_t kOpenShards = 64;

bool IsPlainRelative(const std::string& path) {
  const fs::path p(path);
  if (p.is_absolute()) return false;
  for (const fs::path& part : p) {
    if (part == "..") return false;
  }
  return true;
}

// `path` with links resolved. NotFound if that fails, PermissionDenied for a path outside of canonical `root`.
absl::StatusOr<std::string> ResolveBelow(const std::string& root, const std::string& path) {
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (real != root && real.rfind(root == "/" ? root : root + "/", 0) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is a link to ", real, ", outside the data root ", root,
                     ": move the file below the data root, or start with another --data-root"));
  }
  return real;
}

}  // namespace

LocalBlockSource::LocalBlockSource(const Files& files, std::string root, CorpusManifests manifests,
                                   std::vector<std::string> directories)
    : files_(files), root_(std::move(root)), manifests_(std::move(manifests)), directories_(std::move(directories)) {}

absl::StatusOr<std::unique_ptr<LocalBlockSource>> LocalBlockSource::Create(const Files& files, std::string data_root,
                                                                           CorpusManifests manifests,
                                                                           std::vector<std::string> directories) {
  std::error_code error;
  const std::string root = fs::canonical(data_root, error).string();
  if (error || !fs::is_directory(root, error)) {
    return absl::NotFoundError(absl::StrCat("--data-root ", data_root, " is not a directory"));
  }
  if (directories.size() != manifests->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(manifests->size(), " corpora but ", directories.size(), " directories"));
  }
  for (const std::string& directory : directories) {
    if (IsPlainRelative(directory)) continue;
    return absl::PermissionDeniedError(
        absl::StrCat("corpus directory ", directory, " must be a relative path without '..', below --data-root"));
  }
  return std::unique_ptr<LocalBlockSource>(
      new LocalBlockSource(files, root, std::move(manifests), std::move(directories)));
}

absl::StatusOr<std::string> LocalBlockSource::PathOf(uint32_t corpus, uint32_t file) const {
  const CorpusManifest& manifest = (*manifests_)[corpus];
  const std::string& name = manifest.files[file].name;
  if (!IsPlainRelative(name) || name.find('/') != std::string::npos) {
    return absl::PermissionDeniedError(absl::StrCat("shard name ", name, " is not a plain file name"));
  }
  const std::string inner = JoinPath(JoinPath(root_, directories_[corpus]), name), outer = JoinPath(root_, name);
  absl::StatusOr<std::string> found = ResolveBelow(root_, inner);
  if (absl::IsNotFound(found.status())) found = ResolveBelow(root_, outer);
  if (!absl::IsNotFound(found.status())) return found;
  return absl::NotFoundError(absl::StrCat("shard ", name, " of corpus '", manifest.name, "' is neither at ", inner,
                                          " nor at ", outer,
                                          ": copy the corpus there, or start without --data-root to fetch it"));
}

absl::StatusOr<std::shared_ptr<TokenShard>> LocalBlockSource::ShardOf(uint32_t corpus, uint32_t file) {
  const std::pair<uint32_t, uint32_t> key(corpus, file);
  const MutexLock lock(mutex_);
  if (const auto found = shards_.find(key); found != shards_.end()) return found->second;
  ATOLL_ASSIGN_OR_RETURN(const std::string path, PathOf(corpus, file));
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<TokenShard> opened, TokenShard::Open(files_, path));
  const CorpusManifest& manifest = (*manifests_)[corpus];
  if (opened->tokens() != manifest.files[file].tokens || opened->type() != manifest.token_type) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", opened->tokens(), " tokens of ", TokenTypeName(opened->type()),
                     ", the manifest of corpus '", manifest.name, "' has ", manifest.files[file].tokens, " of ",
                     TokenTypeName(manifest.token_type), ": the shard belongs to another corpus"));
  }
  if (opened_.size() >= kOpenShards) {
    shards_.erase(opened_.front());
    opened_.pop_front();
  }
  opened_.push_back(key);
  return shards_[key] = std::move(opened);
}

absl::Status LocalBlockSource::CheckCorpus(uint32_t corpus) const {
  const CorpusManifest& manifest = manifests_->at(corpus);
  for (uint32_t file = 0; file < manifest.files.size(); ++file) {
    if (manifest.files[file].split != CorpusSplit::kTrain) continue;
    ATOLL_ASSIGN_OR_RETURN(const std::string path, PathOf(corpus, file));
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> opened, files_.OpenForRead(path));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t bytes, opened->Size());
    if (bytes == manifest.files[file].bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes, " bytes, the manifest of corpus '",
                                                   manifest.name, "' has ", manifest.files[file].bytes,
                                                   ": copy it again"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalBlockSource::FetchBlock(const BlockId& id) {
  ATOLL_RETURN_IF_ERROR(CheckBlockId(*manifests_, id));
  const CorpusManifest& manifest = (*manifests_)[id.corpus];
  ATOLL_ASSIGN_OR_RETURN(const std::shared_ptr<TokenShard> shard, ShardOf(id.corpus, id.file));
  std::string bytes(BlockSizeBytes(manifest, id), '\0');
  ATOLL_RETURN_IF_ERROR(
      shard->ReadArea(uint64_t{id.block} * kBlockBytes, std::as_writable_bytes(std::span(bytes.data(), bytes.size()))));
  ATOLL_RETURN_IF_ERROR(CheckBlock(manifest, id, bytes, shard->path()));
  return bytes;
}

}  // namespace atl
