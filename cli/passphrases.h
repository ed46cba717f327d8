// SPDX-License-Identifier: Apache-2.0
// Passphrases of identity files: from the file of --passphrase-file, or typed at the terminal.
#ifndef ATOLL_CLI_PASSPHRASES_H_
#define ATOLL_CLI_PASSPHRASES_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/status.h"

namespace atl::cli {

// Reads one line that a person types at the terminal, without echo. FailedPrecondition without a
// terminal.
using AskSecret = std::function<absl::StatusOr<std::string>(const std::string& prompt)>;

// For one thread.
class Passphrases {
 public:
  static constexpr size_t kShortest = 8, kLongest = 1023;  // bytes; OpenSSL reads no longer ones

  // `file`: from --passphrase-file; empty: uses `ask`.
  Passphrases(std::string file, AskSecret ask) : file_(std::move(file)), ask_(std::move(ask)) {}
  // Returns the passphrase of the identity file at `path`; asks once, and only if the file is protected. Empty if it
  // is not protected or cannot be read; the next reader reports that. Error for a file that is not regular and for no
  // or a wrong passphrase; InvalidArgument, naming --passphrase-file, without a terminal.
  absl::StatusOr<std::string> Of(const std::string& path);
  // Returns a passphrase for an identity file to be written; asks twice, unless --passphrase-file has it.
  // InvalidArgument if the two differ, or if the length is not kShortest to kLongest.
  absl::StatusOr<std::string> New(const std::string& path);

 private:
  absl::StatusOr<std::string> Ask(const std::string& prompt) const;

  const std::string file_;
  const AskSecret ask_;
  std::map<std::string, std::string> known_;  // by path
};

// Returns the first line of the file, which may be a pipe. PermissionDenied if other users have any access to a
// regular file, InvalidArgument if the line is empty.
absl::StatusOr<std::string> ReadPassphraseFile(const std::string& path);

}  // namespace atl::cli

#endif  // ATOLL_CLI_PASSPHRASES_H_
