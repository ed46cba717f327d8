// SPDX-License-Identifier: Apache-2.0
#ifndef ATOLL_WORKER_CORE_STANDING_H_
#define ATOLL_WORKER_CORE_STANDING_H_

namespace atl::worker {

// The role of this worker in an update. The outer copy and the local parameters follow the update in the same role.
// kAhead: a contributor that sent before the send step at which the others sent for this update, so that the update
// comes later than overlap_steps after its send (docs/adr/0007).
enum class Standing { kNotContributor, kContributor, kAhead };

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_STANDING_H_
