// SPDX-License-Identifier: Apache-2.0
// The errors reported to the ranks of a broken island.
#ifndef ATOLL_TESTS_UNIT_WORKER_ISLAND_CAUSES_H_
#define ATOLL_TESTS_UNIT_WORKER_ISLAND_CAUSES_H_

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace atl {

// Thread-safe until ExpectAll.
class Causes {
 public:
  void Add(uint32_t rank, const absl::Status& status) {
    const std::scoped_lock lock(mutex_);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << "rank " << rank << ": " << status;
    causes_.emplace_back(status.message());
  }
  void ExpectAll(size_t ranks, const std::string& named) const {
    EXPECT_EQ(causes_.size(), ranks);
    for (const std::string& cause : causes_) EXPECT_NE(cause.find(named), std::string::npos) << cause;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> causes_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_ISLAND_CAUSES_H_
