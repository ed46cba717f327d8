// SPDX-License-Identifier: Apache-2.0
// One exchange of values along the chain of ranks, moved on without ever blocking. Private to worker/island.
//
//   up      rank 0 -> 1 -> ... -> n-1: each rank adds its own to the sum of those before it, so in rank order
//   down    n-1 -> ... -> 1 -> 0: the result, as it is made
//
// Both flow at once and in pieces, so that each connection carries the values once each way and an exchange takes about
// as long as one connection takes for them, whatever the number of ranks. A broadcast is the way up without adding.
#ifndef ATOLL_WORKER_ISLAND_PASS_H_
#define ATOLL_WORKER_ISLAND_PASS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/island/mesh.h"
#include "worker/island/socket.h"

namespace atl {

enum class PassKind : uint32_t { kMean, kSum, kBroadcast };

// Goes ahead of the values: ranks that are not at the same exchange find out.
struct PassHeader {
  uint64_t number = 0;  // of the exchange, from 1
  uint64_t elements = 0;
  PassKind kind{};
  uint32_t element_bytes = 0;
  friend bool operator==(const PassHeader&, const PassHeader&) = default;
};

// "all-reduce 7 of 1048576 values".
std::string NameOf(const PassHeader& header);

class Pass {
 public:
  // `values` hold the result when it is Done; until then they are anything. `scratch` is at least 64 KiB. All outlive
  // it.
  Pass(const Mesh& mesh, const PassHeader& header, std::span<std::byte> values, std::span<std::byte> scratch);
  // Moves what can be moved; true when that was anything. Unavailable when a neighbour is gone, Internal when it is at
  // another exchange; WaitsFor names it.
  absl::StatusOr<bool> Move();
  bool Done() const;
  // The neighbour without which nothing moves; after an error the one at which it was.
  uint32_t WaitsFor() const;
  // What Move could go on with.
  void Watch(std::vector<pollfd>& sockets) const;

 private:
  bool first() const { return mesh_.rank == 0; }
  bool last() const { return mesh_.rank + 1 == mesh_.world; }
  bool reduces() const { return header_.kind != PassKind::kBroadcast; }
  // Each: whether anything moved.
  absl::StatusOr<bool> MoveHeaders();
  absl::StatusOr<bool> TakeUp();
  absl::StatusOr<bool> GiveUp();
  absl::StatusOr<bool> TakeDown();
  absl::StatusOr<bool> GiveDown();
  void Combine(size_t bytes);
  absl::StatusOr<size_t> Send(uint32_t to, Bytes bytes);
  absl::StatusOr<size_t> Receive(uint32_t from, std::span<std::byte> bytes);
  const Descriptor& To(uint32_t rank) const { return rank < mesh_.rank ? mesh_.previous : mesh_.next; }

  const Mesh& mesh_;
  const PassHeader header_;
  const std::span<std::byte> values_, scratch_;
  PassHeader theirs_;
  size_t header_in_ = 0, header_out_ = 0;
  size_t held_ = 0;                                 // bytes at the beginning of scratch, less than an element
  size_t summed_ = 0;                               // bytes from the front that hold the sum up to here
  size_t up_out_ = 0, down_in_ = 0, down_out_ = 0;  // bytes
  std::optional<uint32_t> lost_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_PASS_H_
