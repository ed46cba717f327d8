// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/blob_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr uint64_t kFlushedEvery = uint64_t{64} << 20;  // bytes, so that no flush takes long
constexpr uint64_t kHashedAtOnce = uint64_t{64} << 20;
constexpr std::chrono::hours kStale{7 * 24};

absl::Status NotStored(const Sha256& sha256) {
  return absl::NotFoundError(absl::StrCat("no file with SHA-256 ", sha256.Hex(), " is stored; upload it first"));
}

absl::Status TakenOver() {
  return absl::UnavailableError("another upload of this file is in progress, or has stored it; ask again");
}

}  // namespace

// An upload in progress.
struct BlobStore::Part {
  uint64_t turn = 0;
  std::unique_ptr<File> file;
  uint64_t announced_bytes = 0;
  uint64_t length = 0;
  uint64_t flushed = 0;
  // The hash of the first `hashed` bytes. Append updates it in an upload that began at 0. After a
  // resume HashSome computes it, and reads all bytes back.
  Sha256Hasher hasher;
  uint64_t hashed = 0;

  absl::Status HashSome(uint64_t most) {
    std::vector<std::byte> buffer(kReadBytes);
    for (const uint64_t end = std::min(length, hashed + most); hashed < end;) {
      const std::span<std::byte> piece(buffer.data(), std::min<uint64_t>(kReadBytes, end - hashed));
      ATOLL_RETURN_IF_ERROR(file->ReadAt(hashed, piece));
      hasher.Update(piece);
      hashed += piece.size();
    }
    return absl::OkStatus();
  }
};

BlobStore::BlobStore(Files& files, DataDirectory directory) : files_(files), directory_(std::move(directory)) {}
BlobStore::~BlobStore() = default;

bool BlobStore::Has(const Sha256& sha256) const { return files_.Exists(directory_.BlobPath(sha256)); }

std::vector<Sha256> BlobStore::Missing(const std::vector<Sha256>& wanted) const {
  std::vector<Sha256> missing;
  for (const Sha256& sha256 : wanted) {
    if (!Has(sha256)) missing.push_back(sha256);
  }
  return missing;
}

uint64_t BlobStore::StillToCome(const Sha256& beside) const {
  uint64_t bytes = 0;
  for (const auto& [sha256, part] : parts_) bytes += sha256 == beside ? 0 : part->announced_bytes - part->length;
  return bytes;
}

BlobStore::Parts::iterator BlobStore::Find(const Sha256& sha256, uint64_t turn) {
  const auto it = parts_.find(sha256);
  return it == parts_.end() || it->second->turn == turn ? it : parts_.end();
}

absl::StatusOr<BlobStore::Begun> BlobStore::Begin(const Sha256& sha256, uint64_t bytes) {
  if (bytes > limits::kBlobBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a stored file may have at most ", limits::kBlobBytes, " bytes; this one has ", bytes));
  }
  const uint64_t turn = ++turns_;
  if (Has(sha256)) return Begun{bytes, turn};
  const std::string path = directory_.BlobPartPath(sha256);
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files_, directory_.root(), DirectoryOf(path)));
  parts_.erase(sha256);
  auto part = std::make_unique<Part>();
  part->turn = turn;
  ATOLL_ASSIGN_OR_RETURN(part->file, files_.OpenForAppend(path));
  ATOLL_ASSIGN_OR_RETURN(part->length, part->file->Size());
  if (part->length > bytes) {  // the length announced before was larger: start again
    ATOLL_RETURN_IF_ERROR(part->file->Truncate(0));
    part->length = 0;
  }
  part->announced_bytes = bytes;
  const uint64_t length = part->length;
  parts_[sha256] = std::move(part);
  return Begun{length, turn};
}

