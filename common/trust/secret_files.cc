// SPDX-License-Identifier: Apache-2.0
#include "common/trust/secret_files.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/advice.h"
#include "common/base/files.h"
#include "common/trust/openssl_handles.h"

namespace atl {
namespace {

constexpr uint64_t kSecretLimitBytes = 65536;
// A coordinator reloads a rotated authority after some seconds, and signs with the previous key
// until then.
constexpr int64_t kRotationMargin_s = 86'400;
constexpr char kBegin[] = "-----BEGIN CERTIFICATE-----";

absl::Status Error(const char* call, const std::string& path, int number) {
  const std::string text = absl::StrCat(call, " ", path, ": ", std::strerror(number));
  if (number == ENOENT) return absl::NotFoundError(text);
  if (number == EACCES) return absl::PermissionDeniedError(text);
  if (number == ENOSPC || number == EDQUOT) return absl::ResourceExhaustedError(text);
  if (number == EPERM || number == EROFS || number == ENOTDIR || number == EISDIR)
    return absl::FailedPreconditionError(text);
  return absl::InternalError(text);
}

absl::Status WriteAll(int fd, const std::string& path, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error("write", path, errno);
    done += static_cast<size_t>(n);
  }
  return ::fsync(fd) == 0 ? absl::OkStatus() : Error("fsync", path, errno);
}

bool KeyFits(const IdentityFile& identity) {
  const absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(identity.key_pem);
  const absl::StatusOr<openssl::Certificate> certificate = openssl::ParseCertificate(identity.certificate_pem);
  if (!key.ok() || !certificate.ok()) return false;
  const bool fits = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  return fits;
}

absl::Status NoIdentity(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is not an identity file: it must contain a private key, the certificate of that key and the "
                   "authority's certificate; enrol again, or issue it with 'atoll ca issue'"));
}

// True for a file of another kind, given by mistake: it contains no key to protect.
bool HoldsNoKey(const std::string& path) {
  const auto text = ReadWholeFile(*MakePosixFiles(), path, kSecretLimitBytes);
  if (absl::IsResourceExhausted(text.status())) return true;  // too large for an identity
  return text.ok() && text->find("PRIVATE KEY") == std::string::npos;
}

// An authority exists when its key does. A file that cannot be accessed is not treated as missing.
absl::StatusOr<bool> HasAuthority(const std::string& directory) {
  struct stat facts {};
  if (::stat(AuthorityKeyPath(directory).c_str(), &facts) == 0) return true;
  const int number = errno;
  if (number == ENOENT || number == ENOTDIR) return false;
  return Error("read", AuthorityKeyPath(directory), number);
}

// A lock for changes to the files of an authority: only by its owner, one process at a time.
class Turn {
 public:
  static absl::StatusOr<Turn> Take(const std::string& directory) {
    ATOLL_ASSIGN_OR_RETURN(const bool there, HasAuthority(directory));
    struct stat facts {};
    // New files would belong to this user, and the coordinator could no longer read its own.
    if (there && ::stat(AuthorityKeyPath(directory).c_str(), &facts) == 0 && facts.st_uid != ::geteuid()) {
      return absl::PermissionDeniedError(absl::StrCat(
          AuthorityKeyPath(directory), " is owned by user ", facts.st_uid, ", but this process runs as user ",
          ::geteuid(), ": run the command as the owner, 'sudo -u #", facts.st_uid, " ...'"));
    }
    Turn turn(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (there && ::flock(turn.fd_, LOCK_EX | LOCK_NB) != 0)
      return absl::UnavailableError(
          absl::StrCat("another 'atoll ca' command is running in ", directory, ": try again"));
    return turn;
  }
  Turn(Turn&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Turn() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit Turn(int fd) : fd_(fd) {}
  int fd_;
};

absl::Status WriteCertificates(const std::string& directory, const Authority& authority) {
  return WriteFileAtomically(*MakePosixFiles(), AuthorityCertificatePath(directory),
                             AsBytes(authority.certificates_pem()));
}

// Writes the key last. If the disk is full, certificates without a key are replaced by the next
// attempt. Next to the key of the previous authority they still include its certificate.
absl::Status WriteAuthority(const std::string& directory, const Authority& authority) {
  ATOLL_ASSIGN_OR_RETURN(const std::string key, authority.key_pem());
  ATOLL_RETURN_IF_ERROR(WriteCertificates(directory, authority));
  return WriteSecretFile(AuthorityKeyPath(directory), key);
}

// Removes the trust in the previous authority.
absl::StatusOr<Authority> WriteAlone(const std::string& directory, const Authority& authority) {
  Authority alone = authority.Alone();
  ATOLL_RETURN_IF_ERROR(WriteCertificates(directory, alone));
  return alone;
}

}  // namespace

absl::Status WriteSecretFile(const std::string& path, const std::string& text) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);  // mode 0600, independent of the umask
  if (fd < 0) return Error("create", temporary, errno);
  absl::Status written = WriteAll(fd, temporary, text);
  ::close(fd);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) written = Error("rename", temporary, errno);
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  return MakePosixFiles()->SyncDirectory(DirectoryOf(path));
}

