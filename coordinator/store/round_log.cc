#include "coordinator/store/round_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/plan/limits.h"
#include "coordinator/store/segment_format.h"

namespace atl {
namespace {

// A run of a contribution's bytes in the file.
struct Chunk {
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
};

struct Contribution {
  uint32_t slot = 0;
  ContributionHeader header;
  uint64_t length = 0;
  DigestHasher hasher;  // over the bytes so far
  std::vector<Chunk> chunks;
  bool accepted = false;
  AcceptedRecord trailer;  // meaningful when accepted
};

constexpr size_t kSlotBytes = 4;
constexpr size_t kChunkHeadBytes = 12;  // slot, offset

std::string SlotHead(uint32_t slot) {
  std::string head;
  PutU32(head, slot);
  return head;
}

absl::Status Strange(const std::string& path, const char* what) {
  return absl::DataLossError(absl::StrCat("round log segment ", path, " contradicts itself: ", what));
}

std::string TextOf(Bytes bytes) { return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

}  // namespace

// One open segment file and what is in it.
struct RoundLog::Segment {
  Segment(std::unique_ptr<File> f, std::string p, BootNumber b) : file(std::move(f)), path(std::move(p)), boot(b) {}

  absl::Status Scan(const RoundKey& key, Digest layout) ATOLL_REQUIRES(mutex);
  absl::Status Visit(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitHeader(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitBegin(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitChunk(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitAccepted(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitUpdate(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status CheckIdentity(const RoundKey& key, Digest layout) ATOLL_REQUIRES(mutex);

  // Appends one record of these payload pieces; after an error the file is as before. Fails for good once that did not
  // work.
  absl::Status AppendRecord(RecordType type, std::span<const Bytes> payload) ATOLL_REQUIRES(mutex);
  absl::Status Flush() ATOLL_REQUIRES(mutex);
  Contribution* FindSlot(uint32_t slot) ATOLL_REQUIRES(mutex);
  Contribution* FindWorker(const WorkerId& worker) ATOLL_REQUIRES(mutex);
  absl::Status Abandon(const WorkerId& worker) ATOLL_REQUIRES(mutex);
  absl::Status CheckComplete(const WorkerId& worker) ATOLL_REQUIRES(mutex);

  Mutex mutex;
  const std::unique_ptr<File> file;
  const std::string path;
  const BootNumber boot;
  bool has_header ATOLL_GUARDED_BY(mutex) = false;
  SegmentHeader header ATOLL_GUARDED_BY(mutex);
  std::map<WorkerId, Contribution> contributions ATOLL_GUARDED_BY(mutex);
  uint32_t next_slot ATOLL_GUARDED_BY(mutex) = 1;
  bool has_update ATOLL_GUARDED_BY(mutex) = false;
  UpdateInfo update ATOLL_GUARDED_BY(mutex);
  Chunk update_bytes ATOLL_GUARDED_BY(mutex);
  uint64_t file_bytes ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t flushed_bytes ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t next_sequence ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t chain ATOLL_GUARDED_BY(mutex) = 0;
  absl::Status broken ATOLL_GUARDED_BY(mutex);
};

// ---- reading --------------------------------------------------------------------------------------------------------

absl::Status RoundLog::Segment::Scan(const RoundKey& key, Digest layout) {
  ATOLL_ASSIGN_OR_RETURN(const ScanResult result,
                         ScanSegment(*file, path,
                                     [this](const ScannedRecord& record, Bytes head)
                                         ATOLL_NO_THREAD_SAFETY_ANALYSIS { return Visit(record, head); }));
  if (result.last_boot > boot.value) {
    return absl::FailedPreconditionError(
        absl::StrCat("round log segment ", path, " was written at boot ", result.last_boot, ", the ledger is at boot ",
                     boot.value, ": the ledger is older than the log; restore both from the same copy"));
  }
  file_bytes = result.valid_bytes;
  next_sequence = result.next_sequence;
  chain = result.chain;
  if (result.torn) ATOLL_RETURN_IF_ERROR(file->Truncate(file_bytes));
  if (has_header) ATOLL_RETURN_IF_ERROR(CheckIdentity(key, layout));
  return Flush();
}

absl::Status RoundLog::Segment::CheckIdentity(const RoundKey& key, Digest layout) {
  if (header.format_revision > kSegmentRevision) {
    return absl::FailedPreconditionError(absl::StrCat("round log segment ", path, " has format revision ",
                                                      header.format_revision, ", this program reads up to ",
                                                      kSegmentRevision, ": use the newer program"));
  }
  if (header.job != key.job || header.epoch != key.epoch || header.target != key.target) {
    return Strange(path, "it belongs to another round than its name says");
  }
  if (header.layout != layout) {
    return absl::FailedPreconditionError(
        absl::StrCat("round log segment ", path, " belongs to a model or fragment plan with another layout"));
  }
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::Visit(const ScannedRecord& record, Bytes head) {
  if (!has_header && record.header.type != RecordType::kSegmentHeader)
    return Strange(path, "it does not begin with a header");
  switch (record.header.type) {
    case RecordType::kSegmentHeader: return VisitHeader(head);
    case RecordType::kBegin: return VisitBegin(head);
    case RecordType::kChunk: return VisitChunk(record, head);
    case RecordType::kAccepted: return VisitAccepted(head);
    case RecordType::kUpdate: return VisitUpdate(record, head);
    case RecordType::kAbandon: break;
  }
  if (head.size() != kSlotBytes) return Strange(path, "an abandoned contribution has a wrong size");
  const uint32_t slot = GetU32(head);
  std::erase_if(contributions,
                [slot](const auto& entry) { return entry.second.slot == slot && !entry.second.accepted; });
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::VisitHeader(Bytes head) {
  if (has_header) return Strange(path, "it has two headers");
  ATOLL_ASSIGN_OR_RETURN(header, ParseSegmentHeader(TextOf(head)));
  has_header = true;
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::VisitBegin(Bytes head) {
  if (head.size() < kSlotBytes) return Strange(path, "a contribution has no slot");
  const uint32_t slot = GetU32(head);
  ATOLL_ASSIGN_OR_RETURN(ContributionHeader begun, ParseContributionBegin(TextOf(head.subspan(kSlotBytes))));
  next_slot = std::max(next_slot, slot + 1);
  // The same slot again: the same bytes under a newer header (another incarnation of the worker).
  if (Contribution* known = FindSlot(slot)) {
    known->header = std::move(begun);
    return absl::OkStatus();
  }
  Contribution contribution;
  contribution.slot = slot;
  const WorkerId worker = begun.worker;
  contribution.header = std::move(begun);
  contributions.insert_or_assign(worker, std::move(contribution));
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::VisitChunk(const ScannedRecord& record, Bytes head) {
  if (head.size() != record.header.payload_bytes || head.size() <= kChunkHeadBytes)
    return Strange(path, "a chunk has a wrong size");
  Contribution* contribution = FindSlot(GetU32(head));
  if (contribution == nullptr) return absl::OkStatus();  // of a contribution that was replaced or abandoned since
  const Bytes bytes = head.subspan(kChunkHeadBytes);
  if (GetU64(head.subspan(kSlotBytes)) != contribution->length || contribution->accepted ||
      bytes.size() > contribution->header.encoded_bytes - contribution->length) {
    return Strange(path, "a chunk does not follow the one before");
  }
  contribution->chunks.push_back({record.payload_offset + kChunkHeadBytes, bytes.size()});
  contribution->hasher.Update(bytes);
  contribution->length += bytes.size();
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::VisitAccepted(Bytes head) {
  Contribution* contribution = head.size() < kSlotBytes ? nullptr : FindSlot(GetU32(head));
  if (contribution == nullptr) return Strange(path, "an acceptance is of no contribution");
  ATOLL_ASSIGN_OR_RETURN(contribution->trailer, ParseAccepted(TextOf(head.subspan(kSlotBytes))));
  contribution->header = contribution->trailer.header;
  if (contribution->length != contribution->header.encoded_bytes ||
      contribution->hasher.Finish() != contribution->header.digest) {
    return Strange(path, "an accepted contribution does not have its digest");
  }
  contribution->accepted = true;
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::VisitUpdate(const ScannedRecord& record, Bytes head) {
  const uint64_t info_bytes = head.size() < 4 ? UINT64_MAX : GetU32(head);
  if (info_bytes > head.size() - std::min<size_t>(head.size(), 4)) return Strange(path, "an update has a wrong size");
  ATOLL_ASSIGN_OR_RETURN(update, ParseUpdateInfo(TextOf(head.subspan(4, info_bytes))));
  update_bytes = {record.payload_offset + 4 + info_bytes, record.header.payload_bytes - 4 - info_bytes};
  if (update_bytes.bytes != update.encoded_bytes) return Strange(path, "an update has a wrong size");
  has_update = true;
  return absl::OkStatus();
}

Contribution* RoundLog::Segment::FindSlot(uint32_t slot) {
  for (auto& [worker, contribution] : contributions) {
    if (contribution.slot == slot) return &contribution;
  }
  return nullptr;
}

Contribution* RoundLog::Segment::FindWorker(const WorkerId& worker) {
  const auto it = contributions.find(worker);
  return it == contributions.end() ? nullptr : &it->second;
}

// ---- writing --------------------------------------------------------------------------------------------------------

absl::Status RoundLog::Segment::AppendRecord(RecordType type, std::span<const Bytes> payload) {
  ATOLL_RETURN_IF_ERROR(broken);
  RecordHeader record{
      .type = type, .sequence = next_sequence, .boot = boot.value, .flushed_bytes = flushed_bytes, .previous = chain};
  for (const Bytes& piece : payload) {
    record.payload_bytes += piece.size();
    record.payload_crc32c = Crc32c(record.payload_crc32c, piece);
  }
  const RecordHeaderBytes bytes = EncodeRecordHeader(record);
  absl::Status status = file->Append(bytes);
  for (const Bytes& piece : payload) {
    if (status.ok()) status = file->Append(piece);
  }
  if (!status.ok()) {
    broken = file->Truncate(file_bytes);
    return status;
  }
  file_bytes += kRecordHeaderBytes + record.payload_bytes;
  ++next_sequence;
  chain = ChainOf(bytes);
  return absl::OkStatus();
}

absl::Status RoundLog::Segment::Flush() {
  ATOLL_RETURN_IF_ERROR(broken);
  // Never tried again (I24): what a failed flush has left on the disk is unknown.
  broken = file->Sync();
  if (broken.ok()) flushed_bytes = file_bytes;
  return broken;
}

absl::Status RoundLog::Segment::Abandon(const WorkerId& worker) {
  Contribution* contribution = FindWorker(worker);
  if (contribution == nullptr || contribution->accepted) return absl::OkStatus();
  const std::string head = SlotHead(contribution->slot);
  contributions.erase(worker);
  return AppendRecord(RecordType::kAbandon, std::array{AsBytes(head)});
}

absl::Status RoundLog::Segment::CheckComplete(const WorkerId& worker) {
  const Contribution* contribution = FindWorker(worker);
  if (contribution == nullptr)
    return absl::NotFoundError(absl::StrCat("worker ", worker.value, " has sent nothing for this round"));
  if (contribution->accepted) return absl::OkStatus();
  const ContributionHeader& announced = contribution->header;
  if (contribution->length != announced.encoded_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("only ", contribution->length, " of ", announced.encoded_bytes, " bytes are there"));
  }
  const Digest digest = contribution->hasher.Finish();
  if (digest == announced.digest) return absl::OkStatus();
  const absl::Status wrong = absl::DataLossError(
      absl::StrCat("the contribution of worker ", worker.value, " has digest ", digest.Hex(), ", announced was ",
                   announced.digest.Hex(), ": it was damaged on the way; send it again from the beginning"));
  ATOLL_RETURN_IF_ERROR(Abandon(worker));
  return wrong;
}

// ---- the log --------------------------------------------------------------------------------------------------------

RoundLog::RoundLog(Files& files, DataDirectory directory, BootNumber boot)
    : files_(files), directory_(std::move(directory)), boot_(boot) {}
RoundLog::~RoundLog() = default;

absl::StatusOr<std::shared_ptr<RoundLog::Segment>> RoundLog::Find(const RoundKey& key) const {
  MutexLock lock(mutex_);
  const auto it = open_.find(key);
  if (it != open_.end()) return it->second;
  return absl::NotFoundError(absl::StrCat("round log segment ", directory_.SegmentPath(key), " is not open"));
}

std::shared_ptr<RoundLog::Segment> RoundLog::Take(const RoundKey& key) {
  MutexLock lock(mutex_);
  const auto it = open_.find(key);
  if (it == open_.end()) return nullptr;
  std::shared_ptr<Segment> segment = std::move(it->second);
  open_.erase(it);
  return segment;
}

absl::Status RoundLog::Open(const RoundKey& key, Digest layout) {
  if (const auto known = Find(key); known.ok()) {
    MutexLock lock((*known)->mutex);
    return (*known)->CheckIdentity(key, layout);
  }
  const std::string path = directory_.SegmentPath(key), directory = DirectoryOf(path);
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files_, directory_.root(), directory));
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForAppend(path));
  const auto segment = std::make_shared<Segment>(std::move(file), path, boot_);
  {
    MutexLock lock(segment->mutex);
    ATOLL_RETURN_IF_ERROR(segment->Scan(key, layout));
    if (!segment->has_header) {
      segment->header = {kSegmentRevision, key.job, key.epoch, key.target, layout, boot_};
      const std::string header = SerializeSegmentHeader(segment->header);
      ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kSegmentHeader, std::array{AsBytes(header)}));
      ATOLL_RETURN_IF_ERROR(segment->Flush());
      segment->has_header = true;
      ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(directory));
    }
  }
  MutexLock lock(mutex_);
  open_.try_emplace(key, segment);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RoundLog::Begin(const RoundKey& key, const ContributionHeader& header) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (header.job != key.job || header.target != key.target) {
    return absl::InvalidArgumentError("a contribution names another round than the one it is sent to");
  }
  Contribution* known = segment->FindWorker(header.worker);
  const bool same =
      known != nullptr && known->header.digest == header.digest && known->header.encoded_bytes == header.encoded_bytes;
  if (known != nullptr && known->accepted) {
    if (same) return known->length;
    return absl::AlreadyExistsError(absl::StrCat(
        "worker ", header.worker.value, " already has another contribution to version ", key.target.version.value,
        " of fragment ", key.target.fragment.value, ": put this work into the next version"));
  }
  const std::string begin = SerializeContributionBegin(header);
  if (same && SerializeContributionBegin(known->header) == begin) return known->length;
  const std::string head = SlotHead(same ? known->slot : segment->next_slot);
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kBegin, std::array{AsBytes(head), AsBytes(begin)}));
  if (same) {
    known->header = header;
    return known->length;
  }
  Contribution contribution;
  contribution.slot = segment->next_slot++;
  contribution.header = header;
  segment->contributions.insert_or_assign(header.worker, std::move(contribution));
  return 0;
}

uint64_t RoundLog::VerifiedPrefix(const RoundKey& key, const WorkerId& worker, Digest digest) const {
  const auto segment = Find(key);
  if (!segment.ok()) return 0;
  MutexLock lock((*segment)->mutex);
  const Contribution* contribution = (*segment)->FindWorker(worker);
  return contribution != nullptr && contribution->header.digest == digest ? contribution->length : 0;
}

absl::Status RoundLog::Append(const RoundKey& key, const WorkerId& worker, uint64_t offset,
                              std::span<const Bytes> pieces) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  Contribution* contribution = segment->FindWorker(worker);
  if (contribution == nullptr)
    return absl::NotFoundError(absl::StrCat("worker ", worker.value, " has not begun a contribution"));
  uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  if (size > limits::kMessageBytes) return absl::InvalidArgumentError("more bytes at once than a message may hold");
  if (offset != contribution->length || size > contribution->header.encoded_bytes - contribution->length ||
      contribution->accepted) {
    return absl::OutOfRangeError(absl::StrCat("bytes [", offset, ", ", offset + size, ") do not go on at ",
                                              contribution->length, " of ", contribution->header.encoded_bytes));
  }
  if (size == 0) return absl::OkStatus();
  std::string head = SlotHead(contribution->slot);
  PutU64(head, offset);
  std::vector<Bytes> payload{AsBytes(head)};
  payload.insert(payload.end(), pieces.begin(), pieces.end());
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kChunk, payload));
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

absl::Status RoundLog::Accept(const RoundKey& key, const WorkerId& worker, int64_t wall_nanos) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  ATOLL_RETURN_IF_ERROR(segment->CheckComplete(worker));
  Contribution& contribution = *segment->FindWorker(worker);
  if (contribution.accepted) return absl::OkStatus();
  const AcceptedRecord trailer{contribution.header, wall_nanos, boot_};
  const std::string head = SlotHead(contribution.slot), bytes = SerializeAccepted(trailer);
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kAccepted, std::array{AsBytes(head), AsBytes(bytes)}));
  ATOLL_RETURN_IF_ERROR(segment->Flush());
  contribution.trailer = trailer;
  contribution.accepted = true;
  return absl::OkStatus();
}

