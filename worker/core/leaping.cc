// SPDX-License-Identifier: Apache-2.0
// For a worker several versions behind the job: fetches the whole fragment if that is fewer bytes
// than the updates, or if the updates are no longer stored. The drift is kept (docs/design.md section 3: Not a
// contributor), unless a contribution is in flight or the fetch fails while an update is missing (Heal).
#include <algorithm>

#include "worker/core/state.h"

namespace atl::worker {

// Begins a leap if the whole fragment is fewer bytes than the updates up to the newest version; those already fetched
// cost nothing. If the newest snapshot is so old that updates are fewer bytes, the download fails at once.
bool Core::State::LeapForBytes(uint32_t p) {
  const Fragment& f = fragments[p];
  if (!f.MayLeap() || EvaluationNeeds(p) || f.outer() < f.no_leap_before()) return false;
  const auto asked =
      std::count_if(f.pending().begin(), f.pending().end(), [](const Pending& k) { return k.fetching || k.fetched; });
  const uint64_t for_bytes = static_cast<uint64_t>(asked) + sizes[p].whole_bytes / sizes[p].update_bytes + 1;
  if (f.newest().value - f.outer().value < for_bytes) return false;
  Tell(NoteLevel::kInfo, "fragment fetched whole",
       absl::StrCat("fragment ", p, " is ", f.newest().value - f.outer().value,
                    " versions behind, and their updates have more bytes than the fragment; its drift is kept"));
  Leap(p, Version{f.outer().value + for_bytes});
  return true;
}

// Replaces an unavailable update, once no evaluation needs the present version. No other update is fetched meanwhile,
// because it could not be applied.
void Core::State::FetchWhole(uint32_t p) {
  Fragment& f = fragments[p];
  f.LackUpdate();
  if (EvaluationNeeds(p)) return;
  if (!f.MayLeap()) return Heal(p);
  Leap(p, Version{f.outer().value + 1});
}

// Begins the leaps that were postponed because an evaluation needed the fragments' versions.
void Core::State::CatchUpFragments() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    if (fragments[p].lacks_update() && !fragments[p].leaping()) {
      FetchWhole(p);
    } else {
      LeapForBytes(p);
    }
  }
}

void Core::State::Leap(uint32_t p, Version at_least) {
  fragments[p].BeginLeap();
  effects.push_back(DropFetches{FragmentIndex{p}});
  effects.push_back(FetchFragment{job, FragmentIndex{p}, at_least});
}

void Core::State::OnLeapFailed(uint32_t p) {
  Fragment& f = fragments[p];
  if (f.lacks_update() && !EvaluationNeeds(p)) return Heal(p);
  if (!f.lacks_update()) f.ForbidLeaps();
  FillGaps(p);
}

void Core::State::OnLeapt(uint32_t p) {
  wish.again = wish.denied;
  SayIt(Applied{job, {FragmentIndex{p}, fragments[p].outer()}, true});
  FillGaps(p);
  Settle(p);
}

}  // namespace atl::worker
