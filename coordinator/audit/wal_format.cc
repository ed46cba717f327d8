// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/wal_format.h"

#include "coordinator/audit/file_bytes.h"

namespace atl::audit {
namespace {

constexpr uint32_t kMagicLittle = 0x377f0682, kMagicBig = 0x377f0683;

}  // namespace

uint32_t Big32(const std::string& text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

WalSum WalChecksum(WalSum sum, const std::string& text, size_t bytes, bool big) {
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    sum.first += (big ? Big32(text, at) : Little32(text, at)) + sum.second;
    sum.second += (big ? Big32(text, at + 4) : Little32(text, at + 4)) + sum.first;
  }
  return sum;
}

bool WalIsBig(const std::string& header) { return Big32(header, 0) == kMagicBig; }
uint32_t WalPageBytes(const std::string& header) { return Big32(header, 8); }
bool IsWalPageSize(uint32_t bytes) { return bytes >= 512 && bytes <= 65536 && (bytes & (bytes - 1)) == 0; }

bool IsWalHeader(const std::string& header) {
  if (header.size() != kWalHeaderBytes) return false;
  if (Big32(header, 0) != kMagicLittle && !WalIsBig(header)) return false;
  const WalSum sum = WalChecksum({0, 0}, header, 24, WalIsBig(header));
  return sum == WalSum{Big32(header, 24), Big32(header, 28)} && IsWalPageSize(WalPageBytes(header));
}

}  // namespace atl::audit
