// SPDX-License-Identifier: Apache-2.0
// Advice for errors of the operating system. Pure.
#ifndef ATOLL_COMMON_BASE_ADVICE_H_
#define ATOLL_COMMON_BASE_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace atl {

// Appends advice to an error message that ends in ": " and the system's text for one of the errors in a table. For
// example, "open a.txt: No such file or directory" gets "; check the path". Any other message gets no advice. In
// every message, control characters except newlines and tabs become '?'. Only code that prints or logs for a person
// calls this, on the final message; a message that other code still extends would no longer end in the system's text.
std::string WithAdvice(absl::string_view sentence);

// `word` as a POSIX shell reads it back: in quotes unless it has safe characters alone. For commands in messages.
std::string ShellWord(absl::string_view word);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_ADVICE_H_
