// SPDX-License-Identifier: Apache-2.0
// The members' reports on their outer copies. By fragment: the workers with bits other than the
// published ones at the newest reported version, unless some worker has the published bits. A single
// deviating worker has a fault; if most deviate at one version, the coordinator's own copy has one
// (ADR 23). Cleared at a restart, in a rollback and at each load of parameters. Not thread-safe.
#ifndef ATOLL_COORDINATOR_CORE_REPLICA_REPORTS_H_
#define ATOLL_COORDINATOR_CORE_REPLICA_REPORTS_H_

#include <map>
#include <set>

#include "common/base/ids.h"

namespace atl {

class ReplicaReports {
 public:
  // Returns the workers that deviate at this version. Returns none if some worker has the published bits,
  // or a newer version was reported. A second report of a deviating worker for the same version,
  // after a full fetch, does not count.
  std::set<WorkerId> Hear(FragmentVersion applied, const WorkerId& worker, bool matches) {
    Reports& of = newest_[applied.fragment];
    if (applied.version < of.version) return {};
    if (of.version < applied.version) of = {.version = applied.version};
    if (!matches) {
      of.deviants.insert(worker);
    } else if (!of.deviants.contains(worker)) {
      of.matched = true;
    }
    return of.matched ? std::set<WorkerId>() : of.deviants;
  }

 private:
  struct Reports {
    Version version;
    std::set<WorkerId> deviants;
    bool matched = false;
  };
  std::map<FragmentIndex, Reports> newest_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_REPLICA_REPORTS_H_
