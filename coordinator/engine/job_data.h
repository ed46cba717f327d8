// SPDX-License-Identifier: Apache-2.0
// The state of one running job in the coordinator's memory.
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

// Segments of this many versions are kept for workers that lag, whether or not a newer snapshot
// exists.
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
  const uint64_t epoch;  // a rollback creates a new JobData
  const JobSpec spec;    // as of preparation; sizes never change, rates come with each task
  const ModelLayout layout;
  Aggregator aggregator;           // used by its preparation until the job is announced, then on compute executor
  std::vector<NormHistory> norms;  // of the newest merged rounds, by fragment; used where `aggregator` is
  // Snapshots of `aggregator` being written, by fragment. Each is detached before its state
  // changes. Compute executor only.
  std::multimap<FragmentIndex, std::weak_ptr<StateShot>> shots;
  // The buffers that detached snapshots are copied into, by fragment. Reused as long as rounds
  // close during the writing of snapshots. Compute executor only.
  std::map<FragmentIndex, std::shared_ptr<ShotCopies>> shot_copies;

  Mutex mutex;
  // By fragment: the newest committed update, and the update that waits for its commit.
  std::map<FragmentIndex, PublishedUpdate> published ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, PublishedUpdate> uncommitted ATOLL_GUARDED_BY(mutex);
  // Updates that are committed but not in the round log yet, in commit order. After a crash the
  // next process recomputes them from the contributions, so no snapshot of a version is written
  // before its update.
  std::vector<PublishedUpdate> unlogged ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, Version> committed ATOLL_GUARDED_BY(mutex);       // newest committed version
  std::map<FragmentIndex, RoundMeasures> measures ATOLL_GUARDED_BY(mutex);  // of the newest closed round
  // The screening results of arrived contributions, by version and worker, until their round
  // commits. The digest is kept with each, because a worker may send another contribution.
  std::map<std::pair<FragmentVersion, WorkerId>, std::pair<Digest, ContributionScreen>> screens ATOLL_GUARDED_BY(mutex);
  std::map<FragmentIndex, Version> snapshots ATOLL_GUARDED_BY(mutex);  // newest durable one
  std::vector<VersionPins> pins ATOLL_GUARDED_BY(mutex);               // by fragment
  // Snapshots taken and not yet on disk, with the statuses that receive the outcome; and the work
  // to run on the io executor when one of them is written or has failed.
  std::map<FragmentVersion, std::vector<std::shared_ptr<absl::Status>>> being_written ATOLL_GUARDED_BY(mutex);
  std::vector<std::function<void()>> behind_a_write ATOLL_GUARDED_BY(mutex);
  // The version of a fragment's failed snapshot, until its next commit retries it or a snapshot is written.
  std::map<FragmentIndex, Version> owed_snapshots ATOLL_GUARDED_BY(mutex);
  // Engine thread, once the job is prepared: committed rounds in the log since the newest snapshot,
  // by fragment.
  struct Logged {
    uint64_t rounds = 0;
    uint64_t bytes = 0;
    void Add(const RoundRecord& round);
  };
  std::vector<Logged> since_snapshot;

 private:
  // The number of versions that a worker may lag and still get updates. If it lags more, the whole
  // fragment is fewer bytes than the updates that only this worker needs.
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

// The update of a round in the form sent and logged. rounds.cc
PublishedUpdate PublishedOf(const RoundRecord& record, CodecKind codec, RawBytes update);

// Adds the norms of a merged round to its fragment's history. rounds.cc
void Remember(const RoundRecord& record, const JobSpec& spec, NormHistory& history);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_JOB_DATA_H_
