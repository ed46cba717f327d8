// SPDX-License-Identifier: Apache-2.0
// Strangers in a simulated deployment, who are everything that the open network may bring back: a contribution that
// comes again (late, from a void incarnation, with other bytes, as if to the round that is open now), and a coordinator
// that serves an older copy of the state. What may come of it is law. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_STRANGERS_H_
#define ATOLL_TESTS_SIM_STRANGERS_H_

#include <memory>
#include <span>

#include "common/base/random.h"
#include "common/rpc/bulk.h"
#include "common/rpc/message_stream.h"
#include "tests/sim/laws.h"

namespace atl {

// One that was accepted once, changed in a way that is drawn.
ContributionUpload ComesAgain(const ContributionHeader& once, const Laws& laws, Rng& rng);

// Offers it to `handler`, and takes the offer back once there is an answer. An answer that is forbidden breaks the law
// in `laws`, which outlives the answer.
void Offer(BulkHandler& handler, const ContributionUpload& upload, Laws& laws);

// The newest of `accepted` whose incarnation is void by now, to the round that is open, as of the coordinator of now
// and with no samples behind it: nothing else is wrong with it. False where there is none.
bool OfferFromAVoidIncarnation(BulkHandler& handler, std::span<const ContributionHeader> accepted, Laws& laws);

// Welcomes a worker as the coordinator of one boot before the newest that the worker knows; a worker that knows of none
// is turned away. A worker that stays breaks a law in `laws`, which outlives the stream.
class OlderCoordinator {
 public:
  OlderCoordinator(std::unique_ptr<CoordinatorEnd> stream, Laws& laws);

 private:
  void Hear(const WorkerMessage& message);
  Laws& laws_;
  const std::unique_ptr<CoordinatorEnd> stream_;
  int heartbeats_ = 0;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_STRANGERS_H_
