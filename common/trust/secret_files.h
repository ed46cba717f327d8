// SPDX-License-Identifier: Apache-2.0
// Files that hold keys: mode 0600, written whole or not at all, refused when others may read them. Straight POSIX,
// since the store's Files knows no permissions. Thread-safe.
#ifndef ATOLL_COMMON_TRUST_SECRET_FILES_H_
#define ATOLL_COMMON_TRUST_SECRET_FILES_H_

#include <cstdint>
#include <string>

#include "common/trust/authority.h"

namespace atl {

// Temp file with mode 0600, fsync, rename, fsync of the directory, which must be there.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);
// Whether WriteSecretFile could write the path now: makes its temp file with room for the largest text, and removes it.
// For who is about to pay for the text with something that is gone then, as with one use of a join token.
absl::Status TrySecretFile(const std::string& path);
// PermissionDenied, with the command that mends it, when group or others may read the file; NotFound; ResourceExhausted
// above 64 KiB.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);
// The same of a file that this user has written: PermissionDenied where it is another user's, or a link. For a key that
// is taken up without being asked for, in a folder where others may make files.
absl::StatusOr<std::string> ReadOwnSecretFile(const std::string& path);

// The two files of an authority in its directory.
std::string AuthorityCertificatePath(const std::string& directory);
std::string AuthorityKeyPath(const std::string& directory);
// Makes the directory (mode 0700) and an authority in it. AlreadyExists when one is there: it is never overwritten.
absl::StatusOr<Authority> CreateAuthority(const std::string& directory, int64_t now_s);
// NotFound, naming `atoll ca init`, when there is none.
absl::StatusOr<Authority> LoadAuthority(const std::string& directory);

// Puts a successor with a new key in the place of the authority, beside which the one before stays trusted (Rotated of
// authority.h) unless `retire`. The key that was is gone then. FailedPrecondition while one before is still trusted, or
// where the clock is wrong; PermissionDenied unless the caller owns the files; Unavailable while another call is at
// work there. A crash on the way leaves the authority that was, and the next call begins anew.
absl::StatusOr<Authority> RotateAuthority(const std::string& directory, int64_t now_s, bool retire = false);
// Whatever the authority before a rotation has issued is good for nothing from then on. FailedPrecondition when there
// is none; otherwise as RotateAuthority. For whom that is too early before when: RetireAfter.
absl::StatusOr<Authority> RetireAuthority(const std::string& directory);
// When the last certificate that the authority before has issued has ended.
int64_t RetireAfter(const Authority& rotated);

// An identity as one file: key, certificate, and those of the authority (certificates_pem() of authority.h). One file,
// so that a renewal replaces all at once.
struct IdentityFile {
  std::string key_pem, certificate_pem, authority_pem;
};
// `passphrase`: protects the key in the file, unless it is empty.
absl::Status WriteIdentityFile(const std::string& path, const IdentityFile& identity,
                               const std::string& passphrase = "");
// InvalidArgument when one of the three is missing, the key is not the certificate's, or there are more than
// kMostCertificates. The key is in plain; of a file that is protected FailedPrecondition without a passphrase, and
// PermissionDenied with a wrong one.
absl::StatusOr<IdentityFile> ReadIdentityFile(const std::string& path, const std::string& passphrase = "");
// The same with the key as it is in the file, maybe protected (IsProtected), and not compared with the certificate
// then.
absl::StatusOr<IdentityFile> ReadLockedIdentityFile(const std::string& path);

// A new key with a certificate of `authority` for it.
absl::StatusOr<IdentityFile> IssueIdentity(const Authority& authority, const Identity& identity, int64_t now_s);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_SECRET_FILES_H_
