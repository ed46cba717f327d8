// SPDX-License-Identifier: Apache-2.0
// A job as requested by the user: the domain form of atoll.v1.JobSpec. common/wire converts it from
// and to the message; rooms below never see protobuf. Plain values; copies are cheap. The defaults
// here are those of the job file. ValidateJobSpec (job_validation.h) alone defines which values are
// allowed, by the rows of kNumbers and by rules.
#ifndef ATOLL_COMMON_PLAN_JOB_SPEC_H_
#define ATOLL_COMMON_PLAN_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/plan/run_spec.h"
#include "common/plan/sync_spec.h"
#include "common/plan/training_spec.h"

namespace atl {

struct JobSpec {
  std::string name;                           // [a-z0-9-]{1,63}; becomes the JobId
  std::map<std::string, std::string> labels;  // at most 32, each at most 256 bytes
  int32_t priority = 0;                       // higher first, -1000 to 1000
  ModelSpec model;
  InitSpec init;
  DataSpec data;
  BatchSpec batch;
  InnerOptimizerSpec inner;
  OuterOptimizerSpec outer;
  SyncSpec sync;
  WorkersSpec workers;
  StopSpec stop;
  EvaluationSpec evaluation;
  CheckpointSpec checkpoint;
  ExperimentSpec experiment;
  ScreensSpec screens;
};

// Visits the rows of all sections. Spec is JobSpec or const JobSpec.
template <class Spec, class Visit>
void ForEachNumber(Spec& spec, const Visit& visit) {
  ForEachNumber("model", spec.model, visit);
  ForEachNumber("data", spec.data, visit);
  ForEachNumber("batch", spec.batch, visit);
  ForEachNumber("inner_optimizer", spec.inner, visit);
  ForEachNumber("inner_optimizer.schedule", spec.inner.schedule, visit);
  ForEachNumber("sync", spec.sync, visit);
  ForEachNumber("sync.loco", spec.sync.loco, visit);
  ForEachNumber("sync", spec.sync.merge, visit);
  ForEachNumber("workers", spec.workers, visit);
  ForEachNumber("stop", spec.stop, visit);
  ForEachNumber("evaluation", spec.evaluation, visit);
  ForEachNumber("checkpoint", spec.checkpoint, visit);
  ForEachNumber("experiment", spec.experiment, visit);
  ForEachNumber("screens", spec.screens, visit);
}

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_JOB_SPEC_H_