absl::Status TrySecretFile(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return Error("write", path, EISDIR);
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Error("create", temporary, errno);
  const int number = ::posix_fallocate(fd, 0, kSecretLimitBytes);
  ::close(fd);
  ::unlink(temporary.c_str());
  return number == 0 ? absl::OkStatus() : Error("write", temporary, number);
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return Error("read", path, errno);
  if (S_ISDIR(facts.st_mode)) return Error("read", path, EISDIR);
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " contains a private key, and other users may read or change the file: run 'chmod 600 ", path, "'"));
  }
  return ReadWholeFile(*MakePosixFiles(), path, kSecretLimitBytes);
}

absl::StatusOr<std::string> ReadOwnSecretFile(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return Error("read", path, errno);
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid())
    return absl::PermissionDeniedError(absl::StrCat(path, " was not written by this user"));
  return ReadSecretFile(path);
}

std::string AuthorityCertificatePath(const std::string& directory) { return JoinPath(directory, "ca.pem"); }
std::string AuthorityKeyPath(const std::string& directory) { return JoinPath(directory, "ca-key.pem"); }

absl::StatusOr<Authority> CreateAuthority(const std::string& directory, int64_t now_s) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  ATOLL_RETURN_IF_ERROR(files->MakeDirectory(directory));
  ATOLL_ASSIGN_OR_RETURN(const bool there, HasAuthority(directory));
  if (there) {
    return absl::AlreadyExistsError(absl::StrCat("an authority already exists in ", directory,
                                                 ", and all its identities depend on it: choose another directory"));
  }
  if (::chmod(directory.c_str(), 0700) != 0) return Error("chmod", directory, errno);
  ATOLL_ASSIGN_OR_RETURN(Authority authority, Authority::Create(now_s));
  ATOLL_RETURN_IF_ERROR(WriteAuthority(directory, authority));
  return authority;
}

absl::StatusOr<Authority> LoadAuthority(const std::string& directory) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  ATOLL_ASSIGN_OR_RETURN(const bool there, HasAuthority(directory));
  if (!there && files->Exists(AuthorityCertificatePath(directory))) {
    return absl::NotFoundError(absl::StrCat(
        "the authority in ", directory,
        " has no key: restore ca-key.pem from its copy; without a copy see docs/trust.md, \"The key is lost\""));
  }
  if (!there) {
    return absl::NotFoundError(
        absl::StrCat("no authority exists in ", directory,
                     ": mount or name its directory, or, if none was ever created, create one with: atoll ca init ",
                     ShellWord(directory)));
  }
  ATOLL_ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(AuthorityKeyPath(directory)));
  ATOLL_ASSIGN_OR_RETURN(const std::string certificates,
                         ReadWholeFile(*files, AuthorityCertificatePath(directory), kSecretLimitBytes));
  absl::StatusOr<Authority> authority = Authority::FromPem(certificates, key);
  if (!authority.ok()) return Annotate(authority.status(), directory);
  return authority;
}

