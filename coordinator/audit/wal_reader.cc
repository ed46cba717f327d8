#include "coordinator/audit/wal_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "coordinator/audit/file_bytes.h"

namespace atl::audit {
namespace {

constexpr uint64_t kHeaderBytes = 32, kFrameHeaderBytes = 24;
constexpr uint32_t kMagicLittle = 0x377f0682, kMagicBig = 0x377f0683;

uint32_t Big32(const std::string& text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

using Sum = std::pair<uint32_t, uint32_t>;

Sum Checksum(Sum sum, const std::string& text, size_t bytes, bool big) {
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    sum.first += (big ? Big32(text, at) : Little32(text, at)) + sum.second;
    sum.second += (big ? Big32(text, at + 4) : Little32(text, at + 4)) + sum.first;
  }
  return sum;
}

struct Frame {
  bool good = false;         // its checksum follows from the one stored before
  bool of_this_log = false;  // its salts are those of the newest generation
  bool commit = false;
};

// Page sizes are powers of two from 512 to 65,536.
bool IsPageSize(uint32_t bytes) { return bytes >= 512 && bytes <= 65536 && (bytes & (bytes - 1)) == 0; }

absl::StatusOr<std::vector<Frame>> ReadFrames(const File& wal, uint64_t size, const std::string& header,
                                              bool header_good) {
  const uint64_t page = Big32(header, 8);
  const bool big = Big32(header, 0) == kMagicBig;
  std::vector<Frame> frames;
  Sum stored{Big32(header, 24), Big32(header, 28)};
  Sum salts{Big32(header, 16), Big32(header, 20)};
  for (uint64_t at = kHeaderBytes; at + kFrameHeaderBytes + page <= size; at += kFrameHeaderBytes + page) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, ReadText(wal, at, kFrameHeaderBytes));
    ATOLL_ASSIGN_OR_RETURN(const std::string body, ReadText(wal, at + kFrameHeaderBytes, page));
    const Sum of_frame{Big32(head, 8), Big32(head, 12)};
    if (frames.empty() && !header_good) salts = of_frame;
    const Sum sum = Checksum(Checksum(stored, head, 8, big), body, body.size(), big);
    stored = {Big32(head, 16), Big32(head, 20)};
    frames.push_back({.good = sum == stored, .of_this_log = of_frame == salts, .commit = Big32(head, 4) != 0});
  }
  return frames;
}

// Index of a whole frame that follows a commit at or behind `broken`.
bool WasDurable(const std::vector<Frame>& frames, size_t broken) {
  bool committed = false;
  for (size_t i = broken; i < frames.size() && frames[i].of_this_log; ++i) {
    if (committed && frames[i].good) return true;
    committed = committed || frames[i].commit;
  }
  return false;
}

}  // namespace

absl::StatusOr<WalCheck> CheckWal(const File& wal) {
  WalCheck check;
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, wal.Size());
  if (size < kHeaderBytes) return check;
  ATOLL_ASSIGN_OR_RETURN(std::string header, ReadText(wal, 0, kHeaderBytes));
  const bool known = Big32(header, 0) == kMagicLittle || Big32(header, 0) == kMagicBig;
  const Sum sum = Checksum({0, 0}, header, 24, Big32(header, 0) == kMagicBig);
  const bool header_good = known && sum == Sum{Big32(header, 24), Big32(header, 28)} && IsPageSize(Big32(header, 8));
  if (!IsPageSize(Big32(header, 8))) header.replace(8, 4, std::string("\0\0\x10\0", 4));  // 4,096, SQLite's default
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Frame> frames, ReadFrames(wal, size, header, header_good));
  size_t first = 0;
  while (header_good && first < frames.size() && frames[first].good && frames[first].of_this_log) ++first;
  check.frames = first;
  const bool whole = header_good && first == frames.size();
  if (whole || !WasDurable(frames, first)) return check;
  const uint64_t page = Big32(header, 8);
  check.broken = header_good ? kHeaderBytes + first * (kFrameHeaderBytes + page) : 0;
  for (size_t i = first; i < frames.size(); ++i) check.lost_frames += frames[i].good && frames[i].of_this_log ? 1 : 0;
  return check;
}

}  // namespace atl::audit
