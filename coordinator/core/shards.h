// SPDX-License-Identifier: Apache-2.0
// Which worker reads which corpus under data.assignment: shards. A worker keeps its corpus, also
// while it is away, until another worker has to take it. A newcomer takes an unused corpus,
// otherwise one of an absent worker. Nothing is stored: after a restart the assignment follows from
// the durable leases and contributions. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_SHARDS_H_
#define ATOLL_COORDINATOR_CORE_SHARDS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/base/ids.h"

namespace atl {

class ShardBook {
 public:
  // 0: the job has no shards.
  explicit ShardBook(size_t corpora) : holders_(corpora) {}

  // The worker has read the corpus, and holds only that one from now on. No effect for an unknown corpus.
  void Saw(const WorkerId& worker, uint32_t corpus);
  // The worker's corpus, which it holds from now on; none if each is held by another worker of `present`.
  std::optional<uint32_t> Take(const WorkerId& worker, const std::set<WorkerId>& present);
  // The corpus of the worker becomes an unused one.
  void Forget(const WorkerId& worker);
  std::optional<uint32_t> Of(const WorkerId& worker) const;

 private:
  std::vector<WorkerId> holders_;  // by corpus; empty: unused
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SHARDS_H_
