// SPDX-License-Identifier: Apache-2.0
// Files with keys: mode 0600, written atomically, refused when others have any access to them. Uses
// POSIX directly, because the store's Files has no permissions. Thread-safe.
#ifndef ATOLL_COMMON_TRUST_SECRET_FILES_H_
#define ATOLL_COMMON_TRUST_SECRET_FILES_H_

#include <cstdint>
#include <string>

#include "common/trust/authority.h"

namespace atl {

// Temp file with mode 0600, fsync, rename, fsync of the directory, which must exist.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);
// Checks whether WriteSecretFile can write the path now: creates its temp file with room for the
// largest text, and removes it. Call before an action that cannot be repeated, such as a use of a
// join token.
absl::Status TrySecretFile(const std::string& path);
// PermissionDenied, with the command that fixes it, when group or others have any access to the
// file; NotFound; ResourceExhausted above 64 KiB.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);
// Same, for a file written by this user: PermissionDenied for another user's file, or a link. For a
// key that is used without confirmation, in a directory where others may create files.
absl::StatusOr<std::string> ReadOwnSecretFile(const std::string& path);

// The two files of an authority in its directory.
std::string AuthorityCertificatePath(const std::string& directory);
std::string AuthorityKeyPath(const std::string& directory);
// Creates the directory if it is missing, sets its mode to 0700 and creates an authority in it.
// AlreadyExists when it contains one, which is never overwritten.
absl::StatusOr<Authority> CreateAuthority(const std::string& directory, int64_t now_s);
// NotFound with advice (`atoll ca init`) when there is no authority, or when its key is missing.
absl::StatusOr<Authority> LoadAuthority(const std::string& directory);

// Replaces the authority by a successor with a new key. The previous authority stays trusted (Rotated in
// authority.h) unless `retire`. The old key is deleted. FailedPrecondition while an earlier authority is
// still trusted, or when the clock is wrong; PermissionDenied unless the caller owns the files; Unavailable
// while another call is in progress. After a crash either the old authority remains, and the next call starts
// from the beginning, or the rotation is done, and with `retire` the previous authority may still be trusted.
absl::StatusOr<Authority> RotateAuthority(const std::string& directory, int64_t now_s, bool retire = false);
// Ends the trust in all certificates of the authority before a rotation. FailedPrecondition when
// there is no such authority; PermissionDenied and Unavailable as for RotateAuthority. RetireAfter
// returns the time from which this is safe.
absl::StatusOr<Authority> RetireAuthority(const std::string& directory);
// Time after which all certificates of the previous authority have expired.
int64_t RetireAfter(const Authority& rotated);

// An identity in one file: key, certificate, and the authority's certificates (certificates_pem()
// of authority.h). With one file a renewal replaces everything at once.
struct IdentityFile {
  std::string key_pem, certificate_pem, authority_pem;
};
// `passphrase` protects the key in the file, unless it is empty.
absl::Status WriteIdentityFile(const std::string& path, const IdentityFile& identity,
                               const std::string& passphrase = "");
// InvalidArgument when one of the three is missing, the key does not belong to the certificate, or there are
// more than kMostCertificates certificates. Returns the key decrypted. For a protected file: FailedPrecondition
// without a passphrase, PermissionDenied with a wrong one. Other errors: those of ReadSecretFile.
absl::StatusOr<IdentityFile> ReadIdentityFile(const std::string& path, const std::string& passphrase = "");
// Same, with the key as stored in the file. A protected key (IsProtected) is not compared with the
// certificate.
absl::StatusOr<IdentityFile> ReadLockedIdentityFile(const std::string& path);

// Creates a key and a certificate of `authority` for it.
absl::StatusOr<IdentityFile> IssueIdentity(const Authority& authority, const Identity& identity, int64_t now_s);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_SECRET_FILES_H_
