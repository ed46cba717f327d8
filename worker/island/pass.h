// SPDX-License-Identifier: Apache-2.0
// One exchange of values along the chain of ranks, advanced without blocking. Private to worker/island.
//
//   up      rank 0 -> 1 -> ... -> n-1: each rank adds its own values to the sum of the earlier ranks, in rank order
//   down    n-1 -> ... -> 1 -> 0: the result, as it is made
//
// Both directions are pipelined. Each connection carries the values once each way, so an exchange
// takes about as long as one connection needs, independent of the number of ranks. A broadcast is
// the upward direction without adding.
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

// Sent before the values, so that ranks at different exchanges detect it.
struct PassHeader {
  uint64_t number = 0;  // number of the exchange, from 1
  uint64_t elements = 0;
  PassKind kind{};
  uint32_t element_bytes = 0;
  friend bool operator==(const PassHeader&, const PassHeader&) = default;
};

// A text for messages, such as "all-reduce 7 of 1048576 values".
std::string NameOf(const PassHeader& header);

class Pass {
 public:
  // `values` hold the result when Done, and are undefined until then. `scratch` is at least 64 KiB.
  // All arguments outlive it.
  Pass(const Mesh& mesh, const PassHeader& header, std::span<std::byte> values, std::span<std::byte> scratch);
  // Sends and receives as much as possible; true if anything moved. Unavailable if a neighbour is
  // gone, Internal if the neighbour is at another exchange; WaitsFor then returns that neighbour.
  absl::StatusOr<bool> Move();
  bool Done() const;
  // The neighbour on which progress depends; after an error, the neighbour at fault.
  uint32_t WaitsFor() const;
  // Adds the sockets and events on which Move could continue.
  void Watch(std::vector<pollfd>& sockets) const;

 private:
  bool first() const { return mesh_.rank == 0; }
  bool last() const { return mesh_.rank + 1 == mesh_.world; }
  bool reduces() const { return header_.kind != PassKind::kBroadcast; }
  // Each returns whether anything moved.
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
  size_t held_ = 0;                                 // bytes at the start of scratch, less than one element
  size_t summed_ = 0;                               // bytes from the front that hold the sum including this rank
  size_t up_out_ = 0, down_in_ = 0, down_out_ = 0;  // bytes
  std::optional<uint32_t> lost_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_PASS_H_
