// SPDX-License-Identifier: Apache-2.0
// Bounds what a peer makes OpenSSL do before the end of a TLS 1.3 handshake. OpenSSL allocates 128 KiB
// when nine bytes announce a ClientHello of that size, and takes it in records of one byte.
#ifndef ATOLL_COMMON_GUARD_CLIENT_HELLO_WATCH_H_
#define ATOLL_COMMON_GUARD_CLIENT_HELLO_WATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace atl::guard {

inline constexpr size_t kMostHandshakeBytes = 64 << 10;  // of a client: hello, chain of certificates, proof

// Reads the records of one client. Refuses a handshake record in plaintext that is not exactly one
// message (RFC 8446, section 5.1: a ClientHello ends at the end of a record), types that TLS 1.3 does
// not have, and more than kMostHandshakeBytes.
class ClientHelloWatch {
 public:
  // Reads the next bytes, in pieces of any size. False: refused; later calls are undefined.
  bool Take(std::span<const uint8_t> bytes);

 private:
  static constexpr size_t kRecordHeader = 5, kMessageHeader = 4;
  // Checks header_, of which have_ bytes are complete. False: refused.
  bool Judge();

  std::array<uint8_t, kRecordHeader + kMessageHeader> header_{};
  size_t have_ = 0;  // bytes of `header_`
  size_t left_ = 0;  // remaining bytes of the record after its header
  size_t total_ = 0;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CLIENT_HELLO_WATCH_H_
