// SPDX-License-Identifier: Apache-2.0
#ifndef ATOLL_TESTS_SUPPORT_TOY_SPEC_H_
#define ATOLL_TESTS_SUPPORT_TOY_SPEC_H_

#include "common/plan/job_spec.h"

namespace atl {

// A resolved spec with few parameters.
inline JobSpec ToySpec() {
  JobSpec spec;
  spec.name = "toy";
  spec.model.vocab_size = 64;
  spec.model.hidden_size = 8;
  spec.model.intermediate_size = 16;
  spec.model.layers = 2;
  spec.model.heads = 2;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 4;
  spec.sync.inner_steps = 4;
  spec.batch.sequences_per_step = 2;
  spec.stop.inner_steps = 1000;
  spec.inner.learning_rate = 0.25;
  spec.inner.schedule.kind = ScheduleKind::kConstant;
  spec.inner.schedule.total_steps = 1000;
  return spec;
}

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_TOY_SPEC_H_
