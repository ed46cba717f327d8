// SPDX-License-Identifier: Apache-2.0
// TCP sockets between the ranks of an island: non-blocking, closed on exec, every wait with a deadline on the
// given clock. Thread rule: at most one thread sends and one receives on a socket at a time.
#ifndef ATOLL_WORKER_ISLAND_SOCKET_H_
#define ATOLL_WORKER_ISLAND_SOCKET_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/descriptor.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

struct Deadline {
  const Clock& clock;
  Instant at{};
  bool Passed() const { return clock.Now() >= at; }
};

// Listens only on the interface with this address; port 0: any free one. Unavailable with the system's reason.
absl::StatusOr<Descriptor> ListenAt(const std::string& address, uint32_t port);
// Tries each address of the name `address` once. Returns the last error: Unavailable, or DeadlineExceeded.
absl::StatusOr<Descriptor> ConnectTo(const std::string& address, uint32_t port, const Deadline& deadline);
// The next waiting connection; not open if there is none.
absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener);

uint32_t LocalPort(const Descriptor& socket);         // 0: unknown
std::string LocalAddress(const Descriptor& socket);   // numeric; empty: unknown
std::string RemoteAddress(const Descriptor& socket);  // numeric; empty: unknown

// The number of bytes transferred, 0 if the socket is not ready. Unavailable if the peer has closed
// the connection or the system has dropped it.
absl::StatusOr<size_t> SendSome(const Descriptor& socket, Bytes bytes);
absl::StatusOr<size_t> ReceiveSome(const Descriptor& socket, std::span<std::byte> bytes);
// Transfers all bytes. Errors as SendSome and ReceiveSome, and DeadlineExceeded.
absl::Status SendAll(const Descriptor& socket, Bytes bytes, const Deadline& deadline);
absl::Status ReceiveAll(const Descriptor& socket, std::span<std::byte> bytes, const Deadline& deadline);

// Waits until one of the sockets is ready, but at most 100 ms: callers check their deadline and repeat.
void AwaitAny(std::span<pollfd> sockets);
// As AwaitAny, without waiting; true if one socket is ready.
bool LookAtAll(std::span<pollfd> sockets);
// The peer has closed its end, or the system has dropped the connection; earlier bytes may still be unread.
bool HasEnded(const Descriptor& socket);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_SOCKET_H_
