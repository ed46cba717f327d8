// SPDX-License-Identifier: Apache-2.0
#include "common/guard/inbound_filter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guard/call_counter.h"

namespace atl::guard {
namespace {

constexpr uint32_t kLongestOther = 16'384;  // payload of a frame other than DATA
constexpr size_t kSettingBytes = 6, kMostSettings = 32;
constexpr uint16_t kHeaderTableSize = 1, kMaxConcurrentStreams = 3, kLastKnownSetting = 6;
constexpr uint32_t kTableBytes = 4096;
constexpr size_t kGoAwayBytes = 8;
constexpr uint32_t kPrefix = 5;  // bytes before each message

absl::Status Broken(const char* what) { return absl::InvalidArgumentError(what); }
absl::Status TooMany(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("too many ", what, " in this second"));
}

void AppendSetting(uint16_t name, uint32_t value, std::string& out) {
  out.push_back(static_cast<char>(name >> 8));
  out.push_back(static_cast<char>(name & 0xff));
  AppendBigEndian32(value, out);
}

// Encodes the first 512 bytes for grpc-message: % and every byte that is not printable ASCII become %XX.
std::string PercentEncoded(absl::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text.substr(0, 512)) {
    if (c >= 0x20 && c < 0x7f && c != '%') {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<uint8_t>(c);
    out.push_back('%');
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

// Returns a complete answer (gRPC's "Trailers-Only"), and RST_STREAM if the caller has not ended the stream.
std::string Refusal(uint32_t stream, const absl::Status& why, bool caller_goes_on) {
  std::string block = "\x88";  // :status 200 from the static table
  AppendLiteralField("content-type", "application/grpc", block);
  AppendLiteralField("grpc-status", absl::StrCat(static_cast<int>(why.code())), block);
  AppendLiteralField("grpc-message", PercentEncoded(why.message()), block);
  std::string out;
  AppendFrame(FrameType::kHeaders, kEndHeaders | kEndStream, stream, block, out);
  if (!caller_goes_on) return out;
  AppendFrame(FrameType::kResetStream, 0, stream, std::string(4, '\0'), out);
  return out;
}

}  // namespace

std::string GoAway(uint32_t last_stream, const absl::Status& why) {
  const Http2Error code = absl::IsResourceExhausted(why) ? Http2Error::kEnhanceYourCalm : Http2Error::kProtocolError;
  std::string payload, out;
  AppendBigEndian32(last_stream, payload);
  AppendBigEndian32(static_cast<uint32_t>(code), payload);
  payload += std::string(why.message());
  AppendFrame(FrameType::kGoAway, 0, 0, payload, out);
  return out;
}

bool InboundFilter::Rate::Take(Instant now, uint32_t limit) {
  if (now - began >= Seconds(1)) {
    began = now;
    count = 0;
  }
  return ++count <= limit;
}

std::string InboundFilter::Greeting() const {
  std::string settings, out;
  AppendSetting(kMaxConcurrentStreams, limits_.streams, settings);
  AppendSetting(kLastKnownSetting, kHeaderListBytes, settings);
  AppendFrame(FrameType::kSettings, 0, 0, settings, out);
  return out;
}

absl::Status InboundFilter::Consume(std::span<const uint8_t> bytes, Instant now, Pieces& to_server,
                                    std::string& to_peer) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::kInPreface: ATOLL_RETURN_IF_ERROR(ReadPreface(bytes, to_server)); break;
      case State::kInHeader: ATOLL_RETURN_IF_ERROR(ReadHeader(bytes, now, to_server)); break;
      case State::kInPayload: break;
    }
    if (state_ == State::kInPayload) ATOLL_RETURN_IF_ERROR(ReadPayload(bytes, to_server, to_peer));
  }
  return absl::OkStatus();
}

