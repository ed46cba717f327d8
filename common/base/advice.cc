// SPDX-License-Identifier: Apache-2.0
#include "common/base/advice.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/utf8.h"

namespace atl {
namespace {

struct Advice {
  int code;
  const char* text;
};

constexpr std::array kAdvice = {
    Advice{ENOENT, "check the path"},
    Advice{ENOTDIR, "a part of that path is a file; name another path"},
    Advice{EISDIR, "name a file, not a directory"},
    Advice{EEXIST, "name another path"},
    Advice{ENOSPC, "free disk space and try again"},
    Advice{EDQUOT, "free disk space and try again"},
    Advice{EFBIG, "raise ulimit -f, or name a path on a file system that allows larger files"},
    Advice{EACCES, "give this user permission, or name another path"},
    Advice{EPERM, "give this user permission, or name another path"},
    Advice{EROFS, "the file system is read-only; name a path on another file system"},
    Advice{ENAMETOOLONG, "name a shorter path"},
    Advice{ELOOP, "the path has a loop of symbolic links; name another path"},
    Advice{EMFILE, "allow this process more open files (ulimit -n)"},
    Advice{ENFILE, "this machine has too many open files; stop the processes that hold them"},
    Advice{EIO, "the disk reports errors; see the system's log"},
};

std::string Message(absl::string_view text) { return Printable({text.data(), text.size()}, "\n\t"); }

}  // namespace

std::string WithAdvice(absl::string_view sentence) {
  for (const Advice& advice : kAdvice) {
    if (absl::EndsWith(sentence, absl::StrCat(": ", std::strerror(advice.code))))
      return absl::StrCat(Message(sentence), "; ", advice.text);
  }
  return Message(sentence);
}

std::string ShellWord(absl::string_view word) {
  const auto is_safe = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_@%+=:,./-", c);
  };
  if (!word.empty() && absl::c_all_of(word, is_safe)) return std::string(word);
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace atl
