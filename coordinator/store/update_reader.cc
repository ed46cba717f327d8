// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/update_reader.h"

#include <algorithm>
#include <optional>
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

UpdateReader::UpdateReader(std::shared_ptr<File> file, UpdateInfo info, uint64_t file_offset)
    : file_(std::move(file)), info_(info), file_offset_(file_offset) {}

absl::Status UpdateReader::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > info_.encoded_bytes || out.size() > info_.encoded_bytes - offset)
    return absl::OutOfRangeError("read beyond an encoded update");
  return file_->ReadAt(file_offset_ + offset, out);
}

absl::StatusOr<std::shared_ptr<const UpdateReader>> RoundLog::OpenUpdate(const RoundKey& key, Digest layout) {
  std::optional<KnownUpdate> known;
  {
    MutexLock lock(mutex_);
    if (const auto it = updates_.find(key); it != updates_.end()) known = it->second;
  }
  if (known) {
    if (auto shared = known->reader.lock()) return shared;
  }
  std::string path = directory_.SegmentPath(key);
  if (!files_.Exists(path)) path = directory_.KeptUpdatePath(key);
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForRead(path));
  std::shared_ptr<const UpdateReader> reader;
  if (known) {
    reader = std::make_shared<UpdateReader>(std::move(file), known->info, known->file_offset);
  } else {
    ATOLL_ASSIGN_OR_RETURN(reader, FindUpdateIn(std::move(file), path, key, layout));
  }
  MutexLock lock(mutex_);
  if (updates_.size() >= kUpdatesKnown && !updates_.contains(key)) updates_.erase(updates_.begin());
  updates_[key] = {reader->info(), reader->file_offset(), reader};
  return reader;
}

absl::StatusOr<std::shared_ptr<const UpdateReader>> RoundLog::FindUpdateIn(std::unique_ptr<File> file,
                                                                           const std::string& path, const RoundKey& key,
                                                                           Digest layout) const {
  const auto segment = std::make_shared<RoundSegment>(std::move(file), path, boot_);
  MutexLock lock(segment->mutex);
  segment->broken = absl::FailedPreconditionError("it is read for its update alone");
  ATOLL_RETURN_IF_ERROR(segment->Scan(key, layout, ScanOf::kUpdate));
  if (!segment->has_update) return absl::NotFoundError(absl::StrCat("no update in ", path));
  const uint64_t offset = segment->update_bytes.file_offset;
  ATOLL_RETURN_IF_ERROR(CheckDigest(*segment->file, offset, segment->update, path));
  return std::make_shared<const UpdateReader>(std::shared_ptr<File>(segment, segment->file.get()), segment->update,
                                              offset);
}

void RoundLog::ForgetUpdate(const RoundKey& key) {
  MutexLock lock(mutex_);
  updates_.erase(key);
}

}  // namespace atl
