// SPDX-License-Identifier: Apache-2.0
// A connection between a gRPC client and this process's gRPC server: TLS ends here, the filter reads what the peer
// sends, and an inner socket pair carries the checked bytes to gRPC. The inner pair is made with the first call that is
// admitted; until then the peer costs this process its TLS state and a few kilobytes.
//
// Memory: at most a chunk waits in each direction while the other side does not read; the relay stops reading then. A
// chunk is kChunkBytes, or kSmallChunkBytes while all relays of a listener hold more than kHeldBytes.
#ifndef ATOLL_COMMON_GUARD_RELAY_H_
#define ATOLL_COMMON_GUARD_RELAY_H_

#include <atomic>
#include <functional>
#include <span>
#include <string>

#include "common/guard/call_counter.h"
#include "common/guard/connection.h"
#include "common/guard/inbound_filter.h"
#include "common/guard/outbound_tracker.h"
#include "common/guard/pieces.h"

namespace atl::guard {

// A chunk with what TLS adds to it fits the largest packet that Linux gives to a device, 64 KiB: what is left over
// would be a packet of its own.
inline constexpr size_t kChunkBytes = 60 << 10, kSmallChunkBytes = 4 << 10;
inline constexpr size_t kHeldBytes = 16 << 20;

struct RelayParts {
  ConnectionParts connection;
  HttpLimits http;
  // A call begins; `refusal` where its headers are refused already. On the loop's thread, must not wait.
  std::function<CallVerdict(uint64_t id, const Peer& peer, const std::string& path, const absl::Status& refusal)> judge;
  CallCounter* calls = nullptr;  // of the listener
  // Bytes that the relays of the listener hold.
  std::atomic<size_t>* held = nullptr;
  // Takes the server's end of the inner pair.
  std::function<void(Descriptor)> hand_over;
};

class Relay final : public Connection {
 public:
  Relay(Accepted accepted, const RelayParts& parts, Instant now);
  ~Relay() override;
  Wait inner() const override;

 private:
  void Opened(Instant now) override;
  Next MoveBytes(Instant now, std::span<uint8_t> scratch) override;
  Next MoveChunks(Instant now, std::span<uint8_t> scratch);
  // Each returns whether bytes moved. They set `lost_` where the connection cannot go on.
  bool MoveOut(std::span<uint8_t> scratch);
  bool MoveIn(Instant now, std::span<uint8_t> scratch);
  void Send(std::span<const uint8_t> bytes);
  size_t ReadChunk(std::span<uint8_t> scratch);
  void CountHeld();
  // Bytes for gRPC; makes the inner pair where this is the first.
  void Forward(const Pieces& pieces);
  bool OpenInner();
  void FlushIn();
  void Refuse(const absl::Status& why, Instant now);
  CallVerdict Judge(const std::string& path, const absl::Status& refusal);

  const RelayParts& parts_;
  InboundFilter filter_;
  OutboundTracker tracker_;
  Pieces pieces_;
  Descriptor inner_;
  std::string name_;      // of the inner socket
  std::string caller_;    // CallerOf its peer, once the handshake is done
  std::string prelude_;   // for gRPC, before there is an inner pair
  std::string in_;        // for gRPC, that the inner socket did not take yet
  std::string injected_;  // for the peer, between two frames of gRPC's
  size_t counted_ = 0;    // of what is held, in the listener's count
  Instant now_{}, paused_until_{};
  bool judged_too_fast_ = false;
  bool peer_ended_ = false, lost_ = false;
  bool outer_is_dry_ = false, inner_is_dry_ = false;  // nothing is left to read, as far as this turn of the loop goes
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_RELAY_H_
