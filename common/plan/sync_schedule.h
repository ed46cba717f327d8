// SPDX-License-Identifier: Apache-2.0
// The steps at which a worker sends and applies each fragment (Streaming DiLoCo algorithm 2;
// docs/design.md section 3). Pure step arithmetic. Step s means "after s inner steps of the job
// clock".
#ifndef ATOLL_COMMON_PLAN_SYNC_SCHEDULE_H_
#define ATOLL_COMMON_PLAN_SYNC_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/job_spec.h"

namespace atl {

class SyncSchedule {
 public:
  // Requires inner_steps >= 1, overlap_steps < inner_steps, fragments >= 1. `own_overlap_steps` (<
  // inner_steps) is for a worker that applies updates earlier or later than the job; its send steps
  // stay the same (section 3.3 of the paper).
  SyncSchedule(uint32_t inner_steps, uint32_t overlap_steps, uint32_t fragments,
               std::optional<uint32_t> own_overlap_steps = std::nullopt);

  // t_p = floor((p + 1) H / P) - tau, taken modulo H into [0, H).
  uint32_t OffsetOf(FragmentIndex fragment) const;
  // True when the fragment is sent after step s: s >= 1 and (s - t_p) mod H = 0.
  bool IsSendStep(FragmentIndex fragment, uint64_t step) const;
  // The first send step at or after `step` (>= 1).
  uint64_t NextSendStep(FragmentIndex fragment, uint64_t step) const;
  // The update of the round of a contribution sent at step s is applied at s + tau, or s + own_overlap_steps.
  uint64_t ApplyStep(uint64_t send_step) const { return send_step + own_overlap_steps_; }

  uint32_t inner_steps() const { return inner_steps_; }
  uint32_t overlap_steps() const { return overlap_steps_; }
  uint32_t fragments() const { return fragments_; }

 private:
  uint32_t inner_steps_, overlap_steps_, fragments_, own_overlap_steps_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SYNC_SCHEDULE_H_
