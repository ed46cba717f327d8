// SPDX-License-Identifier: Apache-2.0
// An enrolment port for a test.
#ifndef ATOLL_TESTS_UNIT_COMMON_RPC_ENROLL_DOOR_H_
#define ATOLL_TESTS_UNIT_COMMON_RPC_ENROLL_DOOR_H_

#include <memory>
#include <string>
#include <utility>

#include "common/guard/guard.h"
#include "common/rpc/enroll_server.h"

namespace atl {

// `enroller` outlives the door.
inline std::unique_ptr<guard::Guard> OpenEnrollDoor(std::shared_ptr<guard::TlsServer> tls, Enroller enroller) {
  auto door = *guard::Guard::Listen({.tls = std::move(tls)});
  const absl::Status started = door->Answer(MakeEnrollHandler(std::move(enroller)));
  return started.ok() ? std::move(door) : nullptr;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_RPC_ENROLL_DOOR_H_
