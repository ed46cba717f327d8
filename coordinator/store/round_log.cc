// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/round_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/random.h"
#include "common/plan/limits.h"
#include "coordinator/store/round_segment.h"

namespace atl {
namespace {

constexpr char kFailedFlush[] = "atoll/failed-flush";  // payload of a status

}  // namespace

bool IsFailedFlush(const absl::Status& opened) { return opened.GetPayload(kFailedFlush).has_value(); }

RoundLog::RoundLog(Files& files, DataDirectory directory, BootNumber boot, uint64_t secret)
    : files_(files), directory_(std::move(directory)), boot_(boot), secret_(secret) {}
RoundLog::~RoundLog() = default;

absl::StatusOr<std::shared_ptr<RoundSegment>> RoundLog::Find(const RoundKey& key) const {
  MutexLock lock(mutex_);
  const auto it = open_.find(key);
  if (it != open_.end()) return it->second;
  return absl::NotFoundError(absl::StrCat("round log segment ", directory_.SegmentPath(key), " is not open"));
}

std::shared_ptr<RoundSegment> RoundLog::Take(const RoundKey& key) {
  MutexLock lock(mutex_);
  const auto it = open_.find(key);
  if (it == open_.end()) return nullptr;
  std::shared_ptr<RoundSegment> segment = std::move(it->second);
  open_.erase(it);
  return segment;
}

absl::StatusOr<bool> RoundLog::FindSame(const RoundKey& key, Digest layout) const {
  const auto known = Find(key);
  if (!known.ok()) return false;
  MutexLock lock((*known)->mutex);
  ATOLL_RETURN_IF_ERROR((*known)->CheckIdentity(key, layout));
  return true;
}

absl::Status RoundLog::OpenCommitted(const RoundKey& key, Digest layout) {
  ATOLL_ASSIGN_OR_RETURN(bool known, FindSame(key, layout));
  if (known) return absl::OkStatus();  // does not wait for segments being opened
  MutexLock opening(opening_);
  ATOLL_ASSIGN_OR_RETURN(known, FindSame(key, layout));
  if (known) return absl::OkStatus();
  const std::string path = directory_.SegmentPath(key);
  if (!files_.Exists(path)) {
    return absl::DataLossError(
        absl::StrCat("round log segment ", path,
                     " of a committed round is missing: restore the file from a backup of the state directory"));
  }
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForRead(path));
  const auto segment = std::make_shared<RoundSegment>(std::move(file), path, boot_);
  {
    MutexLock lock(segment->mutex);
    segment->broken = absl::FailedPreconditionError(
        absl::StrCat("round log segment ", path, " belongs to a committed round and cannot be appended to"));
    ATOLL_RETURN_IF_ERROR(segment->Scan(key, layout));
  }
  MutexLock lock(mutex_);
  open_.try_emplace(key, segment);
  return absl::OkStatus();
}

absl::Status RoundLog::Open(const RoundKey& key, Digest layout) {
  ATOLL_ASSIGN_OR_RETURN(bool known, FindSame(key, layout));
  if (known) return absl::OkStatus();  // does not wait for segments being opened
  MutexLock opening(opening_);
  ATOLL_ASSIGN_OR_RETURN(known, FindSame(key, layout));
  if (known) return absl::OkStatus();
  const std::string path = directory_.SegmentPath(key), directory = DirectoryOf(path);
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files_, directory_.root(), directory));
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForAppend(path));
  const auto segment = std::make_shared<RoundSegment>(std::move(file), path, boot_);
  {
    MutexLock lock(segment->mutex);
    absl::Status scanned = segment->Scan(key, layout);
    if (segment->has_header && !segment->broken.ok()) scanned.SetPayload(kFailedFlush, absl::Cord());
    ATOLL_RETURN_IF_ERROR(scanned);
    if (!segment->has_header) {
      segment->next_sequence = StreamKey(secret_, path);
      segment->header = {kSegmentRevision, key.job, key.epoch, key.target, layout, boot_};
      const std::string header = SerializeSegmentHeader(segment->header);
      // The directory is flushed first, so that a file with a header always has a durable name.
      absl::Status begun = files_.SyncDirectory(directory);
      if (begun.ok()) begun = segment->AppendRecord(RecordType::kSegmentHeader, std::array{AsBytes(header)});
      if (begun.ok()) begun = segment->Flush();
      if (!begun.ok()) (void)files_.Remove(path);  // otherwise the next attempt would consider it durable
      ATOLL_RETURN_IF_ERROR(begun);
      segment->has_header = true;
    }
  }
  MutexLock lock(mutex_);
  open_.try_emplace(key, segment);
  return absl::OkStatus();
}

