// SPDX-License-Identifier: Apache-2.0
// Turns a submitted spec into a job that can run: reads the stored manifests, fixes the defaults, lays
// out the model and counts the samples. Reports the faults of one stage together: of the spec, of the
// stored files, then of the rest. Blocking (reads blobs); runs on an executor, never in the engine.
#ifndef ATOLL_COORDINATOR_ENGINE_INTAKE_H_
#define ATOLL_COORDINATOR_ENGINE_INTAKE_H_

#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/coordinator_needs.h"
#include "common/plan/data_order.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"
#include "common/plan/model_layout.h"

namespace atl {

// The content of a stored file. NotFound if it was never uploaded.
using BlobReader = std::function<absl::StatusOr<std::string>(const Sha256&)>;

struct JobPlan {
  JobSpec spec;  // resolved
  ModelLayout layout;
  std::vector<CorpusManifest> manifests;  // in corpus order, without the hashes of their blocks
  uint64_t stop_step = 0;
  uint64_t dataset_samples = 0;    // UINT64_MAX without end
  uint64_t held_out_samples = 0;   // read by one evaluation
  std::vector<std::string> notes;  // chosen values, shown to the user
};

struct IntakeResult {
  std::vector<Violation> violations;  // if not empty, `plan` is meaningless
  JobPlan plan;
};

// Checks and completes a spec. Errors other than violations (an unreadable disk) are returned as a
// status.
absl::StatusOr<IntakeResult> PlanJob(JobSpec spec, const BlobReader& blobs);

// The encoded sizes of a resolved job's contributions and updates.
JobSizes SizesOf(const JobSpec& spec, const ModelLayout& layout);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_INTAKE_H_
