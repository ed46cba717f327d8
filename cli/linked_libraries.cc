// SPDX-License-Identifier: Apache-2.0
#include "cli/linked_libraries.h"

#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>

namespace atl::cli {

std::string LoadedGrpcVersion() { return grpc::Version(); }

std::string LoadedOpensslVersion() { return OpenSSL_version(OPENSSL_VERSION_STRING); }

}  // namespace atl::cli