absl::Status RoundLog::MakeDurable(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  return segment->file->Sync();
}

absl::StatusOr<uint64_t> RoundLog::Begin(const RoundKey& key, const ContributionHeader& header, Digest refused) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (header.job != key.job || header.target != key.target) {
    return absl::InvalidArgumentError("a contribution names another round than the one to which it is sent");
  }
  RoundContribution* known = segment->FindWorker(header.worker);
  const bool same = known != nullptr && known->record.header.digest == header.digest &&
                    known->record.header.encoded_bytes == header.encoded_bytes;
  if (known != nullptr && known->accepted && same) return known->length;
  if (known != nullptr && known->accepted && (refused.IsZero() || known->record.header.digest != refused)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "worker ", header.worker.value, " already has another contribution to version ", key.target.version.value,
        " of fragment ", key.target.fragment.value, ": include this work in the next version"));
  }
  const std::string begin = SerializeContributionBegin(header);
  if (same && SerializeContributionBegin(known->record.header) == begin) return known->length;
  const std::string head = SlotHead(same ? known->slot : segment->next_slot);
  const uint64_t record = kRecordHeaderBytes + head.size() + begin.size();
  ATOLL_RETURN_IF_ERROR(segment->CheckTaken(header.worker, header.encoded_bytes, record));
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kBegin, std::array{AsBytes(head), AsBytes(begin)}));
  segment->taken[header.worker] += record;
  if (same) {
    known->record.header = header;
    return known->length;
  }
  RoundContribution contribution;
  contribution.slot = segment->next_slot++;
  contribution.record.header = header;
  segment->contributions.insert_or_assign(header.worker, std::move(contribution));
  return 0;
}

uint64_t RoundLog::VerifiedPrefix(const RoundKey& key, const WorkerId& worker, Digest digest) const {
  const auto segment = Find(key);
  if (!segment.ok()) return 0;
  MutexLock lock((*segment)->mutex);
  const RoundContribution* contribution = (*segment)->FindWorker(worker);
  return contribution != nullptr && contribution->record.header.digest == digest ? contribution->length : 0;
}

absl::Status RoundLog::Append(const RoundKey& key, const WorkerId& worker, uint64_t offset,
                              std::span<const Bytes> pieces) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  RoundContribution* contribution = segment->FindWorker(worker);
  if (contribution == nullptr)
    return absl::NotFoundError(absl::StrCat("worker ", worker.value, " has not started a contribution"));
  uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  if (size > limits::kMessageBytes) return absl::InvalidArgumentError("more bytes than the limit of one message");
  if (offset != contribution->length || size > contribution->record.header.encoded_bytes - contribution->length ||
      contribution->accepted) {
    return absl::OutOfRangeError(absl::StrCat("bytes [", offset, ", ", offset + size, ") do not continue at ",
                                              contribution->length, " of ", contribution->record.header.encoded_bytes));
  }
  if (size == 0) return absl::OkStatus();
  const uint64_t record = kRecordHeaderBytes + kChunkHeadBytes + size;
  ATOLL_RETURN_IF_ERROR(segment->CheckTaken(worker, contribution->record.header.encoded_bytes, record));
  std::string head = SlotHead(contribution->slot);
  PutU64(head, offset);
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kChunk, std::array{AsBytes(head)}, pieces));
  segment->taken[worker] += record;
  contribution->chunks.push_back({segment->file_bytes - size, size});
  for (const Bytes& piece : pieces) contribution->hasher.Update(piece);
  contribution->length += size;
  return absl::OkStatus();
}

