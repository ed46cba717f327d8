// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/transport_log.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdlib>

namespace atl {

void SilenceTransportLog() {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace atl
