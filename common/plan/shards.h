// SPDX-License-Identifier: Apache-2.0
// data.assignment: shards: each worker reads a corpus of its own (DiLoCo 2311.08105, the non-i.i.d.
// setting). The positions of the job's order are split between the corpora: corpus c has [c, c + 1)
// x 2^56, more than any run reads. Pure arithmetic, the same in coordinator and workers.
#ifndef ATOLL_COMMON_PLAN_SHARDS_H_
#define ATOLL_COMMON_PLAN_SHARDS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "common/plan/job_spec.h"
#include "common/plan/messages.h"

namespace atl {

constexpr uint64_t kShardPositions = uint64_t{1} << 56;  // positions of one corpus; 64 corpora stay below 2^63

// Positions of one corpus.
SampleRange ShardRange(uint32_t corpus);
// Returns the corpus that the newest lease in `cursors` belongs to; nullopt without a lease.
std::optional<uint32_t> ShardOf(std::span<const LeaseCursor> cursors);
// Returns the number of samples in one pass of the corpus of a contribution, for WeightRule::kShardSize. A
// contribution without a lease gets the mean over the corpora. 0 for a job without data.assignment: shards.
uint64_t ShardSamples(const JobSpec& spec, const ContributionHeader& header);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SHARDS_H_
