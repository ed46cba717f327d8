#include "common/rpc/transport_log.h"

#include <cstdlib>

namespace atl {

void SilenceTransportLog() { setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

}  // namespace atl