absl::Status InboundFilter::ReadPreface(std::span<const uint8_t>& bytes, Pieces& to_server) {
  const size_t count = std::min(bytes.size(), kPreface.size() - have_);
  if (std::memcmp(bytes.data(), kPreface.data() + have_, count) != 0) {
    return Broken("this is a port for gRPC over HTTP/2, and what was sent is something else");
  }
  have_ += count;
  bytes = bytes.subspan(count);
  if (have_ < kPreface.size()) return absl::OkStatus();
  to_server.Own(std::string(kPreface));
  have_ = 0;
  state_ = State::kInHeader;
  return absl::OkStatus();
}

absl::Status InboundFilter::ReadHeader(std::span<const uint8_t>& bytes, Instant now, Pieces& to_server) {
  const size_t count = std::min(bytes.size(), kFrameHeaderBytes - have_);
  const bool whole = count == kFrameHeaderBytes;
  const std::span<const uint8_t> read = bytes.first(count);
  std::memcpy(header_.data() + have_, read.data(), count);
  have_ += count;
  bytes = bytes.subspan(count);
  if (have_ < kFrameHeaderBytes) return absl::OkStatus();
  have_ = 0;
  frame_ = ParseFrameHeader(header_.data());
  left_ = frame_.length;
  collected_.clear();
  ATOLL_RETURN_IF_ERROR(BeginFrame(now));
  state_ = State::kInPayload;
  if (payload_ != Payload::kPass) return absl::OkStatus();
  if (whole)
    to_server.Borrow(read);
  else
    to_server.Own(std::string(header_.begin(), header_.end()));
  return absl::OkStatus();
}

void InboundFilter::Collect(size_t at_most) {
  payload_ = Payload::kCollect;
  collect_at_most_ = at_most;
}

absl::Status InboundFilter::BeginFrame(Instant now) {
  payload_ = Payload::kDrop;
  if (!settings_seen_ && (frame_.type != FrameType::kSettings || (frame_.flags & kAck) != 0)) {
    return Broken("the first frame is not SETTINGS");
  }
  if (block_stream_ != 0 && (frame_.type != FrameType::kContinuation || frame_.stream != block_stream_)) {
    return Broken("a header block is not continued");
  }
  if (frame_.type != FrameType::kData && frame_.length > kLongestOther) return Broken("a frame that is too long");
  switch (frame_.type) {
    case FrameType::kData:
    case FrameType::kHeaders:
    case FrameType::kPriority:
    case FrameType::kResetStream:
    case FrameType::kContinuation:
    case FrameType::kPushPromise: return BeginStreamFrame(now);
    default: return BeginConnectionFrame(now);
  }
}

absl::Status InboundFilter::BeginStreamFrame(Instant now) {
  if (frame_.stream == 0) return Broken("a frame of a stream without a stream");
  const bool known = frame_.stream <= last_stream_ && frame_.stream % 2 == 1;
  switch (frame_.type) {
    case FrameType::kData:
      if (!known || (frame_.flags & ~kEndStream) != 0) return Broken("data of no call, or padded data");
      if (const auto open = open_.find(frame_.stream); open != open_.end()) {
        if (open->second.peer_has_ended) return Broken("data after the end of a call");
        open->second.peer_has_ended = (frame_.flags & kEndStream) != 0;
      }
      if (frame_.length < kTinyBytes && (frame_.flags & kEndStream) == 0 &&
          !empty_.Take(now, limits_.empty_frames_per_second))
        return TooMany("empty frames");
      payload_ = admitted_ ? Payload::kPass : Payload::kDrop;
      return absl::OkStatus();
    case FrameType::kHeaders:
      if (frame_.stream % 2 == 0) return Broken("a call with an even number");
      if (known) return Broken("a second block of headers in a call");
      block_stream_ = frame_.stream;
      block_ends_stream_ = (frame_.flags & kEndStream) != 0;
      block_.clear();
      continuations_ = 0;
      Collect(frame_.length);
      return absl::OkStatus();
    case FrameType::kContinuation:
      if (block_stream_ == 0) return Broken("CONTINUATION without HEADERS");
      if (++continuations_ > limits_.continuations || block_.size() + frame_.length > kHeaderBlockBytes)
        return TooMany("frames or bytes of one header block");
      Collect(frame_.length);
      return absl::OkStatus();
    case FrameType::kPriority:
      if (frame_.length != 5) return Broken("PRIORITY of another length");
      return empty_.Take(now, limits_.empty_frames_per_second) ? absl::OkStatus() : TooMany("priorities");
    case FrameType::kResetStream:
      if (!known || frame_.length != 4) return Broken("RST_STREAM of no call, or of another length");
      if (!resets_.Take(now, limits_.resets_per_second)) return TooMany("resets");
      if (Erase(frame_.stream)) ++reset_;
      payload_ = admitted_ ? Payload::kPass : Payload::kDrop;
      return absl::OkStatus();
    default: return Broken("PUSH_PROMISE from a client");
  }
}

