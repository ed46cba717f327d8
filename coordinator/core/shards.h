// SPDX-License-Identifier: Apache-2.0
// Which worker reads which corpus under data.assignment: shards. A worker keeps its corpus for as long as nobody else
// had to take it, also while it is away: a newcomer takes a corpus that nobody has had, else one whose holder is away.
// Nothing of it is written down: after a restart it follows from leases and contributions, which are. Pure; owned by
// the engine thread.
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

  // The worker has read the corpus; newer than everything seen before. No effect on a corpus that is not there.
  void Saw(const WorkerId& worker, uint32_t corpus);
  // The worker's corpus, which it holds from now on; none when each is held by another worker of `present`.
  std::optional<uint32_t> Take(const WorkerId& worker, const std::set<WorkerId>& present);
  // Its corpus is one that nobody has had.
  void Forget(const WorkerId& worker);
  std::optional<uint32_t> Of(const WorkerId& worker) const;

 private:
  std::vector<WorkerId> holders_;  // by corpus; empty: nobody yet
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SHARDS_H_
