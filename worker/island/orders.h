// SPDX-License-Identifier: Apache-2.0
// What rank 0 tells its followers, as bytes of an order (tcp_island.h). Numbers are little-endian, as on every machine
// of an island. Pure.
#ifndef ATOLL_WORKER_ISLAND_ORDERS_H_
#define ATOLL_WORKER_ISLAND_ORDERS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

// Make the arenas of a job, zero; answered.
struct PrepareOrder {
  std::string spec;              // atoll.v1.JobSpec, resolved
  int32_t end_of_text = -1;      // of the job's tokenizer; -1: none
  uint64_t available_bytes = 0;  // that training may take on each rank
  Digest layout;                 // what the spec must come to
};
// Elements [offset, offset + elements) of the parameters come as a broadcast.
struct ParametersOrder {
  uint64_t offset = 0, elements = 0;
};
// So many steps are behind the moments, which come as two broadcasts, or are zero where no step is.
struct OptimizerOrder {
  uint64_t steps = 0;
};
// This rank's share of a step; then gradients are exchanged.
struct StepOrder {
  double learning_rate = 0;
  uint64_t targets = 0;  // of all ranks
  uint32_t sequences = 0;
  std::vector<int32_t> tokens;  // sequences x length
};
// The job's arenas are no longer needed.
struct ReleaseOrder {};
// The process is no longer needed.
struct LeaveOrder {};

using IslandOrder = std::variant<PrepareOrder, ParametersOrder, OptimizerOrder, StepOrder, ReleaseOrder, LeaveOrder>;

std::string EncodeOrder(const IslandOrder& order);
// InvalidArgument for anything that EncodeOrder did not write.
absl::StatusOr<IslandOrder> DecodeOrder(const std::string& bytes);

// An answer: how an order went.
std::string EncodeAnswer(const absl::Status& status);
absl::Status DecodeAnswer(const std::string& bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_ORDERS_H_
