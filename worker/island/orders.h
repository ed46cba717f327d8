// SPDX-License-Identifier: Apache-2.0
// Rank 0's orders to its followers, as payload bytes (tcp_island.h). Numbers are little-endian, as
// on every machine of an island. Pure.
#ifndef ATOLL_WORKER_ISLAND_ORDERS_H_
#define ATOLL_WORKER_ISLAND_ORDERS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

// Make the arenas of a job, with zeros. A follower sends an answer to this order only.
struct PrepareOrder {
  std::string spec;              // atoll.v1.JobSpec, resolved
  int32_t end_of_text = -1;      // token of the job's tokenizer; -1: none
  uint64_t available_bytes = 0;  // for training on each rank
  Digest layout;                 // expected digest of the spec's layout
};
// Elements [offset, offset + elements) of the parameters follow as a broadcast.
struct ParametersOrder {
  uint64_t offset = 0, elements = 0;
};
// The optimizer has taken `steps` steps. Its moments follow as two broadcasts. Nothing follows with 0 steps, after
// which they are zero, or with SGD, which has none.
struct OptimizerOrder {
  uint64_t steps = 0;
};
// The receiving rank's share of a step; the ranks then exchange gradients.
struct StepOrder {
  double learning_rate = 0;
  uint64_t targets = 0;  // over all ranks
  uint32_t sequences = 0;
  std::vector<int32_t> tokens;  // sequences x length
};
// The job's arenas are no longer needed.
struct ReleaseOrder {};
// The process is no longer needed.
struct LeaveOrder {};

using IslandOrder = std::variant<PrepareOrder, ParametersOrder, OptimizerOrder, StepOrder, ReleaseOrder, LeaveOrder>;

std::string EncodeOrder(const IslandOrder& order);
// InvalidArgument for bytes that EncodeOrder did not write.
absl::StatusOr<IslandOrder> DecodeOrder(const std::string& bytes);

// The follower's result of a PrepareOrder.
std::string EncodeAnswer(const absl::Status& status);
absl::Status DecodeAnswer(const std::string& bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_ORDERS_H_
