// SPDX-License-Identifier: Apache-2.0
// What the screens on contributions say to the core, in words and flags: figures stay where they were measured. Pure.
#ifndef ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_
#define ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"

namespace atl {

// Of a contribution that is merged all the same.
struct ScreenRemark {
  WorkerId worker;
  std::string text;      // one clause
  bool clipped = false;  // it was scaled down; false: only reported
};

// Of one that is not.
struct ScreenedOut {
  WorkerId worker;
  std::string why;   // one clause
  bool far = false;  // so far from the others' that its worker is quarantined at once
};

// The aggregate found contributions that may not be merged; nothing was changed. The core refuses them and decides
// anew.
struct ContributionsScreened {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;
  std::vector<ScreenedOut> refused;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SCREEN_EVENTS_H_
