// SPDX-License-Identifier: Apache-2.0
// Checks what a peer sends on an HTTP/2 connection before it reaches gRPC. The filter reads every
// frame header and passes the payload of DATA, RST_STREAM and PING frames unchanged. It reads
// everything else itself: header blocks are collected within a bound, decompressed, checked
// (request_headers.h) and rewritten as one frame without a dynamic table. It counts calls, and
// frames that cost the receiver more than the sender.
//
// gRPC does not know the connection before its first admitted call. Until then the guard sends
// settings and answers pings itself, and the relay keeps the preface and the peer's settings for
// gRPC (`prelude`). Pure: bytes and time in, bytes out; one connection, one thread.
//
// Source: RFC 9113; the floods of CVE-2019-9512 to 9518, CVE-2023-44487 and CVE-2023-33953.
#ifndef ATOLL_COMMON_GUARD_INBOUND_FILTER_H_
#define ATOLL_COMMON_GUARD_INBOUND_FILTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/guard/http2.h"
#include "common/guard/pieces.h"
#include "common/guard/request_headers.h"

namespace atl::guard {

// Limits on the messages that a call of one method sends.
struct MethodLimits {
  uint32_t message_bytes = 0;  // of one message
  bool one_message = false;    // a call that sends a second one is refused
};

// Limits for one connection.
struct HttpLimits {
  uint32_t streams = 64;                     // open at a time; further ones are refused with RESOURCE_EXHAUSTED
  uint32_t continuations = 8;                // CONTINUATION frames after HEADERS; with more the connection is ended
  uint32_t pings_per_second = 50;            // a gRPC client sends at most 10; with more the connection is ended
  uint32_t settings_per_second = 20;         // SETTINGS frames; with more the connection is ended
  uint32_t empty_frames_per_second = 1'000;  // empty data, priorities, unknown types; with more the connection is ended
  uint32_t resets_per_second = 500;          // of streams; with more the connection is ended
  uint32_t window_updates_per_second = 200'000;  // with more the connection is ended
  uint32_t pieces_of_a_message = 64;             // frames below kPieceBytes; with more the connection is ended
  size_t prelude_bytes = 2 << 10;  // kept for gRPC until the first call; with more the connection is ended
  // Returns the limits of the method with this path.
  std::function<MethodLimits(const std::string& path)> method = [](const std::string&) {
    return MethodLimits{.message_bytes = 17 << 16};
  };
};

// A frame or message with fewer bytes counts as small: gRPC stores each frame apart, with an overhead of that order.
inline constexpr uint32_t kPieceBytes = 1024;
inline constexpr uint32_t kTinyBytes = 32;  // data frames below that count as empty ones

// Decision on a new call.
struct CallVerdict {
  absl::Status status = absl::OkStatus();  // an error is sent to the caller as the answer
  bool end_connection = false;             // because of `status` or, if OK, of too fast calls
};

class InboundFilter {
 public:
  // Called for each call, also for a call that the filter refuses: `refusal` is then the error, and
  // the verdict's status is ignored unless it ends the connection.
  using Judge = std::function<CallVerdict(const std::string& path, const absl::Status& refusal)>;

  InboundFilter(HttpLimits limits, Judge judge) : limits_(limits), judge_(std::move(judge)) {}
  // The settings that the guard sends before anything else.
  std::string Greeting() const;
  // Consumes all of `bytes`, unless it returns an error. Appends output for gRPC to `to_server`
  // (spans of `bytes`, or owned) and output for the peer to `to_peer`. After an error the caller
  // must end the connection, and sends its reason to the peer (GoAway).
  absl::Status Consume(std::span<const uint8_t> bytes, Instant now, Pieces& to_server, std::string& to_peer);
  // True once a call has been admitted; from then on gRPC knows the connection.
  bool admitted() const { return admitted_; }
  // Call when the server has ended this stream.
  void StreamEnded(uint32_t stream) { Erase(stream); }
  size_t open_streams() const { return open_.size(); }
  // Content bytes received so far of messages that are not complete, over all open calls.
  size_t unfinished_bytes() const { return unfinished_; }
  // Returns and resets the number of calls that the peer reset before the server ended them, or that exceeded
  // their MethodLimits.
  uint32_t TakeResets() { return std::exchange(reset_, 0); }
  // Returns and resets the cost, in calls, of window updates, of data for calls that have ended, and of frames and
  // messages below kPieceBytes: gRPC spends about the same time on each, whatever its size.
  uint32_t TakeCost();

