// SPDX-License-Identifier: Apache-2.0
// Strangers in a simulated deployment, standing for everything an open network may replay: a
// repeated contribution (late, from a void incarnation, with other bytes, or aimed at the open
// round), and a coordinator that serves an older copy of the state. The laws decide which results
// are allowed. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_STRANGERS_H_
#define ATOLL_TESTS_SIM_STRANGERS_H_

#include <memory>
#include <span>

#include "common/base/random.h"
#include "common/rpc/bulk.h"
#include "common/rpc/message_stream.h"
#include "tests/sim/laws.h"

namespace atl {

// An earlier accepted contribution, changed in a drawn way.
ContributionUpload ComesAgain(const ContributionHeader& once, const Laws& laws, Rng& rng);

// Offers the upload to `handler` and withdraws it after an answer. A forbidden answer breaks the
// law in `laws`, which outlives the answer.
void Offer(BulkHandler& handler, const ContributionUpload& upload, Laws& laws);

// Offers the newest of `accepted` with a void incarnation to the open round, as of the current
// coordinator and without samples, so that the incarnation is its only fault. Returns false if
// there is none.
bool OfferFromAVoidIncarnation(BulkHandler& handler, std::span<const ContributionHeader> accepted, Laws& laws);

// Welcomes a worker as the coordinator of the boot before the newest that the worker knows; turns
// away a worker that knows none. A worker that stays breaks a law in `laws`, which outlives the
// stream.
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