absl::Status InboundFilter::BeginConnectionFrame(Instant now) {
  switch (frame_.type) {
    case FrameType::kSettings: {
      const bool acknowledges = (frame_.flags & kAck) != 0;
      if (frame_.stream != 0 || frame_.length % kSettingBytes != 0 || frame_.length > kMostSettings * kSettingBytes ||
          (acknowledges && frame_.length != 0))
        return Broken("SETTINGS of another length, or of a stream");
      if (!settings_.Take(now, limits_.settings_per_second)) return TooMany("settings");
      settings_seen_ = true;
      if (!acknowledges) {
        Collect(frame_.length);
      } else if (!std::exchange(own_settings_acknowledged_, true)) {
        payload_ = Payload::kDrop;  // acknowledges the guard's own settings
      } else if (admitted_) {
        payload_ = Payload::kPass;
      } else {
        return Broken("settings are acknowledged that were not sent");
      }
      return absl::OkStatus();
    }
    case FrameType::kPing:
      if (frame_.stream != 0 || frame_.length != 8) return Broken("PING of another length, or of a stream");
      if (!pings_.Take(now, limits_.pings_per_second)) return TooMany("pings");
      if (admitted_)
        payload_ = Payload::kPass;
      else
        Collect(frame_.length);
      return absl::OkStatus();
    case FrameType::kGoAway:
      if (frame_.stream != 0 || frame_.length < kGoAwayBytes) return Broken("GOAWAY of another length, or of a stream");
      if (!empty_.Take(now, limits_.empty_frames_per_second)) return TooMany("goodbyes");
      Collect(kGoAwayBytes);
      return absl::OkStatus();
    case FrameType::kWindowUpdate:
      if (frame_.length != 4 || (frame_.stream != 0 && (frame_.stream > last_stream_ || frame_.stream % 2 == 0)))
        return Broken("WINDOW_UPDATE of another length, or of no call");
      if (!window_updates_.Take(now, limits_.window_updates_per_second)) return TooMany("window updates");
      Collect(frame_.length);
      return absl::OkStatus();
    default:  // unknown types are ignored (RFC 9113, section 5.5)
      return empty_.Take(now, limits_.empty_frames_per_second) ? absl::OkStatus() : TooMany("unknown frames");
  }
}

bool InboundFilter::Erase(uint32_t stream) {
  const auto call = open_.find(stream);
  if (call == open_.end()) return false;
  unfinished_ -= call->second.message.content;
  open_.erase(call);
  return true;
}

uint32_t InboundFilter::TakeCost() {
  const uint32_t calls = updates_ / kUpdatesPerCall + small_pieces_ / kSmallPiecesPerCall;
  updates_ %= kUpdatesPerCall;
  small_pieces_ %= kSmallPiecesPerCall;
  return calls;
}

absl::Status InboundFilter::CheckMessage(const Call& call) {
  const Message& message = call.message;
  if (call.limits.one_message && call.had_message)
    return absl::InvalidArgumentError("a second message in a call of a method that takes one");
  if (message.prefix < kPrefix || message.length <= call.limits.message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a message of ", message.length, " bytes; this method takes ",
                                                   call.limits.message_bytes, " at most"));
}