absl::Status BlobStore::Append(const Sha256& sha256, uint64_t turn, uint64_t offset, std::span<const Bytes> pieces) {
  const auto it = Find(sha256, turn);
  if (it == parts_.end()) return TakenOver();
  Part& part = *it->second;
  uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  if (offset != part.length || size > part.announced_bytes - part.length) {
    return absl::OutOfRangeError(absl::StrCat("bytes [", offset, ", ", offset + size, ") do not continue at ",
                                              part.length, " of ", part.announced_bytes));
  }
  for (const Bytes& piece : pieces) {
    absl::Status appended = part.file->Append(piece);
    if (!appended.ok()) {
      ATOLL_RETURN_IF_ERROR(part.file->Truncate(part.length));
      return appended;
    }
  }
  if (part.hashed == part.length) {
    for (const Bytes& piece : pieces) part.hasher.Update(piece);
    part.hashed += size;
  }
  part.length += size;
  if (part.length - part.flushed < kFlushedEvery) return absl::OkStatus();
  part.flushed = part.length;
  absl::Status flushed = part.file->Sync();
  if (!flushed.ok()) Discard(it);
  return flushed;
}

void BlobStore::Discard(Parts::iterator part) {
  (void)files_.Remove(directory_.BlobPartPath(part->first));
  parts_.erase(part);
}

absl::StatusOr<bool> BlobStore::FinishSome(const Sha256& sha256, uint64_t turn) {
  if (Has(sha256)) return true;
  const auto it = Find(sha256, turn);
  if (it == parts_.end()) return TakenOver();
  Part& part = *it->second;
  if (part.length != part.announced_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file has ", part.length, " of ", part.announced_bytes, " bytes"));
  }
  const std::string path = directory_.BlobPath(sha256), part_path = directory_.BlobPartPath(sha256);
  ATOLL_RETURN_IF_ERROR(part.HashSome(kHashedAtOnce));
  if (part.hashed < part.length) return false;
  const Sha256 actual = part.hasher.Finish();
  if (actual != sha256) {
    parts_.erase(it);
    ATOLL_RETURN_IF_ERROR(files_.Remove(part_path));
    return absl::DataLossError(absl::StrCat("the file that was uploaded as ", sha256.Hex(), " has the SHA-256 ",
                                            actual.Hex(), "; upload it again"));
  }
  absl::Status synced = part.file->Sync();
  if (!synced.ok()) {
    Discard(it);  // the state on disk is unknown after a failed flush, and the next flush would report no error
    return synced;
  }
  parts_.erase(it);
  ATOLL_RETURN_IF_ERROR(files_.Rename(part_path, path));
  synced = files_.SyncDirectory(DirectoryOf(path));
  if (synced.ok()) synced = files_.SyncDirectory(DirectoryOf(DirectoryOf(path)));
  if (!synced.ok()) {
    (void)files_.Remove(path);  // otherwise the next attempt would consider it durable
    return synced;
  }
  return true;
}

void BlobStore::Suspend(const Sha256& sha256, uint64_t turn) {
  const auto it = Find(sha256, turn);
  if (it == parts_.end()) return;
  if (it->second->length == 0) (void)files_.Remove(directory_.BlobPartPath(sha256));
  parts_.erase(it);
}

absl::StatusOr<std::shared_ptr<const File>> BlobStore::Open(const Sha256& sha256) const {
  if (!Has(sha256)) return NotStored(sha256);
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForRead(directory_.BlobPath(sha256)));
  return std::shared_ptr<const File>(std::move(file));
}

absl::StatusOr<std::string> BlobStore::Read(const Sha256& sha256, uint64_t limit_bytes) const {
  if (!Has(sha256)) return NotStored(sha256);
  ATOLL_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(files_, directory_.BlobPath(sha256), limit_bytes));
  if (Sha256Of(AsBytes(content)) != sha256) {
    return absl::DataLossError(absl::StrCat("the stored file ", directory_.BlobPath(sha256),
                                            " no longer has its SHA-256; remove it and upload it again"));
  }
  return content;
}

absl::Status DropStaleParts(const DataDirectory& directory) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(JoinPath(directory.root(), "blobs"), error);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::vector<std::filesystem::path> stale;
  while (!error && at != std::filesystem::recursive_directory_iterator()) {
    const auto written = std::filesystem::last_write_time(at->path(), error);
    if (!error && at->path().extension() == ".part" && now - written >= kStale) stale.push_back(at->path());
    if (!error) at.increment(error);
  }
  for (const std::filesystem::path& path : stale) {
    if (!error) std::filesystem::remove(path, error);
  }
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("removing old part files below ", directory.root(), ": ", error.message()));
}

}  // namespace atl
