// SPDX-License-Identifier: Apache-2.0
// Join tokens, with which an admin lets a machine or a person enrol. The printed form, the join string, contains the
// authority's hash, an id, a secret and the coordinator's addresses; the coordinator stores only a hash of the secret.
// Format: docs/formats/join-token.md. Plain values.
#ifndef ATOLL_COMMON_TRUST_JOIN_TOKEN_H_
#define ATOLL_COMMON_TRUST_JOIN_TOKEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/secret.h"
#include "common/base/status.h"
#include "common/trust/identity.h"

namespace atl {

constexpr uint32_t kMostTokenUses = 10'000;
constexpr size_t kHoldersKept = 64;
constexpr size_t kPrefixBytes = 48;  // leaves room for the part of a name that a worker chooses

struct JoinToken {
  Sha256 authority;   // fingerprint of the authority's certificate
  std::string id;     // 16 hexadecimal digits; not secret
  Secret<16> secret;  // 128 random bits
  // The coordinator's addresses, HOST:PORT; empty: unknown, or a default port of the coordinator's host.
  std::string coordinator, bulk, enroll;
  std::string name;  // TokenRecord::name, for a worker that chooses its name
  friend bool operator==(const JoinToken&, const JoinToken&) = default;
};

// "atoll1-" and 80 letters or more: the only form in which the secret leaves the program.
std::string PrintJoinToken(const JoinToken& token);
// InvalidArgument for a text that is not a token, has another revision, or is mistyped (checksum).
// The error never contains the text.
absl::StatusOr<JoinToken> ParseJoinToken(const std::string& text);
// Reads a token from a file, without the surrounding white space. InvalidArgument if `path` is itself a token.
absl::StatusOr<JoinToken> ReadJoinTokenFile(const std::string& path);

// A token as stored by the coordinator.
struct TokenRecord {
  std::string id;
  Secret<32> secret_hash;  // of id and secret
  Role role = Role::kWorker;
  std::string name;   // the only name that may enrol, or "PREFIX*"; empty: any
  uint32_t uses = 1;  // number of enrolments allowed
  uint32_t used = 0;
  int64_t create_s = 0, end_s = 0;  // wall clock
  bool revoked = false;
  int64_t issue_s = 0;  // the last certificate for it was issued at most 6 hours after this; 0: none was
  // HolderHash of its last uses, at most kHoldersKept, newest last. A client that lost the answer
  // is answered again.
  std::vector<Sha256> holders;
  friend bool operator==(const TokenRecord&, const TokenRecord&) = default;
};

struct NewToken {
  JoinToken token;
  TokenRecord record;
};
// Sets id and secret from the system's random source, and keeps the other fields of `wanted`.
// Internal when that fails.
absl::StatusOr<NewToken> MakeToken(const Sha256& authority, TokenRecord wanted);

Secret<32> SecretHash(const JoinToken& token);
// Identifies the client of a use of a token: a hash of the hash of its public key and its name.
Sha256 HolderHash(const Sha256& public_key, const std::string& name);
// Whether a text may be TokenRecord::name: empty, a name, or a name of at most kPrefixBytes as prefix and "*".
bool IsAllowedNames(absl::string_view text);
// Unauthenticated when the secret is wrong (compared in constant time).
absl::Status CheckKnown(const TokenRecord& record, const Secret<32>& secret_hash);
// Unauthenticated with one sentence when the secret is wrong (compared in constant time), or when
// the token is revoked, used up, expired or for another role or name. The secret is checked first,
// so that a stranger learns nothing else.
absl::Status CheckToken(const TokenRecord& record, const Secret<32>& secret_hash, Role role, const std::string& name,
                        int64_t now_s);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_JOIN_TOKEN_H_
