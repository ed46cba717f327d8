// SPDX-License-Identifier: Apache-2.0
// Lists and drops segments on disk, and reads their accepted contributions after a restart.
#include "coordinator/store/segments_on_disk.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "coordinator/store/epochs_on_disk.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/round_segment.h"

namespace atl {

absl::StatusOr<std::vector<Version>> SegmentsOnDisk(const Files& files, const DataDirectory& directory,
                                                    const JobId& job, uint64_t epoch, FragmentIndex fragment) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         files.List(directory.SegmentDirectory(job, epoch, fragment)));
  std::vector<Version> versions;
  for (const std::string& name : names) {
    uint64_t version = 0;
    const bool whole = name.size() > 5 && name.front() == 'v' && name.substr(name.size() - 4) == ".seg";
    if (whole && absl::SimpleAtoi(name.substr(1, name.size() - 5), &version)) versions.push_back({version});
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<std::vector<Version>> RoundLog::List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const {
  return SegmentsOnDisk(files_, directory_, job, epoch, fragment);
}

absl::StatusOr<uint64_t> RoundLog::DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                              Version keep_from, std::optional<Version> updates_from) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, List(job, epoch, fragment));
  uint64_t freed = 0;
  for (const Version version : versions) {
    if (version >= keep_from) break;
    const RoundKey key{job, epoch, {fragment, version}};
    ATOLL_ASSIGN_OR_RETURN(auto file, files_.OpenForRead(directory_.SegmentPath(key)));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    file.reset();  // otherwise this descriptor might be the last one and free the blocks here
    // Best effort: a worker that does not find the update fetches the newest snapshot, so a full
    // disk keeps none.
    if (updates_from && version >= *updates_from) static_cast<void>(KeepUpdate(key));
    ATOLL_RETURN_IF_ERROR(Drop(key));
    freed += size;
  }
  ATOLL_RETURN_IF_ERROR(DropKeptUpdates(job, epoch, fragment, updates_from.value_or(keep_from)));
  return freed;
}

absl::StatusOr<bool> RoundLog::DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most) {
  {
    MutexLock lock(mutex_);
    std::erase_if(open_, [&](const auto& open) { return open.first.job == job && open.first.epoch < epoch; });
  }
  // Kept updates are removed first, because a later start finds leftovers only by the directory of rounds.
  ATOLL_ASSIGN_OR_RETURN(const bool gone,
                         RemoveEpochsBefore(files_, directory_.KeptUpdatesDirectory(job), epoch, most));
  return gone ? RemoveEpochsBefore(files_, directory_.RoundsDirectory(job), epoch, most) : absl::StatusOr<bool>(false);
}

namespace {

DamagedRound CutTail(const RoundKey& key, const SegmentInfo& info) {
  return {key.job, absl::StrCat("round log segment ", info.path, " of the open round ", key.target.version.value,
                                " of fragment ", key.target.fragment.value, " had no complete record from offset ",
                                info.file_bytes, " on, and was truncated there by ", info.cut_bytes,
                                " bytes: the coordinator ended while it wrote them, or they were damaged since; "
                                "connected workers send the lost contributions again")};
}

absl::Status AddAcceptedOf(RoundLog& log, Digest layout, RecoveredJob& job, std::vector<DamagedRound>* cut) {
  for (size_t i = 0; i < job.heads.size(); ++i) {
    const RoundKey key{job.job.job, job.job.epoch, {{static_cast<uint32_t>(i)}, job.heads[i].version}};
    ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, log.List(key.job, key.epoch, key.target.fragment));
    if (!std::binary_search(versions.begin(), versions.end(), key.target.version)) continue;
    ATOLL_RETURN_IF_ERROR(log.Open(key, layout));
    ATOLL_ASSIGN_OR_RETURN(const SegmentInfo info, log.Info(key));
    for (const AcceptedRecord& accepted : info.accepted) job.accepted.push_back(accepted.header);
    if (cut != nullptr && info.cut_bytes > 0) cut->push_back(CutTail(key, info));
  }
  return absl::OkStatus();
}

}  // namespace

std::map<JobId, std::string> AddAccepted(RoundLog& log, const std::map<JobId, Digest>& layouts, RecoveredState& state,
                                         std::vector<DamagedRound>* cut) {
  std::map<JobId, std::string> damaged;
  for (RecoveredJob& job : state.jobs) {
    const auto layout = layouts.find(job.job.job);
    if (layout == layouts.end()) continue;
    job.accepted.clear();
    const absl::Status added = AddAcceptedOf(log, layout->second, job, cut);
    if (added.ok()) continue;
    job.accepted.clear();
    damaged[job.job.job] =
        absl::StrCat("the round log of job ", job.job.job.value, " cannot be used: ", std::string(added.message()));
  }
  return damaged;
}

}  // namespace atl
