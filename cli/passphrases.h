// SPDX-License-Identifier: Apache-2.0
// Passphrases of identity files: from the file of --passphrase-file, or typed at the terminal.
#ifndef ATOLL_CLI_PASSPHRASES_H_
#define ATOLL_CLI_PASSPHRASES_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/status.h"

namespace atl::cli {

// One line that the person at the terminal types, which is not shown. FailedPrecondition without a terminal.
using AskSecret = std::function<absl::StatusOr<std::string>(const std::string& prompt)>;

// For one thread.
class Passphrases {
 public:
  static constexpr size_t kShortest = 8, kLongest = 1023;  // bytes; OpenSSL reads no longer ones

  // `file`: of --passphrase-file; empty: `ask`.
  Passphrases(std::string file, AskSecret ask) : file_(std::move(file)), ask_(std::move(ask)) {}
  // Of the identity file at `path`: asked for once, and only where the file is protected. Empty where it is not, or
  // cannot be read, which the next reader of it reports. InvalidArgument, naming --passphrase-file, without a terminal.
  absl::StatusOr<std::string> Of(const std::string& path);
  // For an identity file that is to be written; typed twice. InvalidArgument where the two differ, or one is too short.
  absl::StatusOr<std::string> New(const std::string& path);

 private:
  absl::StatusOr<std::string> Ask(const std::string& prompt) const;

  const std::string file_;
  const AskSecret ask_;
  std::map<std::string, std::string> known_;  // by path
};

// The first line of the file, which may be a pipe. PermissionDenied where others may read it.
absl::StatusOr<std::string> ReadPassphraseFile(const std::string& path);

}  // namespace atl::cli

#endif  // ATOLL_CLI_PASSPHRASES_H_
