// SPDX-License-Identifier: Apache-2.0
// Which workers take part in the rounds of a fragment, and whether its rounds keep up with those of the others.
// Only counts; cleared at a restart, except for the input of Recover. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_PARTICIPATION_H_
#define ATOLL_COORDINATOR_CORE_PARTICIPATION_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"

namespace atl {

// Consecutive rounds, or deadlines of rounds, that a worker has missed, by fragment.
class MissBook {
 public:
  explicit MissBook(size_t fragments) : missed_(fragments) {}
  // Counts one more missed round, and returns the number of consecutive ones.
  uint32_t Missed(FragmentIndex fragment, const WorkerId& worker) { return ++missed_[fragment.value][worker]; }
  // The worker contributed, or its sync was dropped on purpose: clears its count.
  void TookPart(FragmentIndex fragment, const WorkerId& worker) { missed_[fragment.value].erase(worker); }
  uint32_t Running(FragmentIndex fragment, const WorkerId& worker) const;
  void Forget(const WorkerId& worker);

 private:
  std::vector<std::map<WorkerId, uint32_t>> missed_;
};

// The version of the most advanced fragment.
uint64_t FrontOf(const VersionVector& versions);

// The number of rounds by which each fragment lags the front (FrontOf).
class FragmentProgress {
 public:
  explicit FragmentProgress(size_t fragments) : front_at_(fragments, 0) {}
  // After a start: at most `lags` periods have passed since the newest round of each fragment.
  void Recover(const VersionVector& versions, const std::vector<uint64_t>& lags);
  // A round of the fragment was committed: of a starved one, with the workers that the job needs. `front`: after it.
  void Committed(FragmentIndex fragment, uint64_t front) { front_at_[fragment.value] = front; }
  // The rounds of the front fragment since the newest one of this fragment.
  uint64_t Lag(FragmentIndex fragment, uint64_t front) const {
    return front - std::min(front, front_at_[fragment.value]);
  }

 private:
  std::vector<uint64_t> front_at_;
};

// A contribution that stood out from the others of its round.
struct Remark {
  WorkerId worker;
  FragmentVersion target;
  std::string text;  // one clause
};

// The newest contributions that stood out: the first suspects if the model breaks.
class RemarkBook {
 public:
  void Add(Remark remark);
  void Clear() { newest_.clear(); }
  // The worker with the most remarks; empty: none stood out.
  WorkerId Suspect() const;
  // One clause that names that worker, the number of its remarks and the newest of them; empty: none stood out.
  std::string Line() const;

 private:
  static constexpr size_t kMost = 32;
  std::vector<Remark> newest_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_PARTICIPATION_H_
