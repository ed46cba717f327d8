// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/wal.h"

#include <span>
#include <vector>

namespace atl::audit {
namespace {

constexpr uint32_t kMagicLittle = 0x377f0682, kMagicBig = 0x377f0683;

absl::StatusOr<std::string> ReadText(const File& file, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

uint32_t Big32(const std::string& text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

WalSum PairAt(const std::string& text, size_t at) { return {Big32(text, at), Big32(text, at + 4)}; }

// Continues `sum` over the first `bytes` bytes of `text`, as 4-byte words.
WalSum Checksum(WalSum sum, const std::string& text, size_t bytes, bool big) {
  const auto word = [big](uint32_t value) { return big ? value : __builtin_bswap32(value); };
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    sum.first += word(Big32(text, at)) + sum.second;
    sum.second += word(Big32(text, at + 4)) + sum.first;
  }
  return sum;
}

bool IsBig(const std::string& header) { return Big32(header, 0) == kMagicBig; }
bool IsPageSize(uint32_t bytes) { return bytes >= 512 && bytes <= 65536 && (bytes & (bytes - 1)) == 0; }

// Whether these 32 bytes are a completely written header.
bool IsHeader(const std::string& header) {
  if (Big32(header, 0) != kMagicLittle && !IsBig(header)) return false;
  return Checksum({0, 0}, header, 24, IsBig(header)) == PairAt(header, 24) && IsPageSize(WalPageBytes(header));
}

struct Frame {
  std::string bytes;
  WalSum salts, stored;  // `stored`: the checksum in the frame
  bool good = false;     // its checksum follows from the previous one
  bool commit = false;
};

absl::StatusOr<Frame> ReadFrame(const File& wal, uint64_t at, const std::string& header, WalSum previous) {
  Frame frame;
  ATOLL_ASSIGN_OR_RETURN(frame.bytes, ReadText(wal, at, kWalFrameHeaderBytes + WalPageBytes(header)));
  const std::string page = frame.bytes.substr(kWalFrameHeaderBytes);
  frame.salts = PairAt(frame.bytes, 8);
  frame.stored = PairAt(frame.bytes, 16);
  frame.commit = Big32(frame.bytes, 4) != 0;
  const bool big = IsBig(header);
  frame.good = Checksum(Checksum(previous, frame.bytes, 8, big), page, page.size(), big) == frame.stored;
  return frame;
}

// Whether a whole frame follows a commit at or after `broken`.
bool WasDurable(const std::vector<Frame>& frames, size_t broken, WalSum salts) {
  bool committed = false;
  for (size_t i = broken; i < frames.size() && frames[i].salts == salts; ++i) {
    if (committed && frames[i].good) return true;
    committed = committed || frames[i].commit;
  }
  return false;
}

}  // namespace

uint32_t WalPageBytes(const std::string& header) { return Big32(header, 8); }

absl::StatusOr<WalCheck> CheckWal(const File& wal) {
  WalCheck check;
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, wal.Size());
  if (size < kWalHeaderBytes) return check;
  ATOLL_ASSIGN_OR_RETURN(std::string header, ReadText(wal, 0, kWalHeaderBytes));
  const bool header_good = IsHeader(header);
  if (!IsPageSize(WalPageBytes(header))) header.replace(8, 4, std::string("\0\0\x10\0", 4));  // 4,096, the default
  const uint64_t frame_bytes = kWalFrameHeaderBytes + WalPageBytes(header);
  std::vector<Frame> frames;
  WalSum previous = PairAt(header, 24);
  for (uint64_t at = kWalHeaderBytes; at + frame_bytes <= size; at += frame_bytes) {
    ATOLL_ASSIGN_OR_RETURN(frames.emplace_back(), ReadFrame(wal, at, header, previous));
    previous = frames.back().stored;
    frames.back().bytes.clear();
  }
  const WalSum salts = header_good || frames.empty() ? PairAt(header, 16) : frames[0].salts;
  size_t first = 0;
  while (header_good && first < frames.size() && frames[first].good && frames[first].salts == salts) ++first;
  check.frames = first;
  const bool whole = header_good && first == frames.size();
  if (whole || !WasDurable(frames, first, salts)) return check;
  check.broken = header_good ? kWalHeaderBytes + first * frame_bytes : 0;
  for (size_t i = first; i < frames.size(); ++i)
    check.lost_frames += frames[i].good && frames[i].salts == salts ? 1 : 0;
  return check;
}

void WalPrefix::Clear() {
  header_.clear();
  bytes_.clear();
}

absl::Status WalPrefix::Extend(const File& wal) {
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, wal.Size());
  if (size < kWalHeaderBytes) {
    Clear();
    return absl::OkStatus();
  }
  ATOLL_ASSIGN_OR_RETURN(std::string header, ReadText(wal, 0, kWalHeaderBytes));
  if (header != header_) {
    Clear();
    if (!IsHeader(header)) return absl::OkStatus();
    header_ = std::move(header);
    sum_ = PairAt(header_, 24);
  }
  std::string open;  // frames after the last commit
  WalSum sum = sum_;
  for (;;) {
    const uint64_t at = (bytes_.empty() ? kWalHeaderBytes : bytes_.size()) + open.size();
    if (at + kWalFrameHeaderBytes + WalPageBytes(header_) > size) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(const Frame frame, ReadFrame(wal, at, header_, sum));
    if (frame.salts != PairAt(header_, 16) || !frame.good) return absl::OkStatus();  // an earlier generation, or open
    open += frame.bytes;
    sum = frame.stored;
    if (!frame.commit) continue;
    if (bytes_.empty()) bytes_ = header_;
    bytes_ += std::exchange(open, {});
    sum_ = sum;
  }
}

}  // namespace atl::audit
