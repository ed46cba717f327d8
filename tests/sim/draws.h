// SPDX-License-Identifier: Apache-2.0
// Random choices, durations and jobs of a simulation. The order of the draws is part of the meaning
// of a seed.
#ifndef ATOLL_TESTS_SIM_DRAWS_H_
#define ATOLL_TESTS_SIM_DRAWS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/random.h"
#include "common/base/time.h"
#include "common/plan/job_spec.h"
#include "coordinator/core/events.h"

namespace atl {

constexpr uint64_t kWithoutEnd =
    1'000'000;  // the stop step of a job without an end; the swarm drains such a job after some rounds

template <typename T, size_t N>
T OneOf(Rng& rng, const T (&choices)[N]) {
  return choices[rng.Below(N)];
}

inline Duration Below(Rng& rng, Duration most) {
  return Nanoseconds(static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most.ns))));
}

// Draws fragments, overlap, mix, codecs and error memories.
void DrawSync(Rng& rng, SyncSpec& sync);
JobSpec DrawJob(Rng& rng, const std::string& name);
// The submission of a job with a dataset of `samples` samples.
JobSubmitted SubmissionOf(const JobId& job, const JobSpec& spec, uint64_t samples, int64_t wall_nanos);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_DRAWS_H_
