// SPDX-License-Identifier: Apache-2.0
// Screens a contribution while its bytes arrive, so that closing a round needs no separate pass over them.
#ifndef ATOLL_COORDINATOR_AGGREGATE_CONTRIBUTION_SCREENER_H_
#define ATOLL_COORDINATOR_AGGREGATE_CONTRIBUTION_SCREENER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl {

// Combines the statistics of blocks to a screen. The caller adds the blocks in order.
class ScreenSum {
 public:
  void Add(const vecmath::BlockStats& block);
  ContributionScreen screen() const;

 private:
  double squares_ = 0;
  float max_abs_ = 0;
  bool finite_ = true;
};

// Memory: one encoded codec block. Not thread-safe.
class ContributionScreener {
 public:
  ContributionScreener(CodecKind codec, uint64_t elements);
  // Adds the next bytes, which begin at `offset` of the contribution. If they do not follow the previous bytes (a
  // resumed transfer), or exceed the encoded size, there will be no result.
  void Update(uint64_t offset, std::span<const Bytes> pieces);
  // Equal to ScreenAll on all bytes, to the bit. None unless all bytes arrived, once each
  // and in order.
  std::optional<ContributionScreen> Finish() const;

 private:
  void Take(Bytes piece);
  void Screen();

  const CodecKind codec_;
  const uint64_t elements_;
  uint64_t bytes_ = 0;     // processed
  uint64_t screened_ = 0;  // elements
  bool gap_ = false;
  std::vector<std::byte> block_;  // incomplete codec block
  ScreenSum sum_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_CONTRIBUTION_SCREENER_H_
