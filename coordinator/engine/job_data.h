// SPDX-License-Identifier: Apache-2.0
// What the coordinator holds in memory of one running job.
#ifndef ATOLL_COORDINATOR_ENGINE_JOB_DATA_H_
#define ATOLL_COORDINATOR_ENGINE_JOB_DATA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/raw_bytes.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "common/plan/records.h"
#include "common/rpc/bulk.h"
#include "common/wire/record_messages.h"
#include "coordinator/aggregate/aggregator.h"
#include "coordinator/engine/round_measures.h"
#include "coordinator/store/state_shot.h"
#include "coordinator/store/version_pins.h"

namespace atl {

// Segments of this many versions stay for workers that are a little behind, whatever snapshot there is.
constexpr uint64_t kVersionsForStragglers = 2;

// An encoded update in memory, shared by all receivers and by the round log.
struct PublishedUpdate {
  UpdateInfo info;
  std::shared_ptr<const RawBytes> bytes;
  std::shared_ptr<BulkSource> source;  // of these bytes
};

struct JobData {
  JobData(JobId j, uint64_t e, JobSpec s)
      : job(std::move(j)),
        epoch(e),
        spec(std::move(s)),
        layout(MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment)),
        aggregator(layout),
        norms(layout.fragments.size()),
        since_snapshot(layout.fragments.size()) {
    for (const FragmentInfo& fragment : layout.fragments) pins.emplace_back(MostVersionsBehind(fragment));
  }

  const JobId job;
  const uint64_t epoch;  // a rollback makes another JobData
  const JobSpec spec;    // at preparation; sizes never change, rates come with each task
  const ModelLayout layout;
  Aggregator aggregator;           // compute executor only
  std::vector<NormHistory> norms;  // of the newest committed rounds, by fragment; compute executor only
  // Of `aggregator`, while they are written, by fragment: detached before their state changes; compute executor only.
  std::multimap<FragmentIndex, std::weak_ptr<StateShot>> shots;
  // What they are copied into, by fragment: kept from one to the next for as long as rounds close while they are
  // written; compute executor only.
  std::map<FragmentIndex, std::shared_ptr<ShotCopies>> shot_copies;

  Mutex mutex;
  // By fragment: the newest committed update and the one whose commit is still to come.
  std::map<FragmentIndex, PublishedUpdate> published ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, PublishedUpdate> uncommitted ATOLL_GUARDED_BY(mutex);
  // Committed, and not yet in the round log, in the order of their commits. What is here when a process ends is
  // recomputed from the contributions by the next one, so no snapshot of a version is written before its update.
  std::vector<PublishedUpdate> unlogged ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, Version> committed ATOLL_GUARDED_BY(mutex);       // newest committed version
  std::map<FragmentIndex, RoundMeasures> measures ATOLL_GUARDED_BY(mutex);  // of the newest closed round
  // What arrived contributions said by themselves, by version and worker, until their round commits; with their digest,
  // since a worker may send another one.
  std::map<std::pair<FragmentVersion, WorkerId>, std::pair<Digest, ContributionScreen>> screens ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, Version> snapshots ATOLL_GUARDED_BY(mutex);  // newest durable one
  std::vector<VersionPins> pins ATOLL_GUARDED_BY(mutex);               // by fragment
  // Taken and not yet on disk, with those who are told how that ended; and what is to run on the io executor when one
  // of them is.
  std::map<FragmentVersion, std::vector<std::shared_ptr<absl::Status>>> being_written ATOLL_GUARDED_BY(mutex);
  std::vector<std::function<void()>> behind_a_write ATOLL_GUARDED_BY(mutex);
  // Of the fragments of which one failed and no later one was written since, the version that it was of.
  std::map<FragmentIndex, Version> owed_snapshots ATOLL_GUARDED_BY(mutex);
  // Engine thread, once the job is prepared: committed rounds in the log since the newest snapshot, by fragment.
  struct Logged {
    uint64_t rounds = 0;
    uint64_t bytes = 0;
    void Add(const RoundRecord& round);
  };
  std::vector<Logged> since_snapshot;

 private:
  // For a worker that is behind farther the fragment whole is fewer bytes than the updates that only it needs.
  uint64_t MostVersionsBehind(const FragmentInfo& fragment) const {
    const uint64_t update = EncodedSize(spec.sync.download_codec, fragment.elements);
    return kVersionsForStragglers + fragment.elements * sizeof(float) / update;
  }
};

inline void JobData::Logged::Add(const RoundRecord& round) {
  ++rounds;
  bytes += round.update_bytes;
  for (const CommittedContribution& contribution : round.contributions) bytes += contribution.header.encoded_bytes;
}

// The update of a round as it is sent and logged. rounds.cc
PublishedUpdate PublishedOf(const RoundRecord& record, CodecKind codec, RawBytes update);

// Puts the norms of a committed round into the history of its fragment. rounds.cc
void Remember(const RoundRecord& record, const JobSpec& spec, NormHistory& history);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_JOB_DATA_H_
