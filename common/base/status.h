// SPDX-License-Identifier: Apache-2.0
// Errors are values: absl::Status and absl::StatusOr, with two macros that propagate them. Code
// adds context once, where it is known, with Annotate(). An error is never both logged and
// returned.
#ifndef ATOLL_COMMON_BASE_STATUS_H_
#define ATOLL_COMMON_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace atl {

// Returns the same code with "context: " before the message. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace atl

// Returns from the enclosing function if `expr` is an error.
#define ATOLL_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status atoll_status_ = (expr); !atoll_status_.ok()) return atoll_status_; \
  } while (false)

// ATOLL_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's error.
#define ATOLL_ASSIGN_OR_RETURN(lhs, expr) ATOLL_ASSIGN_OR_RETURN_IMPL_(ATOLL_CONCAT_(atoll_or_, __LINE__), lhs, expr)
#define ATOLL_CONCAT_INNER_(a, b) a##b
#define ATOLL_CONCAT_(a, b) ATOLL_CONCAT_INNER_(a, b)
#define ATOLL_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return std::move(tmp).status();     \
  lhs = *std::move(tmp)

#endif  // ATOLL_COMMON_BASE_STATUS_H_
