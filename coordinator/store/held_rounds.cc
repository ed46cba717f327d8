// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/held_rounds.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/segment_format.h"
#include "coordinator/store/segments_on_disk.h"
#include "coordinator/store/snapshots_on_disk.h"

namespace atl {
namespace {

// The contents of the consecutive intact records from the start of the file.
struct Held {
  uint64_t whole_bytes = 0, file_bytes = 0;
  std::map<WorkerId, Digest> accepted;
  std::optional<Digest> update;
};

// The text in a payload after its first four bytes (a number), at most `bytes` of it.
std::string TextAfterNumber(Bytes head, uint64_t bytes) {
  const Bytes text = head.subspan(4, std::min<uint64_t>(bytes, head.size() - 4));
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

absl::StatusOr<Held> ReadHeld(const File& file) {
  Held held;
  const auto visit = [&held](const ScannedRecord& record, Bytes head) -> absl::Status {
    if (record.header.type == RecordType::kSegmentHeader) return absl::OkStatus();
    if (head.size() < 4) return absl::DataLossError("a record without its first number");
    if (record.header.type == RecordType::kAccepted) {
      ATOLL_ASSIGN_OR_RETURN(const AcceptedRecord accepted, ParseAccepted(TextAfterNumber(head, head.size())));
      held.accepted[accepted.header.worker] = accepted.header.digest;
      return absl::OkStatus();
    }
    ATOLL_ASSIGN_OR_RETURN(const UpdateInfo update, ParseUpdateInfo(TextAfterNumber(head, GetU32(head))));
    held.update = update.digest;
    return absl::OkStatus();
  };
  // The scan ends at an unusable message, as at a broken record: later records are not used.
  ATOLL_ASSIGN_OR_RETURN(const ScanResult scan, ScanRecords(file, visit, ScanOf::kMessages));
  held.whole_bytes = scan.valid_bytes;
  held.file_bytes = scan.file_bytes;
  return held;
}

// Whether the round's update can be recomputed if it is missing: no snapshot has the version that
// the update produced, or a later one.
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
  constexpr char kWayOut[] = "restore the file from a backup of the state directory";
  const std::string path = directory.SegmentPath(KeyOf(record));
  const std::string round = absl::StrCat("the committed round that produced version ", record.reached.version.value,
                                         " of fragment ", record.reached.fragment.value);
  if (!files.Exists(path))
    return absl::DataLossError(absl::StrCat("round log segment ", path, " of ", round, " is missing: ", kWayOut));
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
                              ? absl::StrCat("is truncated at offset ", held.file_bytes)
                              : absl::StrCat("is intact only up to offset ", held.whole_bytes, " of ", held.file_bytes);
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
