// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/round_segment.h"

#include <algorithm>
#include <array>
#include <vector>

#include "coordinator/store/round_log.h"

namespace atl {
namespace {

constexpr size_t kSlotBytes = 4;

absl::Status Strange(const char* what) { return absl::DataLossError(what); }

absl::Status Contradiction(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("round log segment ", path, " contradicts itself: ", what));
}

std::string TextOf(Bytes bytes) { return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

}  // namespace

std::string SlotHead(uint32_t slot) {
  std::string head;
  PutU32(head, slot);
  return head;
}

// ---- reading --------------------------------------------------------------------------------------------------------

absl::Status RoundSegment::Scan(const RoundKey& key, Digest layout, ScanOf of) {
  absl::Status strange;
  const auto visit = [this, &strange](const ScannedRecord& record, Bytes head) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    strange = Visit(record, head);
    return strange;
  };
  const absl::StatusOr<ScanResult> scanned = ScanSegment(*file, path, visit, of);
  if (!strange.ok()) return Contradiction(path, strange.message());
  ATOLL_RETURN_IF_ERROR(scanned.status());
  const ScanResult& result = *scanned;
  if (result.last_boot > boot.value) {
    return absl::FailedPreconditionError(absl::StrCat(
        "round log segment ", path, " was written at boot ", result.last_boot, ", but the ledger is at boot ",
        boot.value, ": the ledger is older than the log; restore both from the same copy"));
  }
  file_bytes = result.valid_bytes;
  next_sequence = result.next_sequence;
  chain = result.chain;
  if (has_header) ATOLL_RETURN_IF_ERROR(CheckIdentity(key, layout));
  if (!broken.ok()) return absl::OkStatus();  // opened for reading only
  if (result.torn()) {
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    cut_bytes = size - file_bytes;
    ATOLL_RETURN_IF_ERROR(file->Truncate(file_bytes));
  }
  return Flush();
}

absl::Status RoundSegment::CheckIdentity(const RoundKey& key, Digest layout) {
  if (header.format_revision > kSegmentRevision) {
    return absl::FailedPreconditionError(absl::StrCat("round log segment ", path, " has format revision ",
                                                      header.format_revision, ", this program reads up to ",
                                                      kSegmentRevision, ": use the newer program"));
  }
  if (header.job != key.job || header.epoch != key.epoch || header.target != key.target) {
    return Contradiction(path, "it belongs to another round than its name says");
  }
  if (header.layout != layout) {
    return absl::FailedPreconditionError(
        absl::StrCat("round log segment ", path, " belongs to a model or fragment plan with another layout"));
  }
  return absl::OkStatus();
}

absl::Status RoundSegment::Visit(const ScannedRecord& record, Bytes head) {
  if (!has_header && record.header.type != RecordType::kSegmentHeader)
    return Strange("it does not begin with a header");
  switch (record.header.type) {
    case RecordType::kSegmentHeader: return VisitHeader(head);
    case RecordType::kBegin: return VisitBegin(head);
    case RecordType::kChunk: return VisitChunk(record, head);
    case RecordType::kAccepted: return VisitAccepted(head);
    case RecordType::kUpdate: return VisitUpdate(record, head);
    case RecordType::kAbandon: break;
  }
  if (head.size() != kSlotBytes) return Strange("an abandoned contribution has a wrong size");
  const uint32_t slot = GetU32(head);
  std::erase_if(contributions,
                [slot](const auto& entry) { return entry.second.slot == slot && !entry.second.accepted; });
  return absl::OkStatus();
}

absl::Status RoundSegment::VisitHeader(Bytes head) {
  if (has_header) return Strange("it has two headers");
  ATOLL_ASSIGN_OR_RETURN(header, ParseSegmentHeader(TextOf(head)));
  has_header = true;
  return absl::OkStatus();
}

absl::Status RoundSegment::VisitBegin(Bytes head) {
  if (head.size() < kSlotBytes) return Strange("a contribution has no slot");
  const uint32_t slot = GetU32(head);
  ATOLL_ASSIGN_OR_RETURN(ContributionHeader begun, ParseContributionBegin(TextOf(head.subspan(kSlotBytes))));
  next_slot = std::max(next_slot, slot + 1);
  taken[begun.worker] += kRecordHeaderBytes + head.size();
  // The same slot begins again: it keeps its bytes, and the header is replaced by the newer one, which is from
  // another incarnation of the worker.
  if (RoundContribution* known = FindSlot(slot)) {
    known->record.header = std::move(begun);
    return absl::OkStatus();
  }
  RoundContribution contribution;
  contribution.slot = slot;
  const WorkerId worker = begun.worker;
  contribution.record.header = std::move(begun);
  contributions.insert_or_assign(worker, std::move(contribution));
  return absl::OkStatus();
}

absl::Status RoundSegment::VisitChunk(const ScannedRecord& record, Bytes head) {
  if (head.size() != record.header.payload_bytes || head.size() <= kChunkHeadBytes)
    return Strange("a chunk has a wrong size");
  RoundContribution* contribution = FindSlot(GetU32(head));
  if (contribution == nullptr) return absl::OkStatus();  // its contribution was replaced or abandoned
  const Bytes bytes = head.subspan(kChunkHeadBytes);
  taken[contribution->record.header.worker] += kRecordHeaderBytes + head.size();
  if (GetU64(head.subspan(kSlotBytes)) != contribution->length || contribution->accepted ||
      bytes.size() > contribution->record.header.encoded_bytes - contribution->length) {
    return Strange("a chunk does not follow the previous one");
  }
  contribution->chunks.push_back({record.payload_offset + kChunkHeadBytes, bytes.size()});
  contribution->hasher.Update(bytes);
  contribution->length += bytes.size();
  return absl::OkStatus();
}