void RoundLog::Abandon(const RoundKey& key, const WorkerId& worker) {
  const auto segment = Find(key);
  if (!segment.ok()) return;
  MutexLock lock((*segment)->mutex);
  // Without the record the bytes come back at the next start as a prefix that fails its digest: no harm.
  const absl::Status written = (*segment)->Abandon(worker);
  static_cast<void>(written);
}

absl::StatusOr<std::vector<std::byte>> RoundLog::ReadContribution(const RoundKey& key, const WorkerId& worker) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  const Contribution* contribution = segment->FindWorker(worker);
  if (contribution == nullptr || !contribution->accepted) {
    return absl::NotFoundError(
        absl::StrCat("no accepted contribution of worker ", worker.value, " in ", segment->path));
  }
  std::vector<std::byte> out(contribution->length);
  std::span<std::byte> rest(out);
  for (const Chunk& chunk : contribution->chunks) {
    ATOLL_RETURN_IF_ERROR(segment->file->ReadAt(chunk.file_offset, rest.first(chunk.bytes)));
    rest = rest.subspan(chunk.bytes);
  }
  if (DigestOf(out) != contribution->header.digest) {
    return absl::DataLossError(absl::StrCat("the contribution of worker ", worker.value, " in ", segment->path,
                                            " no longer has its digest: the disk has damaged it"));
  }
  return out;
}

