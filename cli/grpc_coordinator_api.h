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

// `endpoint` is HOST:PORT; `identity` an identity file, or empty for plaintext on loopback, whose passphrase is asked
// for at the first call. Calls end at `deadline`; without one, unary calls after limits::kControlDeadline, a rollback
// after ten minutes. `passphrases` and `clock` must outlive the object.
std::unique_ptr<CoordinatorApi> MakeGrpcCoordinatorApi(const std::string& endpoint, const std::string& identity,
                                                       Passphrases& passphrases, std::optional<Instant> deadline,
                                                       const Clock& clock);

}  // namespace atl::cli

#endif  // ATOLL_CLI_GRPC_COORDINATOR_API_H_