absl::Status RoundSegment::VisitAccepted(Bytes head) {
  RoundContribution* contribution = head.size() < kSlotBytes ? nullptr : FindSlot(GetU32(head));
  if (contribution == nullptr) return Strange("an acceptance is of no contribution");
  ATOLL_ASSIGN_OR_RETURN(contribution->record, ParseAccepted(TextOf(head.subspan(kSlotBytes))));
  if (contribution->length != contribution->record.header.encoded_bytes ||
      contribution->hasher.Finish() != contribution->record.header.digest) {
    return absl::DataLossError(absl::StrCat("the contribution of worker ", contribution->record.header.worker.value,
                                            " does not have its digest"));
  }
  contribution->accepted = true;
  return absl::OkStatus();
}

absl::Status RoundSegment::VisitUpdate(const ScannedRecord& record, Bytes head) {
  const uint64_t info_bytes = head.size() < 4 ? UINT64_MAX : GetU32(head);
  if (info_bytes > head.size() - std::min<size_t>(head.size(), 4)) return Strange("an update has a wrong size");
  ATOLL_ASSIGN_OR_RETURN(update, ParseUpdateInfo(TextOf(head.subspan(4, info_bytes))));
  update_bytes = {record.payload_offset + 4 + info_bytes, record.header.payload_bytes - 4 - info_bytes};
  if (update_bytes.bytes != update.encoded_bytes) return Strange("an update has a wrong size");
  has_update = true;
  return absl::OkStatus();
}

absl::Status RoundSegment::CheckTaken(const WorkerId& worker, uint64_t encoded_bytes, uint64_t more) const {
  const auto found = taken.find(worker);
  const uint64_t so_far = found == taken.end() ? 0 : found->second;
  const uint64_t most = kTakenFactor * encoded_bytes + kTakenSlack;
  if (so_far + more <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker.value,
                   " has restarted this round's contribution so often, or sent it in such small pieces, that it uses ",
                   so_far, " bytes of the log, ", most, " are allowed: include this work in the next version"));
}

RoundContribution* RoundSegment::FindSlot(uint32_t slot) {
  for (auto& [worker, contribution] : contributions) {
    if (contribution.slot == slot) return &contribution;
  }
  return nullptr;
}

RoundContribution* RoundSegment::FindWorker(const WorkerId& worker) {
  const auto it = contributions.find(worker);
  return it == contributions.end() ? nullptr : &it->second;
}

// ---- writing --------------------------------------------------------------------------------------------------------

absl::Status RoundSegment::AppendRecord(RecordType type, std::span<const Bytes> head, std::span<const Bytes> body) {
  ATOLL_RETURN_IF_ERROR(broken);
  RecordHeader record{
      .type = type, .sequence = next_sequence, .boot = boot.value, .flushed_bytes = flushed_bytes, .previous = chain};
  pieces.assign(1, Bytes());  // place of the header
  pieces.insert(pieces.end(), head.begin(), head.end());
  pieces.insert(pieces.end(), body.begin(), body.end());
  for (const Bytes& piece : pieces) {
    record.payload_bytes += piece.size();
    record.payload_crc32c = Crc32c(record.payload_crc32c, piece);
  }
  const RecordHeaderBytes bytes = EncodeRecordHeader(record);
  pieces.front() = bytes;
  if (absl::Status status = file->AppendPieces(pieces); !status.ok()) {
    broken = file->Truncate(file_bytes);
    return status;
  }
  file_bytes += kRecordHeaderBytes + record.payload_bytes;
  ++next_sequence;
  chain = ChainOf(bytes);
  return absl::OkStatus();
}

absl::Status RoundSegment::Flush() {
  ATOLL_RETURN_IF_ERROR(broken);
  // Never repeated (I24): after a failed flush the state on disk is unknown.
  broken = file->Sync();
  if (broken.ok()) flushed_bytes = file_bytes;
  return broken;
}

absl::Status RoundSegment::Abandon(const WorkerId& worker) {
  RoundContribution* contribution = FindWorker(worker);
  if (contribution == nullptr || contribution->accepted) return absl::OkStatus();
  const std::string head = SlotHead(contribution->slot);
  contributions.erase(worker);
  return AppendRecord(RecordType::kAbandon, std::array{AsBytes(head)});
}

absl::Status RoundSegment::CheckComplete(const WorkerId& worker) {
  const RoundContribution* contribution = FindWorker(worker);
  if (contribution == nullptr)
    return absl::NotFoundError(absl::StrCat("worker ", worker.value, " has sent nothing for this round"));
  if (contribution->accepted) return absl::OkStatus();
  const ContributionHeader& announced = contribution->record.header;
  if (contribution->length != announced.encoded_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("only ", contribution->length, " of ", announced.encoded_bytes, " bytes have arrived"));
  }
  const Digest digest = contribution->hasher.Finish();
  if (digest == announced.digest) return absl::OkStatus();
  absl::Status wrong = absl::DataLossError(absl::StrCat("the contribution of worker ", worker.value, " has digest ",
                                                        digest.Hex(), ", announced ", announced.digest.Hex(),
                                                        ": it was damaged in transit; send it again from the start"));
  ATOLL_RETURN_IF_ERROR(Abandon(worker));
  return wrong;
}

}  // namespace atl
