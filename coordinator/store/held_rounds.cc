// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/held_rounds.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/plan/limits.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/segment_format.h"
#include "coordinator/store/segments_on_disk.h"
#include "coordinator/store/snapshots_on_disk.h"

namespace atl {
namespace {

// The contents of the consecutive records from the start of the file.
struct Held {
  uint64_t whole_bytes = 0, file_bytes = 0;
  std::map<WorkerId, Digest> accepted;
  std::optional<Digest> update;
};

absl::StatusOr<std::string> ReadText(const File& file, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

// False if the message is incomplete: the rest of the file cannot be used.
absl::StatusOr<bool> ReadMessage(const File& file, const RecordHeader& header, uint64_t offset, Held& held) {
  if (header.type == RecordType::kAccepted) {
    if (header.payload_bytes < 4 || header.payload_bytes > limits::kMessageBytes) return false;
    ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadText(file, offset, header.payload_bytes));
    if (Crc32c(0, AsBytes(text)) != header.payload_crc32c) return false;
    const absl::StatusOr<AcceptedRecord> accepted = ParseAccepted(text.substr(4));
    if (accepted.ok()) held.accepted[accepted->header.worker] = accepted->header.digest;
    return accepted.ok();
  }
  if (header.type != RecordType::kUpdate) return true;
  if (header.payload_bytes < 4) return false;
  ATOLL_ASSIGN_OR_RETURN(const std::string head, ReadText(file, offset, 4));
  const uint64_t bytes = GetU32(AsBytes(head));
  if (bytes > limits::kMessageBytes || bytes > header.payload_bytes - 4) return false;
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadText(file, offset + 4, bytes));
  const absl::StatusOr<UpdateInfo> update = ParseUpdateInfo(text);
  if (update.ok()) held.update = update->digest;
  return update.ok();
}

absl::StatusOr<Held> ReadHeld(const File& file) {
  Held held;
  ATOLL_ASSIGN_OR_RETURN(held.file_bytes, file.Size());
  std::optional<uint64_t> sequence;  // of the next record; the first record gives the start
  uint64_t chain = 0;
  while (held.file_bytes - held.whole_bytes >= kRecordHeaderBytes) {
    RecordHeaderBytes raw;
    ATOLL_RETURN_IF_ERROR(file.ReadAt(held.whole_bytes, raw));
    RecordHeader header;
    const uint64_t payload = held.whole_bytes + kRecordHeaderBytes;
    const bool whole = DecodeRecordHeader(raw, header) && header.sequence == sequence.value_or(header.sequence) &&
                       header.previous == chain && header.payload_bytes <= held.file_bytes - payload;
    if (!whole) break;
    ATOLL_ASSIGN_OR_RETURN(const bool readable, ReadMessage(file, header, payload, held));
    if (!readable) break;
    sequence = header.sequence + 1;
    chain = ChainOf(raw);
    held.whole_bytes = payload + header.payload_bytes;
  }
  return held;
}

// Whether the state before the update still exists, which is so if no snapshot has a version at or
// after it.
absl::StatusOr<bool> CanBeRecomputed(const Files& files, const DataDirectory& directory, const RoundRecord& record) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> snapshots,
                         SnapshotsOnDisk(files, directory, record.job, record.epoch, record.reached.fragment));
  return snapshots.empty() || snapshots.back() < record.reached.version;
}

std::string Missing(const Held& held, const RoundRecord& record, bool needs_update) {
  std::vector<std::string> workers;
  for (const CommittedContribution& contribution : record.contributions) {
    const auto found = held.accepted.find(contribution.header.worker);
    if (found == held.accepted.end() || found->second != contribution.header.digest)
      workers.push_back(contribution.header.worker.value);
  }
  std::vector<std::string> parts;
  if (!workers.empty()) {
    parts.push_back(absl::StrCat("the contribution", workers.size() > 1 ? "s of workers " : " of worker ",
                                 absl::StrJoin(workers, ", ")));
  }
  if (needs_update && held.update != record.update_digest) parts.push_back("the update");
  return absl::StrJoin(parts, " and ");
}

RoundKey KeyOf(const RoundRecord& record) {
  return {record.job, record.epoch, {record.reached.fragment, Version{record.reached.version.value - 1}}};
}

// Checks the segments of one fragment in one epoch.
absl::Status CheckFragment(const Files& files, const DataDirectory& directory, const Ledger& ledger,
                           const RoundKey& first, std::vector<DamagedRound>& damaged) {
  const absl::StatusOr<std::vector<Version>> listed =
      SegmentsOnDisk(files, directory, first.job, first.epoch, first.target.fragment);
  if (!listed.ok()) {
    damaged.push_back({first.job, std::string(listed.status().message())});
    return absl::OkStatus();
  }
  std::vector<Version> versions = *listed;
  if (versions.size() > kRoundsCheckedAtStart) versions.erase(versions.begin(), versions.end() - kRoundsCheckedAtStart);
  Version after = versions.empty() ? Version{} : versions.front();
  while (!versions.empty() && after <= versions.back()) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<RoundRecord> rounds,
                           ledger.Rounds(first.job, first.epoch, first.target.fragment, after, kRoundsCheckedAtStart));
    for (const RoundRecord& record : rounds) {
      if (!std::binary_search(versions.begin(), versions.end(), KeyOf(record).target.version)) continue;
      const absl::Status held = CheckHeldRound(files, directory, record);
      if (!held.ok()) damaged.push_back({record.job, std::string(held.message())});
    }
    if (rounds.empty()) break;
    after = rounds.back().reached.version;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHeldRound(const Files& files, const DataDirectory& directory, const RoundRecord& record) {
  constexpr char kWayOut[] = "put the file back from a backup of the state directory";
  const std::string path = directory.SegmentPath(KeyOf(record));
  const std::string round = absl::StrCat("the committed round that reached version ", record.reached.version.value,
                                         " of fragment ", record.reached.fragment.value);
  if (!files.Exists(path))
    return absl::DataLossError(absl::StrCat("round log segment ", path, " of ", round, " is not there: ", kWayOut));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const Held held, ReadHeld(*file));
  bool needs_update = false;
  if (held.update != record.update_digest) {
    ATOLL_ASSIGN_OR_RETURN(const bool recomputable, CanBeRecomputed(files, directory, record));
    needs_update = !recomputable;
  }
  const std::string missing = Missing(held, record, needs_update);
  if (missing.empty()) return absl::OkStatus();
  const std::string end = held.whole_bytes == held.file_bytes
                              ? absl::StrCat("is cut short at offset ", held.file_bytes)
                              : absl::StrCat("is whole only up to offset ", held.whole_bytes, " of ", held.file_bytes);
  return absl::DataLossError(
      absl::StrCat("round log segment ", path, " ", end, ", and ", missing, " of ", round, " ",
                   missing.find(" and ") != std::string::npos || missing.find(", ") != std::string::npos ? "are" : "is",
                   " missing from it: ", kWayOut));
}

absl::StatusOr<std::vector<DamagedRound>> CheckHeldRounds(const Files& files, const DataDirectory& directory,
                                                          const Ledger& ledger, const RecoveredState& state) {
  std::vector<DamagedRound> damaged;
  for (const RecoveredJob& job : state.jobs) {
    if (HasEnded(job.job.state)) continue;
    for (uint32_t i = 0; i < job.heads.size(); ++i) {
      const RoundKey first{job.job.job, job.job.epoch, {FragmentIndex{i}, Version{}}};
      ATOLL_RETURN_IF_ERROR(CheckFragment(files, directory, ledger, first, damaged));
    }
  }
  return damaged;
}

}  // namespace atl
