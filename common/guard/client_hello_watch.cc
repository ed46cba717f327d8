// SPDX-License-Identifier: Apache-2.0
#include "common/guard/client_hello_watch.h"

#include <algorithm>

namespace atl::guard {
namespace {

// Types of records (RFC 8446, appendix B.1).
constexpr uint8_t kChangeCipherSpec = 20, kAlert = 21, kHandshake = 22, kApplicationData = 23;

}  // namespace

bool ClientHelloWatch::Judge() {
  const size_t length = size_t{header_[3]} << 8 | header_[4];
  if (header_[0] == kHandshake) {
    if (have_ == kRecordHeader) return length >= kMessageHeader;
    left_ = length - kMessageHeader;
    return (size_t{header_[6]} << 16 | size_t{header_[7]} << 8 | header_[8]) == left_;
  }
  left_ = length;
  return header_[0] == kChangeCipherSpec || header_[0] == kAlert || header_[0] == kApplicationData;
}

bool ClientHelloWatch::Take(std::span<const uint8_t> bytes) {
  total_ += bytes.size();
  if (total_ > kMostHandshakeBytes) return false;
  while (!bytes.empty()) {
    if (left_ > 0) {
      const size_t skipped = std::min(left_, bytes.size());
      left_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    header_[have_++] = bytes.front();
    bytes = bytes.subspan(1);
    if (have_ != kRecordHeader && have_ != header_.size()) continue;
    if (!Judge()) return false;
    if (have_ == header_.size() || header_[0] != kHandshake) have_ = 0;
  }
  return true;
}

}  // namespace atl::guard