absl::Status RoundLog::CheckComplete(const RoundKey& key, const WorkerId& worker) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  return segment->CheckComplete(worker);
}

absl::Status RoundLog::Accept(const RoundKey& key, std::span<const WorkerId> workers, int64_t wall_nanos) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  std::vector<RoundContribution*> appended;
  for (const WorkerId& worker : workers) {
    ATOLL_RETURN_IF_ERROR(segment->CheckComplete(worker));
    RoundContribution& contribution = *segment->FindWorker(worker);
    if (contribution.accepted) continue;
    contribution.record.wall_nanos = wall_nanos;
    contribution.record.boot = boot_;
    const std::string head = SlotHead(contribution.slot), bytes = SerializeAccepted(contribution.record);
    ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kAccepted, std::array{AsBytes(head), AsBytes(bytes)}));
    appended.push_back(&contribution);
  }
  if (appended.empty()) return absl::OkStatus();
  ATOLL_RETURN_IF_ERROR(segment->Flush());
  for (RoundContribution* const contribution : appended) contribution->accepted = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> RoundLog::ReadContribution(const RoundKey& key, const WorkerId& worker,
                                                                  std::vector<std::byte> out) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  Digest digest;
  std::vector<RoundChunk>
      chunks;  // accepted chunks never change: reading outside the lock lets readers run in parallel
  {
    MutexLock lock(segment->mutex);
    const RoundContribution* contribution = segment->FindWorker(worker);
    if (contribution == nullptr || !contribution->accepted) {
      return absl::NotFoundError(
          absl::StrCat("no accepted contribution of worker ", worker.value, " in ", segment->path));
    }
    digest = contribution->record.header.digest;
    chunks = contribution->chunks;
    out.resize(contribution->length);
  }
  DigestHasher hasher;
  std::span<std::byte> rest(out);
  for (const RoundChunk& chunk : chunks) {
    const std::span<std::byte> piece = rest.first(chunk.bytes);
    ATOLL_RETURN_IF_ERROR(segment->file->ReadAt(chunk.file_offset, piece));
    hasher.Update(piece);  // while it is in the CPU cache
    rest = rest.subspan(chunk.bytes);
  }
  if (hasher.Finish() != digest) {
    return absl::DataLossError(absl::StrCat("the contribution of worker ", worker.value, " in ", segment->path,
                                            " no longer has its digest: the disk has damaged it"));
  }
  return out;
}

absl::Status RoundLog::WriteUpdate(const RoundKey& key, const UpdateInfo& info, Bytes encoded) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (encoded.size() != info.encoded_bytes)
    return absl::InternalError("an encoded update does not have the announced size");
  const std::string bytes = SerializeUpdateInfo(info);
  std::string head;
  PutU32(head, static_cast<uint32_t>(bytes.size()));
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kUpdate, std::array{AsBytes(head), AsBytes(bytes), encoded}));
  ATOLL_RETURN_IF_ERROR(segment->Flush());
  segment->update = info;
  segment->update_bytes = {segment->file_bytes - encoded.size(), encoded.size()};
  segment->has_update = true;
  ForgetUpdate(key);  // the segment may have had an earlier update
  return absl::OkStatus();
}

absl::StatusOr<UpdateInfo> RoundLog::FindUpdate(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (!segment->has_update) return absl::NotFoundError(absl::StrCat("no update in ", segment->path));
  return segment->update;
}

absl::StatusOr<SegmentInfo> RoundLog::Info(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  SegmentInfo info{
      key, {}, segment->has_update, segment->update, segment->file_bytes, segment->path, segment->cut_bytes};
  for (const auto& [worker, contribution] : segment->contributions) {
    if (contribution.accepted) info.accepted.push_back(contribution.record);
  }
  return info;
}

void RoundLog::Close(const RoundKey& key) { Take(key); }

absl::Status RoundLog::Drop(const RoundKey& key) {
  Take(key);
  ForgetUpdate(key);
  return files_.Remove(directory_.SegmentPath(key));
}

}  // namespace atl