 private:
  enum class State { kInPreface, kInHeader, kInPayload };
  enum class Payload { kPass, kDrop, kCollect };
  struct Rate {
    Instant began{};
    uint32_t count = 0;
    // Counts one more; true when it is within `limit` a second.
    bool Take(Instant now, uint32_t limit);
  };

  // The message that a call is sending, as received so far: a prefix (one byte of flags, four of length) and the
  // content. gRPC over HTTP/2, "Length-Prefixed-Message".
  struct Message {
    uint32_t prefix = 0;  // received bytes of the prefix
    uint32_t length = 0;  // of the content, as far as the prefix is received
    uint32_t content = 0;
    uint32_t pieces = 0;
  };
  struct Call {
    MethodLimits limits;
    bool peer_has_ended = false;
    bool had_message = false;
    Message message;
    absl::Status refusal = absl::OkStatus();
  };

  absl::Status ReadPreface(std::span<const uint8_t>& bytes, Pieces& to_server);
  absl::Status ReadHeader(std::span<const uint8_t>& bytes, Instant now, Pieces& to_server);
  absl::Status ReadPayload(std::span<const uint8_t>& bytes, Pieces& to_server, std::string& to_peer);
  absl::Status BeginFrame(Instant now);
  absl::Status BeginStreamFrame(Instant now);
  absl::Status BeginConnectionFrame(Instant now);
  absl::Status BeginBlock();
  absl::Status EndFrame(Pieces& to_server, std::string& to_peer);
  absl::Status EndSettings(Pieces& to_server);
  absl::Status EndBlockFrame(Pieces& to_server, std::string& to_peer);
  absl::Status EndCall(Pieces& to_server, std::string& to_peer);
  void Collect(size_t at_most);
  // An error if the call's present message is too long, or a second one where only one is allowed.
  static absl::Status CheckMessage(const Call& call);
  void TakeData(Call& call, std::span<const uint8_t> bytes);
  absl::Status EndData(Pieces& to_server, std::string& to_peer);
  bool Erase(uint32_t stream);

  const HttpLimits limits_;
  const Judge judge_;
  HeaderDecoder decoder_;
  State state_ = State::kInPreface;
  size_t have_ = 0;  // bytes of the preface or the frame header so far
  std::array<uint8_t, kFrameHeaderBytes> header_{};
  FrameHeader frame_;
  Payload payload_ = Payload::kDrop;
  uint32_t left_ = 0;  // remaining bytes of the payload
  std::string collected_;
  size_t collect_at_most_ = 0;
  std::string block_;           // header block of a call
  uint32_t block_stream_ = 0;   // 0: no block is open
  uint32_t continuations_ = 0;  // in this block
  bool block_ends_stream_ = false;
  bool settings_seen_ = false, own_settings_acknowledged_ = false, admitted_ = false;
  uint32_t last_stream_ = 0;
  uint32_t reset_ = 0, updates_ = 0, small_pieces_ = 0;
  size_t unfinished_ = 0;
  std::map<uint32_t, Call> open_;  // by stream
  Rate pings_, settings_, empty_, resets_, window_updates_;
};

// Returns an HTTP/2 GOAWAY frame with the reason of an error from Consume.
std::string GoAway(uint32_t last_stream, const absl::Status& why);

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_INBOUND_FILTER_H_
