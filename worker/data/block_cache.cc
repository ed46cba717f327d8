// SPDX-License-Identifier: Apache-2.0
#include "worker/data/block_cache.h"

#include <utility>
#include <vector>

namespace atl {
namespace {

constexpr char kPartSuffix[] = ".part";

}  // namespace

CachedBlockSource::CachedBlockSource(Files& files, std::string directory, uint64_t limit_bytes,
                                     CorpusManifests manifests, BlockSource& inner)
    : files_(files),
      directory_(std::move(directory)),
      limit_bytes_(limit_bytes),
      manifests_(std::move(manifests)),
      inner_(inner) {}

absl::StatusOr<std::unique_ptr<CachedBlockSource>> CachedBlockSource::Create(Files& files, std::string directory,
                                                                             uint64_t limit_bytes,
                                                                             CorpusManifests manifests,
                                                                             BlockSource& inner) {
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(directory));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::unique_ptr<CachedBlockSource> out(
      new CachedBlockSource(files, directory, limit_bytes, std::move(manifests), inner));
  const MutexLock lock(out->mutex_);
  for (const std::string& name : names) {
    Sha256 hash;
    if (!Sha256::FromHex(name, hash)) {
      // Removes a file that a crash left incomplete. Files with other names do not belong to the cache.
      if (name.ends_with(kPartSuffix)) files.Remove(JoinPath(directory, name)).IgnoreError();
      continue;
    }
    // An unreadable file is fetched again: the cache only saves work.
    const absl::StatusOr<std::unique_ptr<File>> file = files.OpenForRead(JoinPath(directory, name));
    const absl::StatusOr<uint64_t> bytes = file.ok() ? (*file)->Size() : file.status();
    if (!bytes.ok()) continue;
    out->entries_[hash] = {.bytes = *bytes, .used = ++out->stamp_};
    out->by_use_[out->stamp_] = hash;
    out->used_bytes_ += *bytes;
  }
  out->MakeRoom(0);
  return out;
}

uint64_t CachedBlockSource::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_bytes_;
}

absl::StatusOr<std::string> CachedBlockSource::FetchBlock(const BlockId& id) {
  ATOLL_RETURN_IF_ERROR(CheckBlockId(*manifests_, id));
  const CorpusManifest& manifest = (*manifests_)[id.corpus];
  const Sha256& hash = BlockHash(manifest, id);
  {
    const MutexLock lock(mutex_);
    while (true) {
      absl::StatusOr<std::string> cached = ReadCached(hash, BlockSizeBytes(manifest, id));
      if (cached.ok()) return cached;
      if (!fetching_.contains(hash)) break;
      fetched_.Wait(mutex_);
    }
    fetching_.insert(hash);
  }
  absl::StatusOr<std::string> bytes = inner_.FetchBlock(id);
  if (bytes.ok()) {
    if (absl::Status wrong = CheckBlock(manifest, id, *bytes, "the coordinator's answer"); !wrong.ok()) bytes = wrong;
  }
  {
    const MutexLock lock(mutex_);
    if (bytes.ok()) Keep(hash, *bytes);
    fetching_.erase(hash);
  }
  fetched_.NotifyAll();
  return bytes;
}

absl::Status CachedBlockSource::KeepBlock(const BlockId& id) {
  ATOLL_RETURN_IF_ERROR(CheckBlockId(*manifests_, id));
  const CorpusManifest& manifest = (*manifests_)[id.corpus];
  const Sha256& hash = BlockHash(manifest, id);
  const uint64_t bytes = BlockSizeBytes(manifest, id);
  {
    const MutexLock lock(mutex_);
    // FetchBlock verifies the hash of each block that it reads. KeepBlock checks only the size of a
    // cached block, because a power cut can leave an empty file.
    const auto kept = entries_.find(hash);
    if (kept != entries_.end() && kept->second.bytes != bytes) Forget(hash);
    if (MarkUsed(hash) || !writable_ || bytes > limit_bytes_) return absl::OkStatus();
  }
  return FetchBlock(id).status();
}

absl::StatusOr<std::string> CachedBlockSource::ReadCached(const Sha256& hash, uint64_t size) {
  if (!entries_.contains(hash)) return absl::NotFoundError("not cached");
  absl::StatusOr<std::string> bytes = ReadWholeFile(files_, JoinPath(directory_, hash.Hex()), size);
  if (!bytes.ok() || Sha256Of(AsBytes(*bytes)) != hash) {
    Forget(hash);
    return absl::DataLossError("damaged in the cache");
  }
  MarkUsed(hash);
  return bytes;
}

bool CachedBlockSource::MarkUsed(const Sha256& hash) {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return false;
  by_use_.erase(found->second.used);
  found->second.used = ++stamp_;
  by_use_[stamp_] = hash;
  return true;
}

// Writes a block to the cache. A full disk or a failed write is no error: the cache only saves work.
void CachedBlockSource::Keep(const Sha256& hash, const std::string& bytes) {
  if (bytes.size() > limit_bytes_ || entries_.contains(hash)) return;
  MakeRoom(bytes.size());
  const std::string path = JoinPath(directory_, hash.Hex()), part = path + kPartSuffix;
  auto file = files_.OpenForAppend(part);
  writable_ = file.ok();
  if (!writable_) return;
  // The file is not flushed: ReadCached detects damage from a crash by the hash.
  writable_ = (*file)->Truncate(0).ok() && (*file)->Append(AsBytes(bytes)).ok() && files_.Rename(part, path).ok();
  if (!writable_) {
    files_.Remove(part).IgnoreError();
    return;
  }
  entries_[hash] = {.bytes = bytes.size(), .used = ++stamp_};
  by_use_[stamp_] = hash;
  used_bytes_ += bytes.size();
}

void CachedBlockSource::MakeRoom(uint64_t bytes) {
  while (!by_use_.empty() && used_bytes_ + bytes > limit_bytes_) Forget(Sha256(by_use_.begin()->second));
}

void CachedBlockSource::Forget(const Sha256& hash) {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return;
  files_.Remove(JoinPath(directory_, hash.Hex())).IgnoreError();
  used_bytes_ -= found->second.bytes;
  by_use_.erase(found->second.used);
  entries_.erase(found);
}

}  // namespace atl
