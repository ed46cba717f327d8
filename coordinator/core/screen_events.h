// SPDX-License-Identifier: Apache-2.0
// The results of the contribution screens for the core, as texts and flags; the figures stay where
// they were measured. Pure.
#ifndef ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_
#define ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"

namespace atl {

// About a contribution that is merged nevertheless.
struct ScreenRemark {
  WorkerId worker;
  std::string text;      // one clause
  bool clipped = false;  // it was scaled down; false: only reported
};

// About a contribution that is not merged.
struct ScreenedOut {
  WorkerId worker;
  std::string why;   // one clause
  bool far = false;  // so far from the others that its worker is quarantined at once
};

// The aggregation found contributions that must not be merged, and changed nothing. The core refuses
// them and decides again.
struct ContributionsScreened {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;
  std::vector<ScreenedOut> refused;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_