absl::Status RoundLog::WriteUpdate(const RoundKey& key, const UpdateInfo& info, Bytes encoded) {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (encoded.size() != info.encoded_bytes || DigestOf(encoded) != info.digest) {
    return absl::InternalError("an encoded update does not have the size and digest that it is stored under");
  }
  const std::string bytes = SerializeUpdateInfo(info);
  std::string head;
  PutU32(head, static_cast<uint32_t>(bytes.size()));
  ATOLL_RETURN_IF_ERROR(segment->AppendRecord(RecordType::kUpdate, std::array{AsBytes(head), AsBytes(bytes), encoded}));
  ATOLL_RETURN_IF_ERROR(segment->Flush());
  segment->update = info;
  segment->update_bytes = {segment->file_bytes - encoded.size(), encoded.size()};
  segment->has_update = true;
  return absl::OkStatus();
}

absl::StatusOr<UpdateInfo> RoundLog::FindUpdate(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (!segment->has_update) return absl::NotFoundError(absl::StrCat("no update in ", segment->path));
  return segment->update;
}

absl::StatusOr<std::vector<std::byte>> RoundLog::ReadUpdate(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  if (!segment->has_update) return absl::NotFoundError(absl::StrCat("no update in ", segment->path));
  std::vector<std::byte> out(segment->update_bytes.bytes);
  ATOLL_RETURN_IF_ERROR(segment->file->ReadAt(segment->update_bytes.file_offset, out));
  if (DigestOf(out) != segment->update.digest) {
    return absl::DataLossError(
        absl::StrCat("the update in ", segment->path, " no longer has its digest: the disk has damaged it"));
  }
  return out;
}

