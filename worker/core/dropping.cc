// SPDX-License-Identifier: Apache-2.0
// Syncs that the job drops on purpose (experiment.drop_sync_probability; DiLoCo 2311.08105, "Dropped
// communication"). At the send step the worker sends no contribution and notifies the coordinator. The update
// of that round changes only the outer copy. The worker continues from its own parameters, and its next
// contribution contains the work of both periods. It waits for the update like the others, so that every outer
// step covers the same inner steps. The sync does not count as missed.
#include "common/plan/experiment.h"
#include "worker/core/state.h"

namespace atl::worker {

bool Core::State::Drops(uint32_t p) const {
  return DropsSync(*spec, options.worker, {FragmentIndex{p}, fragments[p].outer()});
}

void Core::State::DropSync(uint32_t p) {
  Fragment& f = fragments[p];
  Held place;
  place.version = f.outer();
  place.apply_at = taken + StepsToApply(p);
  place.Accept(now);  // nothing to send
  place.dropped = true;
  place.send_step = SendStep(p, f.tried_retry());
  f.DropSync(std::move(place));
  Tell(NoteLevel::kInfo, "sync dropped",
       absl::StrCat("fragment ", p, " version ", f.outer().value, ": the job drops this sync on purpose; the ",
                    f.drift().steps, " steps of this sync are included in the next one"));
  if (welcomed) SayDropped(p);
}

void Core::State::SayDropped(uint32_t p) {
  const Held& place = *fragments[p].held();
  SayIt(SyncDropped{job, {FragmentIndex{p}, place.version}, place.send_step});
}

}  // namespace atl::worker
