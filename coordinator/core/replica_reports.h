// SPDX-License-Identifier: Apache-2.0
// What members say of their outer copies: by fragment, who has other bits than published at its newest version, where
// nobody has the published ones. One worker that deviates has a fault; if most do, at one version, the coordinator's
// own copy has one (ADR 23). Forgotten at a restart, in a rollback and whenever parameters are loaded. Not thread-safe.
#ifndef ATOLL_COORDINATOR_CORE_REPLICA_REPORTS_H_
#define ATOLL_COORDINATOR_CORE_REPLICA_REPORTS_H_

#include <map>
#include <set>

#include "common/base/ids.h"

namespace atl {

class ReplicaReports {
 public:
  // What a worker that deviates says of the same version afterwards, when it has fetched it whole, does not count. Who
  // deviates at this version; nobody where some worker has its bits, or it is not the newest heard of.
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
