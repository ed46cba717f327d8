// SPDX-License-Identifier: Apache-2.0
#include "common/trust/join_token.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/trust/certificate.h"

namespace atl {
namespace {

constexpr size_t kAuthorityBytes = 32, kIdBytes = 8, kSecretBytes = 16, kCheckBytes = 4;
constexpr size_t kBodyBytes = kAuthorityBytes + kIdBytes + kSecretBytes;

// The first bytes of a SHA-256. Protects against typing errors, not against attackers.
std::string CheckOf(const std::string& body) {
  const Sha256 hash = Sha256Of(AsBytes(body));
  return {reinterpret_cast<const char*>(hash.bytes.data()), kCheckBytes};
}

absl::Status Refused(const std::string& why) {
  return absl::UnauthenticatedError(
      absl::StrCat("the join token ", why, ": ask for a new one ('atoll token create' on an admin's machine)"));
}

}  // namespace

std::string PrintJoinToken(const JoinToken& token) {
  std::string body(reinterpret_cast<const char*>(token.authority.bytes.data()), kAuthorityBytes);
  body += absl::HexStringToBytes(token.id);
  body.append(reinterpret_cast<const char*>(token.secret.bytes().data()), kSecretBytes);
  body += CheckOf(body);
  return absl::StrCat(kJoinTokenPrefix, absl::WebSafeBase64Escape(body));
}

absl::StatusOr<JoinToken> ParseJoinToken(const std::string& text) {
  if (text.rfind(kJoinTokenPrefix, 0) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the join token does not begin with ", kJoinTokenPrefix,
                                                   ": copy it as printed by 'atoll token create'"));
  }
  std::string body;
  // Allows one spelling only: the length is fixed, so that padding or dropped bits cannot produce a
  // second one.
  if (text.size() != sizeof(kJoinTokenPrefix) - 1 + (kBodyBytes + kCheckBytes) / 3 * 4 ||
      !absl::WebSafeBase64Unescape(text.substr(sizeof(kJoinTokenPrefix) - 1), &body) ||
      body.size() != kBodyBytes + kCheckBytes || CheckOf(body.substr(0, kBodyBytes)) != body.substr(kBodyBytes)) {
    return absl::InvalidArgumentError("the join token is mistyped or incomplete: its checksum differs; copy it again");
  }
  JoinToken token;
  std::copy_n(body.begin(), kAuthorityBytes, token.authority.bytes.begin());
  token.id = absl::BytesToHexString(body.substr(kAuthorityBytes, kIdBytes));
  std::copy_n(body.begin() + kAuthorityBytes + kIdBytes, kSecretBytes, token.secret.bytes().begin());
  return token;
}

absl::StatusOr<NewToken> MakeToken(const Sha256& authority, TokenRecord wanted) {
  NewToken made;
  std::array<uint8_t, kIdBytes> id{};
  if (RAND_bytes(id.data(), id.size()) != 1 || RAND_bytes(made.token.secret.bytes().data(), kSecretBytes) != 1) {
    return absl::InternalError("the system returned no random bytes for a join token");
  }
  made.token.authority = authority;
  made.token.id = absl::BytesToHexString(std::string(id.begin(), id.end()));
  made.record = std::move(wanted);
  made.record.id = made.token.id;
  made.record.secret_hash = SecretHash(made.token);
  return made;
}

Secret<32> SecretHash(const JoinToken& token) {
  std::string text = token.id;
  text.append(reinterpret_cast<const char*>(token.secret.bytes().data()), kSecretBytes);
  return Secret<32>(Sha256Of(AsBytes(text)).bytes);
}

Sha256 HolderHash(const Sha256& public_key, const std::string& name) {
  return Sha256Of(
      AsBytes(std::string(reinterpret_cast<const char*>(public_key.bytes.data()), public_key.bytes.size()) + name));
}

absl::Status CheckKnown(const TokenRecord& record, const Secret<32>& secret_hash) {
  return record.secret_hash == secret_hash ? absl::OkStatus() : Refused("is not known to this coordinator");
}

absl::Status CheckToken(const TokenRecord& record, const Secret<32>& secret_hash, Role role, const std::string& name,
                        int64_t now_s) {
  ATOLL_RETURN_IF_ERROR(CheckKnown(record, secret_hash));
  if (record.revoked) return Refused("was revoked");
  if (now_s > record.end_s) return Refused(absl::StrCat("expired at ", DateText(record.end_s)));
  if (record.used >= record.uses) {
    return Refused(record.uses == 1 ? "was valid for one use, which is spent"
                                    : absl::StrCat("was valid for ", record.uses, " uses, which are spent"));
  }
  if (record.role != role) {
    return Refused(absl::StrCat("is for a ", RoleName(record.role), ", not for a ", RoleName(role)));
  }
  if (!record.name.empty() && record.name != name) {
    return Refused(absl::StrCat("is for the name '", record.name, "' only"));
  }
  return absl::OkStatus();
}

}  // namespace atl
