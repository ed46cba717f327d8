// SPDX-License-Identifier: Apache-2.0
#include "cli/passphrases.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/descriptor.h"
#include "common/trust/secret_files.h"

namespace atl::cli {

absl::StatusOr<std::string> Passphrases::Of(const std::string& path) {
  // The file is read here and again for each connection, which is not possible with a pipe.
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is not a regular file, and an identity is read more than once; copy it to a file of mode 600"));
  }
  const absl::StatusOr<IdentityFile> identity = ReadLockedIdentityFile(path);
  if (!identity.ok() || !IsProtected(identity->key_pem)) return std::string();
  if (const auto known = known_.find(path); known != known_.end()) return known->second;
  ATOLL_ASSIGN_OR_RETURN(std::string passphrase, Ask(absl::StrCat("passphrase of ", path, ": ")));
  if (passphrase.empty()) return absl::PermissionDeniedError(absl::StrCat("no passphrase was given for ", path));
  // Checks at once instead of at the first call, while the cause of an error is known.
  ATOLL_RETURN_IF_ERROR(ReadIdentityFile(path, passphrase).status());
  return known_[path] = std::move(passphrase);
}

absl::StatusOr<std::string> Passphrases::New(const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(std::string passphrase, Ask(absl::StrCat("passphrase for ", path, ": ")));
  if (passphrase.size() < kShortest || passphrase.size() > kLongest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a passphrase has ", kShortest, " to ", kLongest, " bytes, and this one has ", passphrase.size()));
  }
  if (!file_.empty()) return passphrase;
  ATOLL_ASSIGN_OR_RETURN(const std::string again, Ask("repeat the passphrase: "));
  if (again != passphrase) return absl::InvalidArgumentError("the two passphrases differ: nothing was written");
  return passphrase;
}

absl::StatusOr<std::string> Passphrases::Ask(const std::string& prompt) const {
  if (!file_.empty()) return ReadPassphraseFile(file_);
  absl::StatusOr<std::string> typed = ask_(prompt);
  if (!absl::IsFailedPrecondition(typed.status())) return typed;
  return absl::InvalidArgumentError(
      absl::StrCat(prompt, typed.status().message(), ": give a file that contains it with --passphrase-file"));
}

absl::StatusOr<std::string> ReadPassphraseFile(const std::string& path) {
  const auto failed = [&path](const char* call) {
    const std::string text = absl::StrCat("--passphrase-file: ", call, " ", path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!file.open() || ::fstat(file.get(), &facts) != 0) return failed("open");
  if (S_ISREG(facts.st_mode) && (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("--passphrase-file: others may read or change ", path, ": run 'chmod 600 ", path, "'"));
  }
  std::string text;
  std::array<char, 512> piece{};
  while (text.size() <= Passphrases::kLongest && text.find('\n') == std::string::npos) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read");
    if (n == 0) break;
    text.append(piece.data(), static_cast<size_t>(n));
  }
  text.erase(std::min(text.find_first_of("\r\n"), text.size()));
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(absl::StrCat("--passphrase-file: the first line of ", path, " is empty"));
}

}  // namespace atl::cli