void InboundFilter::TakeData(Call& call, std::span<const uint8_t> bytes) {
  while (!bytes.empty() && call.refusal.ok()) {
    Message& message = call.message;
    if (message.prefix < kPrefix) {
      if (message.prefix++ > 0) message.length = message.length << 8 | bytes.front();
      bytes = bytes.subspan(1);
      call.refusal = CheckMessage(call);
    } else {
      const auto count = static_cast<uint32_t>(std::min<size_t>(bytes.size(), message.length - message.content));
      message.content += count;
      unfinished_ += count;
      bytes = bytes.subspan(count);
    }
    if (message.prefix < kPrefix || message.content < message.length) continue;
    unfinished_ -= message.content;
    small_pieces_ += message.length < kPieceBytes ? 1 : 0;
    message = {};
    call.had_message = true;
  }
}

absl::Status InboundFilter::EndData(Pieces& to_server, std::string& to_peer) {
  // Before the first admitted call gRPC gets no data and returns no window credit for data; the filter returns it.
  if (!admitted_ && frame_.length > 0) {
    std::string credit;
    AppendBigEndian32(frame_.length, credit);
    AppendFrame(FrameType::kWindowUpdate, 0, 0, credit, to_peer);
  }
  const auto found = open_.find(frame_.stream);
  small_pieces_ += found == open_.end() || frame_.length < kPieceBytes ? 1 : 0;
  if (found == open_.end()) return absl::OkStatus();
  Call& call = found->second;
  if (!call.refusal.ok()) {
    to_peer += Refusal(frame_.stream, call.refusal, !call.peer_has_ended);
    std::string reset;
    AppendFrame(FrameType::kResetStream, 0, frame_.stream, std::string("\0\0\0\x08", 4), reset);
    to_server.Own(std::move(reset));
    Erase(frame_.stream);
    ++reset_;
  } else if (call.message.prefix > 0 && frame_.length < kPieceBytes &&
             ++call.message.pieces > limits_.pieces_of_a_message) {
    return absl::ResourceExhaustedError("too many small frames of one message");
  }
  return absl::OkStatus();
}

absl::Status InboundFilter::ReadPayload(std::span<const uint8_t>& bytes, Pieces& to_server, std::string& to_peer) {
  const std::span<const uint8_t> read = bytes.first(std::min<size_t>(bytes.size(), left_));
  bytes = bytes.subspan(read.size());
  left_ -= static_cast<uint32_t>(read.size());
  if (frame_.type == FrameType::kData) {
    if (const auto call = open_.find(frame_.stream); call != open_.end()) TakeData(call->second, read);
  }
  if (payload_ == Payload::kPass) {
    to_server.Borrow(read);
  } else if (payload_ == Payload::kCollect) {
    const size_t kept = std::min(read.size(), collect_at_most_ - std::min(collect_at_most_, collected_.size()));
    collected_.append(reinterpret_cast<const char*>(read.data()), kept);
  }
  if (left_ > 0) return absl::OkStatus();
  state_ = State::kInHeader;
  return EndFrame(to_server, to_peer);
}

absl::Status InboundFilter::EndFrame(Pieces& to_server, std::string& to_peer) {
  switch (frame_.type) {
    case FrameType::kData: return EndData(to_server, to_peer);
    case FrameType::kHeaders:
    case FrameType::kContinuation: return EndBlockFrame(to_server, to_peer);
    case FrameType::kSettings: return payload_ == Payload::kCollect ? EndSettings(to_server) : absl::OkStatus();
    case FrameType::kPing:
      if (payload_ == Payload::kCollect && (frame_.flags & kAck) == 0)
        AppendFrame(FrameType::kPing, kAck, 0, collected_, to_peer);
      return absl::OkStatus();
    case FrameType::kWindowUpdate: {
      if ((ReadBigEndian32(reinterpret_cast<const uint8_t*>(collected_.data())) & 0x7fffffffU) == 0)
        return Broken("WINDOW_UPDATE of nothing");
      ++updates_;
      std::string update;
      AppendFrame(FrameType::kWindowUpdate, 0, frame_.stream, collected_, update);
      if (admitted_ || frame_.stream == 0) to_server.Own(std::move(update));
      return absl::OkStatus();
    }
    case FrameType::kGoAway: {
      std::string goodbye;
      AppendFrame(FrameType::kGoAway, 0, 0, collected_, goodbye);
      if (admitted_) to_server.Own(std::move(goodbye));
      return absl::OkStatus();
    }
    default: return absl::OkStatus();
  }
}

