// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/wal_reader.h"

#include <string>
#include <vector>

#include "coordinator/audit/file_bytes.h"
#include "coordinator/audit/wal_format.h"

namespace atl::audit {
namespace {

struct Frame {
  bool good = false;         // its checksum follows from the previous stored one
  bool of_this_log = false;  // its salts are those of the newest generation
  bool commit = false;
};

absl::StatusOr<std::vector<Frame>> ReadFrames(const File& wal, uint64_t size, const std::string& header,
                                              bool header_good) {
  const uint64_t page = WalPageBytes(header);
  const bool big = WalIsBig(header);
  std::vector<Frame> frames;
  WalSum stored{Big32(header, 24), Big32(header, 28)};
  WalSum salts{Big32(header, 16), Big32(header, 20)};
  for (uint64_t at = kWalHeaderBytes; at + kWalFrameHeaderBytes + page <= size; at += kWalFrameHeaderBytes + page) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, ReadText(wal, at, kWalFrameHeaderBytes));
    ATOLL_ASSIGN_OR_RETURN(const std::string body, ReadText(wal, at + kWalFrameHeaderBytes, page));
    const WalSum of_frame{Big32(head, 8), Big32(head, 12)};
    if (frames.empty() && !header_good) salts = of_frame;
    const WalSum sum = WalChecksum(WalChecksum(stored, head, 8, big), body, body.size(), big);
    stored = {Big32(head, 16), Big32(head, 20)};
    frames.push_back({.good = sum == stored, .of_this_log = of_frame == salts, .commit = Big32(head, 4) != 0});
  }
  return frames;
}

// Whether a whole frame follows a commit at or after `broken`.
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
  if (size < kWalHeaderBytes) return check;
  ATOLL_ASSIGN_OR_RETURN(std::string header, ReadText(wal, 0, kWalHeaderBytes));
  const bool header_good = IsWalHeader(header);
  if (!IsWalPageSize(WalPageBytes(header)))
    header.replace(8, 4, std::string("\0\0\x10\0", 4));  // 4,096, SQLite's default
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Frame> frames, ReadFrames(wal, size, header, header_good));
  size_t first = 0;
  while (header_good && first < frames.size() && frames[first].good && frames[first].of_this_log) ++first;
  check.frames = first;
  const bool whole = header_good && first == frames.size();
  if (whole || !WasDurable(frames, first)) return check;
  const uint64_t page = WalPageBytes(header);
  check.broken = header_good ? kWalHeaderBytes + first * (kWalFrameHeaderBytes + page) : 0;
  for (size_t i = first; i < frames.size(); ++i) check.lost_frames += frames[i].good && frames[i].of_this_log ? 1 : 0;
  return check;
}

}  // namespace atl::audit
