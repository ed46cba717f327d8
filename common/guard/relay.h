// SPDX-License-Identifier: Apache-2.0
// A connection between a gRPC client and this process's gRPC server. TLS ends here, the filter
// checks what the peer sends, and an inner socket pair carries the checked bytes to gRPC. The inner
// pair is created for the first admitted call; until then the peer costs this process its TLS state
// and a few kilobytes.
//
// Memory: while gRPC or the peer does not read, at most a chunk for it waits, and the relay stops
// reading from the other one. A chunk is kChunkBytes, or kSmallChunkBytes while all relays of a
// listener hold more than kHeldBytes.
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

// A chunk with the overhead of TLS fits into two of the largest packets that Linux passes to a device,
// 64 KiB. A larger chunk would need a third, small packet.
inline constexpr size_t kChunkBytes = 124 << 10, kSmallChunkBytes = 4 << 10;
inline constexpr size_t kHeldBytes = 16 << 20;
// A connection ends when its peer takes no byte for this long while bytes for it wait. gRPC would not end it, because
// gRPC's keepalive ping waits after those bytes. A peer on a slow link takes some bytes.
inline constexpr Duration kUnreadTime = Seconds(300);

struct RelayParts {
  ConnectionParts connection;
  HttpLimits http;
  // Decides on a new call; `refusal` is the filter's error if it has already refused the call. Runs
  // on the loop's thread; must not block.
  std::function<CallVerdict(uint64_t id, const Peer& peer, const std::string& path, const absl::Status& refusal)> judge;
  CallCounter* calls = nullptr;  // the listener's counter
  // Total bytes that the relays of the listener hold.
  std::atomic<size_t>* held = nullptr;
  // Passes gRPC's end of the inner pair to the gRPC server.
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
  // Sets the time at which the connection ends because nothing of its output moved.
  void WatchOutput(Instant now);
  // Each returns whether bytes moved, and sets `lost_` when the connection cannot continue.
  bool MoveOut(std::span<uint8_t> scratch);
  bool MoveIn(Instant now, std::span<uint8_t> scratch);
  void Send(std::span<const uint8_t> bytes);
  size_t ReadChunk(std::span<uint8_t> scratch);
  void CountHeld();
  void CountLoad();
  // Sends bytes to gRPC. Keeps them in prelude_ until a call is admitted, and then creates the inner pair.
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
  std::string name_;                  // of the inner socket
  std::string caller_;                // CallerOf its peer, after the handshake
  std::string prelude_;               // for gRPC, before the inner pair exists
  std::string in_;                    // for gRPC, not yet accepted by the inner socket
  std::string injected_;              // for the peer, to insert between two of gRPC's frames
  size_t counted_ = 0;                // this relay's part of RelayParts::held
  std::shared_ptr<CallerLoad> load_;  // null before the end of the handshake
  int64_t calls_in_load_ = 0, bytes_in_load_ = 0;
  Instant now_{}, sent_{};
  bool judged_too_fast_ = false;
  bool peer_ended_ = false, lost_ = false;
  bool moved_out_ = false;                            // in this turn of the loop
  bool outer_is_dry_ = false, inner_is_dry_ = false;  // nothing more to read in this turn of the loop
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_RELAY_H_
