// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/update_reader.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "coordinator/store/pieces.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/round_segment.h"

namespace atl {
namespace {

constexpr size_t kUpdatesKnown = 1024;  // over all jobs

absl::Status CheckDigest(const File& file, uint64_t offset, const UpdateInfo& info, const std::string& path) {
  DigestHasher hasher;
  ATOLL_RETURN_IF_ERROR(
      ReadInPieces(file, offset, info.encoded_bytes, [&hasher](Bytes piece) { hasher.Update(piece); }));
  if (hasher.Finish() == info.digest) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the update in ", path, " no longer has its digest: the disk has damaged it"));
}

}  // namespace

UpdateReader::UpdateReader(const Files& files, std::string path, std::string kept_path, UpdateInfo info,
                           uint64_t file_offset)
    : files_(files), path_(std::move(path)), kept_path_(std::move(kept_path)), info_(info), file_offset_(file_offset) {}

absl::Status UpdateReader::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > info_.encoded_bytes || out.size() > info_.encoded_bytes - offset)
    return absl::OutOfRangeError("read beyond an encoded update");
  const auto file = files_.OpenForRead(path_);
  if (file.ok()) return (*file)->ReadAt(file_offset_ + offset, out);
  if (!absl::IsNotFound(file.status())) return file.status();
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> kept, files_.OpenForRead(kept_path_));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, kept->Size());
  if (size < info_.encoded_bytes)
    return absl::DataLossError(
        absl::StrCat("the file ", kept_path_, " is shorter than its update: the disk has damaged it"));
  return kept->ReadAt(size - info_.encoded_bytes + offset, out);
}

absl::StatusOr<std::shared_ptr<const UpdateReader>> RoundLog::OpenUpdate(const RoundKey& key, Digest layout) {
  if (HasUpdate(key)) {
    MutexLock lock(mutex_);
    if (const auto known = updates_.find(key); known != updates_.end()) return known->second;
  }
  ATOLL_ASSIGN_OR_RETURN(const std::shared_ptr<const UpdateReader> reader, FindUpdateOnDisk(key, layout));
  MutexLock lock(mutex_);
  if (updates_.size() >= kUpdatesKnown && !updates_.contains(key)) updates_.erase(updates_.begin());
  updates_[key] = reader;
  return reader;
}

absl::StatusOr<std::shared_ptr<const UpdateReader>> RoundLog::FindUpdateOnDisk(const RoundKey& key,
                                                                               Digest layout) const {
  const std::string kept = directory_.KeptUpdatePath(key);
  std::string path = directory_.SegmentPath(key);
  if (!files_.Exists(path)) path = kept;
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForRead(path));
  const auto segment = std::make_shared<RoundSegment>(std::move(file), path, boot_);
  MutexLock lock(segment->mutex);
  segment->broken = absl::FailedPreconditionError("it is read for its update alone");
  ATOLL_RETURN_IF_ERROR(segment->Scan(key, layout, ScanOf::kUpdate));
  if (!segment->has_update) return absl::NotFoundError(absl::StrCat("no update in ", path));
  const uint64_t offset = segment->update_bytes.file_offset;
  ATOLL_RETURN_IF_ERROR(CheckDigest(*segment->file, offset, segment->update, path));
  return std::make_shared<const UpdateReader>(files_, path, kept, segment->update, offset);
}

void RoundLog::ForgetUpdate(const RoundKey& key) {
  MutexLock lock(mutex_);
  updates_.erase(key);
}

}  // namespace atl
