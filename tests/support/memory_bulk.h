// SPDX-License-Identifier: Apache-2.0
// BulkClient connected to a BulkHandler in memory: frames, credits and resume as over gRPC. Each
// step is one job on an executor.
#ifndef ATOLL_TESTS_SUPPORT_MEMORY_BULK_H_
#define ATOLL_TESTS_SUPPORT_MEMORY_BULK_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "common/base/executor.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk.h"

namespace atl {

struct MemoryBulkOptions {
  size_t frame_bytes = limits::kFramePayloadBytes;
  // Asked before each frame; true breaks the conversation with Unavailable, like a broken
  // connection. May be empty.
  std::function<bool()> cut;
};

// `handler` and `executor` (one job at a time) must outlive the client and its calls.
std::unique_ptr<BulkClient> MakeMemoryBulkClient(BulkHandler& handler, Executor& executor, MemoryBulkOptions options);

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_MEMORY_BULK_H_
