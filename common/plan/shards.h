// SPDX-License-Identifier: Apache-2.0
// data.assignment: shards, where each worker reads a corpus of its own (DiLoCo 2311.08105, the non-i.i.d. setting). The
// positions of the job's order are then split between the corpora: corpus c has [c, c + 1) x 2^56, endless as far as
// any run goes. Pure arithmetic, the same in the coordinator and in the workers.
#ifndef ATOLL_COMMON_PLAN_SHARDS_H_
#define ATOLL_COMMON_PLAN_SHARDS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "common/plan/job_spec.h"
#include "common/plan/messages.h"

namespace atl {

constexpr uint64_t kShardPositions = uint64_t{1} << 56;  // of one corpus; 64 corpora stay below 2^63

// Positions of one corpus.
SampleRange ShardRange(uint32_t corpus);
// The corpus that the newest of the leases lies in; none without a lease.
std::optional<uint32_t> ShardOf(std::span<const LeaseCursor> cursors);
// Samples of one pass of the corpus behind a contribution: what it weighs by under kShardSize. A contribution that
// names no lease weighs as the mean corpus. 0 where the job has no shards.
uint64_t ShardSamples(const JobSpec& spec, const ContributionHeader& header);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SHARDS_H_
