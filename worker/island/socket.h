// SPDX-License-Identifier: Apache-2.0
// TCP sockets between the ranks of an island: never blocking, closed on exec, every wait with a deadline of the given
// clock. Thread rule: one thread sends and one receives on a socket at a time.
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

// Listens on the interface that has this address, and on no other; port 0: any free one. Unavailable with the system's
// reason.
absl::StatusOr<Descriptor> ListenAt(const std::string& address, uint32_t port);
// One try. Unavailable when nobody listens there, DeadlineExceeded.
absl::StatusOr<Descriptor> ConnectTo(const std::string& address, uint32_t port, const Deadline& deadline);
// The next connection that waits; not open when there is none.
absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener);

uint32_t LocalPort(const Descriptor& socket);         // 0: unknown
std::string LocalAddress(const Descriptor& socket);   // numeric; empty: unknown
std::string RemoteAddress(const Descriptor& socket);  // likewise

// How many bytes went, 0 when the socket takes or has none now. Unavailable when the other side has closed it or the
// system gave it up.
absl::StatusOr<size_t> SendSome(const Descriptor& socket, Bytes bytes);
absl::StatusOr<size_t> ReceiveSome(const Descriptor& socket, std::span<std::byte> bytes);
// All of them; DeadlineExceeded.
absl::Status SendAll(const Descriptor& socket, Bytes bytes, const Deadline& deadline);
absl::Status ReceiveAll(const Descriptor& socket, std::span<std::byte> bytes, const Deadline& deadline);

// Waits a moment at most (100 ms) for one of them: callers look at their deadline and come back.
void AwaitAny(std::span<pollfd> sockets);
// Likewise without waiting; true when one of them has something.
bool LookAtAll(std::span<pollfd> sockets);
// The other side has closed its end, or the system gave the connection up; bytes it sent before may still be there.
bool HasEnded(const Descriptor& socket);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_SOCKET_H_
