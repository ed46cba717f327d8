// SPDX-License-Identifier: Apache-2.0
// CoordinatorApi over gRPC: one connection for calls, another for bulk bytes, both made at first use.
#ifndef ATOLL_CLI_GRPC_COORDINATOR_API_H_
#define ATOLL_CLI_GRPC_COORDINATOR_API_H_

#include <memory>
#include <optional>
#include <string>

#include "cli/coordinator_api.h"
#include "cli/passphrases.h"
#include "common/base/time.h"

namespace atl::cli {

// `endpoint`: HOST:PORT. `identity`: an identity file, with its passphrase requested at the first call; empty:
// plaintext on loopback. Calls end at `deadline`. Without one, unary calls end after limits::kControlDeadline, a
// rollback after ten minutes, and streams and bulk transfers at no fixed time. `passphrases` and `clock` must outlive
// the object.
std::unique_ptr<CoordinatorApi> MakeGrpcCoordinatorApi(const std::string& endpoint, const std::string& identity,
                                                       Passphrases& passphrases, std::optional<Instant> deadline,
                                                       const Clock& clock);

}  // namespace atl::cli

#endif  // ATOLL_CLI_GRPC_COORDINATOR_API_H_
