// SPDX-License-Identifier: Apache-2.0
#include "common/trust/join_token.h"

#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/files.h"
#include "common/base/names.h"
#include "common/trust/certificate.h"

namespace atl {
namespace {

constexpr size_t kAuthorityBytes = 32, kIdBytes = 8, kSecretBytes = 16, kCheckBytes = 4;
constexpr size_t kFixedBytes = kAuthorityBytes + kIdBytes + kSecretBytes;
constexpr size_t kFields = 4;

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
  const std::string fields = absl::StrJoin({token.coordinator, token.bulk, token.enroll, token.name}, ",");
  body += fields.substr(0, fields.find_last_not_of(',') + 1);
  body += CheckOf(body);
  return absl::StrCat(kJoinTokenPrefix, absl::WebSafeBase64Escape(body));
}

absl::StatusOr<JoinToken> ParseJoinToken(const std::string& text) {
  if (text.rfind(kJoinTokenPrefix, 0) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the join token does not begin with ", kJoinTokenPrefix,
                                                   ": copy it as printed by 'atoll token create'"));
  }
  const absl::Status damaged =
      absl::InvalidArgumentError("the join token is mistyped or incomplete: its checksum differs; copy it again");
  std::string body;
  if (!absl::WebSafeBase64Unescape(text.substr(sizeof(kJoinTokenPrefix) - 1), &body) ||
      body.size() < kFixedBytes + kCheckBytes) {
    return damaged;
  }
  JoinToken token;
  std::copy_n(body.begin(), kAuthorityBytes, token.authority.bytes.begin());
  token.id = absl::BytesToHexString(body.substr(kAuthorityBytes, kIdBytes));
  std::copy_n(body.begin() + kAuthorityBytes + kIdBytes, kSecretBytes, token.secret.bytes().begin());
  std::vector<std::string> fields =
      absl::StrSplit(body.substr(kFixedBytes, body.size() - kFixedBytes - kCheckBytes), ',');
  fields.resize(kFields);
  token.coordinator = fields[0];
  token.bulk = fields[1];
  token.enroll = fields[2];
  token.name = fields[3];
  // Compares the checksum, and allows one spelling only: no padding, no white space, no further fields.
  if (PrintJoinToken(token) != text) return damaged;
  return token;
}

absl::StatusOr<JoinToken> ReadJoinTokenFile(const std::string& path) {
  if (path.rfind(kJoinTokenPrefix, 0) == 0) {
    return absl::InvalidArgumentError(kTokenInPlaceOfItsFile);
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(*MakePosixFiles(), path, 4096);
  if (!text.ok()) return Annotate(text.status(), "the join token's file");
  absl::StatusOr<JoinToken> token = ParseJoinToken(std::string(absl::StripAsciiWhitespace(*text)));
  if (!token.ok()) return Annotate(token.status(), path);
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

bool IsAllowedNames(absl::string_view text) {
  if (text.empty()) return true;
  return absl::ConsumeSuffix(&text, "*") ? IsName(text) && text.size() <= kPrefixBytes : IsName(text);
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
  absl::string_view allowed = record.name;
  if (absl::ConsumeSuffix(&allowed, "*")) {
    if (!absl::StartsWith(name, allowed) || name.size() == allowed.size())
      return Refused(absl::StrCat("is for names that begin with '", allowed, "' only, and not for '", name, "'"));
  } else if (!allowed.empty() && allowed != name) {
    return Refused(absl::StrCat("is for the name '", allowed, "' only"));
  }
  return absl::OkStatus();
}

}  // namespace atl
