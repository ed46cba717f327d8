// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/wal_prefix.h"

#include <cstdint>

#include "coordinator/audit/file_bytes.h"

namespace atl::audit {

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
    if (!IsWalHeader(header)) return absl::OkStatus();
    header_ = std::move(header);
    sum_ = {Big32(header_, 24), Big32(header_, 28)};
  }
  const uint64_t frame = kWalFrameHeaderBytes + WalPageBytes(header_);
  std::string open;  // frames after the last commit
  WalSum sum = sum_;
  for (;;) {
    const uint64_t at = (bytes_.empty() ? kWalHeaderBytes : bytes_.size()) + open.size();
    if (at + frame > size) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(const std::string head, ReadText(wal, at, kWalFrameHeaderBytes));
    if (head.substr(8, 8) != header_.substr(16, 8)) return absl::OkStatus();  // of an earlier generation
    ATOLL_ASSIGN_OR_RETURN(const std::string page, ReadText(wal, at + kWalFrameHeaderBytes, WalPageBytes(header_)));
    const bool big = WalIsBig(header_);
    sum = WalChecksum(WalChecksum(sum, head, 8, big), page, page.size(), big);
    if (sum != WalSum{Big32(head, 16), Big32(head, 20)}) return absl::OkStatus();
    open.append(head).append(page);
    if (Big32(head, 4) == 0) continue;  // not a commit
    if (bytes_.empty()) bytes_ = header_;
    bytes_ += open;
    open.clear();
    sum_ = sum;
  }
}

}  // namespace atl::audit
