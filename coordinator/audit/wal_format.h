// SPDX-License-Identifier: Apache-2.0
// Numbers of SQLite's write-ahead log, from its published file format (section 4 of "Database File Format").
#ifndef ATOLL_COORDINATOR_AUDIT_WAL_FORMAT_H_
#define ATOLL_COORDINATOR_AUDIT_WAL_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace atl::audit {

constexpr uint64_t kWalHeaderBytes = 32, kWalFrameHeaderBytes = 24;

using WalSum = std::pair<uint32_t, uint32_t>;

uint32_t Big32(const std::string& text, size_t at);
// Continues `sum` over the first `bytes` bytes of `text`, as 4-byte words; `big`: big-endian.
WalSum WalChecksum(WalSum sum, const std::string& text, size_t bytes, bool big);
bool WalIsBig(const std::string& header);
uint32_t WalPageBytes(const std::string& header);
// Page sizes are powers of two from 512 to 65,536.
bool IsWalPageSize(uint32_t bytes);
// Whether these 32 bytes are a completely written header.
bool IsWalHeader(const std::string& header);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_WAL_FORMAT_H_
