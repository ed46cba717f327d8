// SPDX-License-Identifier: Apache-2.0
// Makes any text fit for a message.
#ifndef ATOLL_COMMON_WIRE_SENDABLE_H_
#define ATOLL_COMMON_WIRE_SENDABLE_H_

#include <string>
#include <string_view>

#include "common/plan/limits.h"

namespace atl {

// Returns text that is valid to send: UTF-8 (other bytes become '?') of at most `most` bytes. A
// text that is longer is cut and ends with "...".
std::string Sendable(std::string_view text, size_t most = limits::kTextBytes);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_SENDABLE_H_
