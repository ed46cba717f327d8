// SPDX-License-Identifier: Apache-2.0
// A job with very fast steps.
#ifndef ATOLL_TESTS_UNIT_WORKER_TRAIN_TINY_JOB_H_
#define ATOLL_TESTS_UNIT_WORKER_TRAIN_TINY_JOB_H_

#include "common/plan/job_spec.h"

namespace atl {

inline JobSpec TinyJob() {
  JobSpec job;
  job.model.vocab_size = 256;
  job.model.hidden_size = 32;
  job.model.intermediate_size = 64;
  job.model.layers = 2;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 8;
  job.data.sequence_length = 32;
  job.batch.sequences_per_step = 4;
  return job;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_TRAIN_TINY_JOB_H_
