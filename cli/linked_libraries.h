// SPDX-License-Identifier: Apache-2.0
// Versions of the shared libraries that read bytes of the network, as they are loaded. Private to the command line.
#ifndef ATOLL_CLI_LINKED_LIBRARIES_H_
#define ATOLL_CLI_LINKED_LIBRARIES_H_

#include <string>

namespace atl::cli {

std::string LoadedGrpcVersion();     // such as 1.51.1
std::string LoadedOpensslVersion();  // such as 3.0.22

}  // namespace atl::cli

#endif  // ATOLL_CLI_LINKED_LIBRARIES_H_
