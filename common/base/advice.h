// SPDX-License-Identifier: Apache-2.0
// Advice for errors of the operating system. Pure.
#ifndef ATOLL_COMMON_BASE_ADVICE_H_
#define ATOLL_COMMON_BASE_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace atl {

// Appends what to do to an error message that ends in the system's text for an error. For example,
// "open a.txt: No such file or directory" gets "; check the path". Returns any other message
// unchanged. Control characters except newlines and tabs become '?'. Only programs call this, just before a person
// reads the message.
std::string WithAdvice(absl::string_view sentence);

// `word` as a POSIX shell reads it back: in quotes unless it has safe characters alone. For commands in messages.
std::string ShellWord(absl::string_view word);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_ADVICE_H_