absl::StatusOr<Authority> RotateAuthority(const std::string& directory, int64_t now_s, bool retire) {
  ATOLL_ASSIGN_OR_RETURN(const Turn turn, Turn::Take(directory));
  ATOLL_ASSIGN_OR_RETURN(const Authority held, LoadAuthority(directory));
  if (held.is_rotated()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the authority in ", directory, " was rotated at ", DateText(held.create_s()),
                     ", and the previous authority is still trusted; stop trusting it with: atoll ca retire ",
                     ShellWord(directory)));
  }
  absl::StatusOr<Authority> successor = held.Rotated(now_s);
  if (!successor.ok()) return Annotate(successor.status(), absl::StrCat("the authority in ", directory));
  ATOLL_RETURN_IF_ERROR(WriteAuthority(directory, *successor));
  return retire ? WriteAlone(directory, *successor) : successor;
}

absl::StatusOr<Authority> RetireAuthority(const std::string& directory) {
  ATOLL_ASSIGN_OR_RETURN(const Turn turn, Turn::Take(directory));
  ATOLL_ASSIGN_OR_RETURN(const Authority held, LoadAuthority(directory));
  if (held.is_rotated()) return WriteAlone(directory, held);
  return absl::FailedPreconditionError(
      absl::StrCat("the authority in ", directory, " has no previous authority to retire"));
}

int64_t RetireAfter(const Authority& rotated) { return rotated.create_s() + kUserLifetime_s + kRotationMargin_s; }

absl::Status WriteIdentityFile(const std::string& path, const IdentityFile& identity, const std::string& passphrase) {
  std::string key_pem = identity.key_pem;
  if (!passphrase.empty()) {
    ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(key_pem));
    ATOLL_ASSIGN_OR_RETURN(key_pem, key.ToPem(passphrase));
  }
  return WriteSecretFile(path, absl::StrCat(key_pem, identity.certificate_pem, identity.authority_pem));
}

absl::StatusOr<IdentityFile> ReadIdentityFile(const std::string& path, const std::string& passphrase) {
  ATOLL_ASSIGN_OR_RETURN(IdentityFile identity, ReadLockedIdentityFile(path));
  if (!IsProtected(identity.key_pem)) return identity;
  if (passphrase.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " is protected by a passphrase, which only 'atoll' accepts (--passphrase-file, or at the "
                     "terminal): a daemon needs an identity without a passphrase"));
  }
  const absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(identity.key_pem, passphrase);
  if (!key.ok()) return Annotate(key.status(), path);
  ATOLL_ASSIGN_OR_RETURN(identity.key_pem, key->ToPem());
  return KeyFits(identity) ? absl::StatusOr<IdentityFile>(std::move(identity)) : NoIdentity(path);
}

absl::StatusOr<IdentityFile> ReadLockedIdentityFile(const std::string& path) {
  auto read = ReadSecretFile(path);
  if (absl::IsPermissionDenied(read.status()) && HoldsNoKey(path)) read = std::string();  // no key: refused below
  ATOLL_ASSIGN_OR_RETURN(const std::string text, std::move(read));
  const absl::StatusOr<std::vector<openssl::Certificate>> certificates = openssl::ParseCertificates(text);
  IdentityFile identity;
  identity.key_pem = text.substr(0, text.find(kBegin));
  for (size_t i = 0; certificates.ok() && i < certificates->size(); ++i) {
    ATOLL_ASSIGN_OR_RETURN(const std::string pem, openssl::WriteCertificate((*certificates)[i].get()));
    (i == 0 ? identity.certificate_pem : identity.authority_pem) += pem;
  }
  const bool fits = IsProtected(identity.key_pem) || KeyFits(identity);
  return fits && !identity.authority_pem.empty() ? absl::StatusOr<IdentityFile>(std::move(identity)) : NoIdentity(path);
}

absl::StatusOr<IdentityFile> IssueIdentity(const Authority& authority, const Identity& identity, int64_t now_s) {
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  ATOLL_ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key));
  IdentityFile out{.authority_pem = authority.certificates_pem()};
  ATOLL_ASSIGN_OR_RETURN(out.key_pem, key.ToPem());
  ATOLL_ASSIGN_OR_RETURN(out.certificate_pem, authority.Sign(request, identity, now_s, LifetimeOf(identity.role)));
  return out;
}

}  // namespace atl