absl::StatusOr<SegmentInfo> RoundLog::Info(const RoundKey& key) const {
  ATOLL_ASSIGN_OR_RETURN(const auto segment, Find(key));
  MutexLock lock(segment->mutex);
  SegmentInfo info{key, {}, segment->has_update, segment->update, segment->file_bytes};
  for (const auto& [worker, contribution] : segment->contributions) {
    if (contribution.accepted) info.accepted.push_back(contribution.trailer);
  }
  return info;
}

void RoundLog::Close(const RoundKey& key) { Take(key); }

absl::StatusOr<std::vector<Version>> RoundLog::List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         files_.List(directory_.SegmentDirectory(job, epoch, fragment)));
  std::vector<Version> versions;
  for (const std::string& name : names) {
    uint64_t version = 0;
    const bool whole = name.size() > 5 && name.front() == 'v' && name.substr(name.size() - 4) == ".seg";
    if (whole && absl::SimpleAtoi(name.substr(1, name.size() - 5), &version)) versions.push_back({version});
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<uint64_t> RoundLog::DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                              Version keep_from) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, List(job, epoch, fragment));
  uint64_t freed = 0;
  for (const Version version : versions) {
    if (version >= keep_from) break;
    const RoundKey key{job, epoch, {fragment, version}};
    ATOLL_ASSIGN_OR_RETURN(const auto file, files_.OpenForRead(directory_.SegmentPath(key)));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    ATOLL_RETURN_IF_ERROR(Drop(key));
    freed += size;
  }
  return freed;
}

absl::Status RoundLog::Drop(const RoundKey& key) {
  Take(key);
  return files_.Remove(directory_.SegmentPath(key));
}

absl::Status AddAccepted(RoundLog& log, const std::map<JobId, Digest>& layouts, RecoveredState& state) {
  for (RecoveredJob& job : state.jobs) {
    const auto layout = layouts.find(job.job.job);
    if (layout == layouts.end()) continue;
    job.accepted.clear();
    for (size_t i = 0; i < job.heads.size(); ++i) {
      const RoundKey key{job.job.job, job.job.epoch, {{static_cast<uint32_t>(i)}, job.heads[i].version}};
      ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, log.List(key.job, key.epoch, key.target.fragment));
      if (!std::binary_search(versions.begin(), versions.end(), key.target.version)) continue;
      ATOLL_RETURN_IF_ERROR(log.Open(key, layout->second));
      ATOLL_ASSIGN_OR_RETURN(const SegmentInfo info, log.Info(key));
      for (const AcceptedRecord& accepted : info.accepted) job.accepted.push_back(accepted.header);
    }
  }
  return absl::OkStatus();
}

}  // namespace atl