// Passes on the settings defined by HTTP/2, with a header table of at most kTableBytes. Drops others:
// gRPC's own extension would enable binary headers, which the guard does not read.
absl::Status InboundFilter::EndSettings(Pieces& to_server) {
  std::string known, frame;
  for (size_t at = 0; at + kSettingBytes <= collected_.size(); at += kSettingBytes) {
    const auto* const setting = reinterpret_cast<const uint8_t*>(collected_.data() + at);
    const auto name = static_cast<uint16_t>(setting[0] << 8 | setting[1]);
    const uint32_t value = ReadBigEndian32(setting + 2);
    if (name == 0 || name > kLastKnownSetting) continue;
    AppendSetting(name, name == kHeaderTableSize ? std::min(value, kTableBytes) : value, known);
  }
  AppendFrame(FrameType::kSettings, 0, 0, known, frame);
  to_server.Own(std::move(frame));
  return absl::OkStatus();
}

absl::Status InboundFilter::EndBlockFrame(Pieces& to_server, std::string& to_peer) {
  std::string_view fragment = collected_;
  if (frame_.type == FrameType::kHeaders) {
    size_t padding = 0;
    if ((frame_.flags & kPadded) != 0) {
      if (fragment.empty()) return Broken("padded headers without their padding");
      padding = static_cast<uint8_t>(fragment[0]);
      fragment.remove_prefix(1);
    }
    const size_t priority = (frame_.flags & kHasPriority) != 0 ? 5 : 0;
    if (fragment.size() < priority + padding) return Broken("headers with more padding than bytes");
    fragment = fragment.substr(priority, fragment.size() - priority - padding);
  }
  block_.append(fragment);
  return (frame_.flags & kEndHeaders) != 0 ? EndCall(to_server, to_peer) : absl::OkStatus();
}

absl::Status InboundFilter::EndCall(Pieces& to_server, std::string& to_peer) {
  const uint32_t stream = std::exchange(block_stream_, 0);
  last_stream_ = stream;
  const std::string block = std::exchange(block_, {});
  const absl::StatusOr<RequestHeaders> headers = decoder_.Decode(BytesOf(block));
  if (!headers.ok()) return headers.status();
  absl::Status refusal = headers->Check();
  if (refusal.ok() && open_.size() >= limits_.streams) {
    refusal = absl::ResourceExhaustedError(absl::StrCat("more than ", limits_.streams, " calls at a time"));
  }
  const CallVerdict verdict = judge_(headers->path(), refusal);
  if (verdict.end_connection) return verdict.status.ok() ? TooMany("calls") : verdict.status;
  if (refusal.ok()) refusal = verdict.status;
  if (!refusal.ok()) {
    to_peer += Refusal(stream, refusal, !block_ends_stream_);
    return absl::OkStatus();
  }
  std::string frame;
  const uint8_t flags = static_cast<uint8_t>(kEndHeaders | (block_ends_stream_ ? kEndStream : 0));
  AppendFrame(FrameType::kHeaders, flags, stream, headers->encoded(), frame);
  open_[stream] = {.limits = limits_.method(headers->path()), .peer_has_ended = block_ends_stream_};
  admitted_ = true;
  to_server.Own(std::move(frame));
  return absl::OkStatus();
}

}  // namespace atl::guard
