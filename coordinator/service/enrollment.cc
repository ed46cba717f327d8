// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/enrollment.h"

#include <algorithm>
#include <utility>

#include "common/base/names.h"
#include "common/plan/limits.h"
#include "common/wire/sendable.h"
#include "coordinator/service/answer_size.h"

namespace atl {
namespace {

constexpr int64_t kLongestToken_s = int64_t{30} * 86'400;
// Limit of unusable records removed at once; each removal flushes the disk.
constexpr uint32_t kDroppedAtOnce = 64;
// A later certificate of a token is recorded only if the recorded one is older than this.
constexpr int64_t kIssueStep_s = int64_t{6} * 3600;

v1::JoinToken MessageOf(const TokenRecord& record) {
  v1::JoinToken message;
  message.set_id(record.id);
  message.set_role(RoleName(record.role));
  message.set_name(record.name);
  message.set_uses(record.uses);
  message.set_used(record.used);
  message.mutable_create_time()->set_seconds(record.create_s);
  message.mutable_end_time()->set_seconds(record.end_s);
  message.set_revoked(record.revoked);
  return message;
}

v1::Revocation MessageOf(const RevocationRecord& record) {
  v1::Revocation message;
  message.set_name(record.name);
  message.mutable_revoke_time()->set_seconds(record.revoke_s);
  message.set_revoked_by(record.by);
  return message;
}

// A page of a list by key: the records after `after` that fit into one message. `after` may be
// removed meanwhile.
template <typename Response, typename Record, typename Add>
Response PageOf(const std::map<std::string, Record>& records, const std::string& after, const Add& add) {
  Response response;
  Room room(kAnswerBytes);
  for (auto it = records.upper_bound(after); it != records.end(); ++it) {
    auto message = MessageOf(it->second);
    if (!room.Take(message.ByteSizeLong())) {
      response.set_next_page_token(std::prev(it)->first);
      break;
    }
    *add(response) = std::move(message);
  }
  return response;
}

// No one can enrol with the token, and its certificates have ended beyond renewal.
bool IsOver(const TokenRecord& token, int64_t now_s) {
  if (token.used < token.uses && !token.revoked && token.end_s >= now_s) return false;
  const int64_t renewal_s = token.role == Role::kWorker ? kRenewalGrace_s : 0;
  return token.used == 0 || token.issue_s + kIssueStep_s + LifetimeOf(token.role) + renewal_s < now_s;
}

// No certificate that the revocation refuses is still valid or renewable.
bool IsOver(const RevocationRecord& revocation, int64_t now_s) {
  return revocation.revoke_s + std::max(kUserLifetime_s, kWorkerLifetime_s + kRenewalGrace_s) + kClockMargin_s < now_s;
}

// The hash of the secret in the request; nothing if that does not have the size of a secret.
std::optional<Secret<32>> OfferedHash(const v1::EnrollRequest& request) {
  JoinToken offered{.id = request.token_id()};
  if (request.token_secret().size() != offered.secret.bytes().size()) return std::nullopt;
  std::copy(request.token_secret().begin(), request.token_secret().end(), offered.secret.bytes().begin());
  return SecretHash(offered);
}

absl::StatusOr<TokenRecord> ReadWanted(const v1::CreateTokenRequest& request, int64_t now_s) {
  TokenRecord wanted{.name = request.name(), .uses = std::max(request.uses(), 1u), .create_s = now_s};
  ATOLL_ASSIGN_OR_RETURN(wanted.role, ParseRole(request.role()));
  const int64_t lifetime_s = request.has_lifetime() ? request.lifetime().seconds() : 86'400;
  if (!IsAllowedNames(wanted.name)) {
    return absl::InvalidArgumentError(absl::StrCat("the token's name must be ", kNameRule, "; or a prefix of at most ",
                                                   kPrefixBytes, " of these and '*'; or empty for any"));
  }
  if (wanted.uses > kMostTokenUses) {
    return absl::InvalidArgumentError(absl::StrCat("a token may have at most ", kMostTokenUses, " uses"));
  }
  if (lifetime_s < 1 || lifetime_s > kLongestToken_s) {
    return absl::InvalidArgumentError(absl::StrCat("the token's lifetime (--lifetime) is ", lifetime_s,
                                                   " seconds; it may be from one second to 30 days"));
  }
  wanted.end_s = now_s + lifetime_s;
  return wanted;
}

// Runs `work` on the executor and passes its result to `answer`.
template <typename Response, typename Work>
void AnswerOn(Executor& executor, Answer<Response> answer, Work work) {
  executor.Post([answer = std::move(answer), work = std::move(work)]() mutable {
    absl::StatusOr<Response> response = work();
    answer(response.status(), response.ok() ? *std::move(response) : Response());
  });
}

}  // namespace

void Enrollment::Load(const std::vector<TokenRecord>& tokens, const std::vector<RevocationRecord>& revocations) {
  for (const RevocationRecord& revocation : revocations) {
    revocations_[revocation.name] = revocation;
    parts_.guard.RevokeName(revocation.name, revocation.revoke_s);
  }
  const MutexLock lock(mutex_);
  for (const TokenRecord& token : tokens) {
    tokens_[token.id] = token;
    secrets_[token.id] = token.secret_hash;
    if (token.revoked) parts_.guard.RevokeToken(token.id);
  }
}

void Enrollment::Enroll(const v1::EnrollRequest& request, const std::string& address,
                        Answer<v1::EnrollResponse> answer) {
  if (const absl::Status proven = CheckProof(request); !proven.ok()) {
    TellRefusal(request, address, proven);
    return answer(proven, {});
  }
  if (waiting_.fetch_add(1) >= kWaiting) {
    waiting_.fetch_sub(1);
    return answer(absl::ResourceExhaustedError("too many enrolments are in progress; try again in a few seconds"), {});
  }
  AnswerOn(parts_.executor, std::move(answer), [this, request, address] {
    waiting_.fetch_sub(1);
    absl::StatusOr<v1::EnrollResponse> response = EnrollNow(request);
    if (!response.ok()) TellRefusal(request, address, response.status());
    return response;
  });
}

void Enrollment::CreateToken(const v1::CreateTokenRequest& request, Answer<v1::CreateTokenResponse> answer) {
  AnswerOn(parts_.executor, std::move(answer), [this, request] { return CreateNow(request); });
}

void Enrollment::RevokeToken(const v1::RevokeTokenRequest& request, const std::optional<Identity>& caller,
                             Answer<v1::RevokeTokenResponse> answer) {
  if (caller && caller->token == request.id()) {  // as for the caller's name
    return answer(absl::FailedPreconditionError(absl::StrCat(
                      Who(*caller), " calls with an identity of the token to be revoked: use that of another admin ",
                      "('atoll ca issue' creates one)")),
                  {});
  }
  AnswerOn(parts_.executor, std::move(answer), [this, request] { return RevokeTokenNow(request); });
}

void Enrollment::ListTokens(const v1::ListTokensRequest& request, Answer<v1::ListTokensResponse> answer) {
  AnswerOn(parts_.executor, std::move(answer),
           [this, after = request.page_token()]() -> absl::StatusOr<v1::ListTokensResponse> {
             return PageOf<v1::ListTokensResponse>(tokens_, after, [](auto& page) { return page.add_tokens(); });
           });
}

void Enrollment::RevokeIdentity(const v1::RevokeIdentityRequest& request, const std::optional<Identity>& caller,
                                Answer<v1::RevokeIdentityResponse> answer) {
  if (!IsName(request.name())) {
    return answer(absl::InvalidArgumentError(absl::StrCat("the name to revoke must be ", kNameRule)), {});
  }
  // The caller's connection would end before the answer, and a mistake might leave no admin to undo it.
  if (caller && caller->name == request.name()) {
    return answer(absl::FailedPreconditionError(absl::StrCat(
                      Who(*caller), " calls under the name to be revoked: use the identity of another admin ",
                      "('atoll ca issue' creates one)")),
                  {});
  }
  AnswerOn(parts_.executor, std::move(answer),
           [this, name = request.name(), by = caller ? Who(*caller) : ""] { return RevokeIdentityNow(name, by); });
}

void Enrollment::ListRevocations(const v1::ListRevocationsRequest& request,
                                 Answer<v1::ListRevocationsResponse> answer) {
  AnswerOn(parts_.executor, std::move(answer),
           [this, after = request.page_token()]() -> absl::StatusOr<v1::ListRevocationsResponse> {
             return PageOf<v1::ListRevocationsResponse>(revocations_, after,
                                                        [](auto& page) { return page.add_revocations(); });
           });
}

absl::Status Enrollment::CheckProof(const v1::EnrollRequest& request) const {
  return request.certificate().empty() ? CheckSecret(request) : CheckRenewable(request);
}

absl::Status Enrollment::CheckSecret(const v1::EnrollRequest& request) const {
  const std::optional<Secret<32>> offered = OfferedHash(request);
  TokenRecord known;
  {
    const MutexLock lock(mutex_);
    const auto found = secrets_.find(request.token_id());
    // An unknown id is compared too, so that the response time does not reveal which ids exist.
    if (found != secrets_.end() && offered) known.secret_hash = found->second;
  }
  return CheckKnown(known, offered.value_or(SecretHash({})));
}

absl::Status Enrollment::CheckRenewable(const v1::EnrollRequest& request) const {
  ATOLL_RETURN_IF_ERROR(parts_.authority().CheckIssued(request.certificate()));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(request.certificate()));
  ATOLL_ASSIGN_OR_RETURN(const Sha256 key, CheckSigningRequest(request.signing_request()));
  if (key != facts.public_key) {
    return absl::UnauthenticatedError("a renewal must be signed by the key of the old certificate: enrol with a token");
  }
  // Otherwise a person could renew a certificate for ever, even one issued without a token, which no
  // revocation of a token ends.
  if (facts.identity.role != Role::kWorker) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate of ", Who(facts.identity),
                     " cannot be renewed, only a worker's can: enrol with a new join token, or use 'atoll ca issue'"));
  }
  if (NowSeconds() > facts.not_after_s + kRenewalGrace_s) {
    return absl::UnauthenticatedError(absl::StrCat("the certificate of ", Who(facts.identity), " expired at ",
                                                   DateText(facts.not_after_s),
                                                   ", too long ago to be renewed: enrol with a new join token"));
  }
  return CheckNotRevoked(facts);
}

absl::Status Enrollment::CheckNotRevoked(const CertificateFacts& facts) const {
  const absl::Status revoked = parts_.guard.CheckRevoked(facts);
  return revoked.ok() ? revoked : absl::UnauthenticatedError(revoked.message());
}

void Enrollment::TellRefusal(const v1::EnrollRequest& request, const std::string& address, const absl::Status& why) {
  const std::optional<uint64_t> untold = refusals_.Take(parts_.clock.Now());
  if (!untold) return;
  parts_.trail.Tell(LogLevel::kWarning, {{"who", address},
                                         {"call", "Enroll"},
                                         {"result", "refused"},
                                         {"name", Sendable(request.name(), 64)},
                                         {"token", Sendable(request.token_id(), 16)},
                                         {"reason", std::string(why.message())},
                                         {"not_told_before", *untold}});
}

absl::StatusOr<v1::EnrollResponse> Enrollment::EnrollNow(const v1::EnrollRequest& request) {
  return request.certificate().empty() ? ByToken(request) : ByCertificate(request);
}

absl::StatusOr<v1::EnrollResponse> Enrollment::ByToken(const v1::EnrollRequest& request) {
  const auto found = tokens_.find(request.token_id());
  if (found == tokens_.end()) return CheckSecret(request);  // dropped since its secret was checked
  TokenRecord record = found->second;
  Role role = record.role;
  if (!request.role().empty()) {
    ATOLL_ASSIGN_OR_RETURN(role, ParseRole(request.role()));
  }
  const absl::StatusOr<Sha256> key = CheckSigningRequest(request.signing_request());
  const Sha256 holder = key.ok() ? HolderHash(*key, request.name()) : Sha256();
  // A retry after a lost answer: the same key with the same name is the same use of the token.
  const bool again = key.ok() && std::erase(record.holders, holder) > 0;
  if (again) --record.used;
  ATOLL_RETURN_IF_ERROR(CheckToken(record, record.secret_hash, role, request.name(), NowSeconds()));
  if (record.create_s < parts_.authority().retired_until_s()) {
    return absl::UnauthenticatedError(
        absl::StrCat("join token ", record.id, " was created under an authority that is retired: ask for a new one"));
  }
  if (!IsName(request.name())) {
    return absl::InvalidArgumentError(absl::StrCat("the name to enrol must be ", kNameRule));
  }
  ATOLL_RETURN_IF_ERROR(key.status());
  // The former holder of the revoked name may still have a token created before the revocation.
  if (const auto revoked_s = parts_.guard.RevokedAt(request.name()); revoked_s && record.create_s <= *revoked_s) {
    return absl::UnauthenticatedError(absl::StrCat("the name '", request.name(), "' was revoked at ",
                                                   DateText(*revoked_s), ", and join token ", record.id,
                                                   " was created before: ask for a new one"));
  }
  const Identity identity{record.role, request.name(), record.id};
  // A repeated request writes the ledger at most once per kIssueStep_s.
  if (again && record.issue_s + kIssueStep_s >= NowSeconds()) return Issue(request, identity, again);
  ++record.used;
  record.issue_s = NowSeconds();
  record.holders.push_back(holder);
  if (record.holders.size() > kHoldersKept) record.holders.erase(record.holders.begin());
  ATOLL_RETURN_IF_ERROR(Keep(record));
  return Issue(request, identity, again);
}

absl::StatusOr<v1::EnrollResponse> Enrollment::ByCertificate(const v1::EnrollRequest& request) {
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(request.certificate()));
  ATOLL_RETURN_IF_ERROR(CheckNotRevoked(facts));  // again: the request has waited since
  const auto token = tokens_.find(facts.identity.token);
  if (token != tokens_.end() && token->second.issue_s + kIssueStep_s < NowSeconds()) {
    TokenRecord renewed = token->second;
    renewed.issue_s = NowSeconds();
    ATOLL_RETURN_IF_ERROR(Keep(renewed));
  }
  return Issue(request, facts.identity, true);
}

absl::StatusOr<v1::EnrollResponse> Enrollment::Issue(const v1::EnrollRequest& request, const Identity& identity,
                                                     bool again) {
  v1::EnrollResponse response;
  const Authority authority = parts_.authority();
  ATOLL_ASSIGN_OR_RETURN(*response.mutable_certificate(),
                         authority.Sign(request.signing_request(), identity, SecondsAfterRevocation(identity.name),
                                        LifetimeOf(identity.role)));
  response.set_authorities(authority.certificates_pem());
  // Only repeated enrolments have a rate of audit lines: the uses of tokens bound the first ones.
  const std::optional<uint64_t> untold = again ? repeats_.Take(parts_.clock.Now()) : 0;
  const char* call = request.certificate().empty() ? "Enroll" : "Enroll (renewal)";
  if (untold) parts_.trail.TellAllowed(Who(identity), call, identity.token, *untold);
  return response;
}

absl::StatusOr<v1::CreateTokenResponse> Enrollment::CreateNow(const v1::CreateTokenRequest& request) {
  ATOLL_ASSIGN_OR_RETURN(TokenRecord wanted,
                         ReadWanted(request, SecondsAfterRevocation(IsName(request.name()) ? request.name() : "")));
  if (tokens_.size() >= kTokens) ATOLL_RETURN_IF_ERROR(DropOld());
  if (tokens_.size() >= kTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the coordinator stores ", kTokens,
                     " join tokens, the limit; used tokens of workers are kept for 31 days after the last certificate, "
                     "those of people for 90 days; create tokens with more uses"));
  }
  ATOLL_ASSIGN_OR_RETURN(const NewToken made, MakeToken(parts_.authority().fingerprint(), std::move(wanted)));
  ATOLL_RETURN_IF_ERROR(Keep(made.record));
  v1::CreateTokenResponse response;
  *response.mutable_token() = MessageOf(made.record);
  response.set_text(PrintJoinToken(made.token));
  return response;
}

absl::StatusOr<v1::RevokeTokenResponse> Enrollment::RevokeTokenNow(const v1::RevokeTokenRequest& request) {
  const auto found = tokens_.find(request.id());
  if (found == tokens_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no join token '", request.id().substr(0, 64),
                                            "'; 'atoll token list' shows the existing tokens"));
  }
  TokenRecord revoked = found->second;
  revoked.revoked = true;
  ATOLL_RETURN_IF_ERROR(Keep(revoked));
  parts_.guard.RevokeToken(revoked.id);
  parts_.end_revoked();
  v1::RevokeTokenResponse response;
  *response.mutable_token() = MessageOf(revoked);
  return response;
}

absl::StatusOr<v1::RevokeIdentityResponse> Enrollment::RevokeIdentityNow(const std::string& name,
                                                                         const std::string& by) {
  const auto known = revocations_.find(name);
  if (known == revocations_.end() && revocations_.size() >= kRevocations) ATOLL_RETURN_IF_ERROR(DropOldRevocations());
  if (known == revocations_.end() && revocations_.size() >= kRevocations) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there are ", kRevocations,
        " revoked names, the limit; each is kept for 90 days: 'atoll ca rotate --retire' revokes all at once"));
  }
  // Certificates issued after an earlier revocation carry the second after it or a later one
  // (SecondsAfterRevocation). The new revocation covers them even if the clock was set back.
  const int64_t after_s = known == revocations_.end() ? 0 : known->second.revoke_s + 1;
  const RevocationRecord revocation{.name = name, .revoke_s = std::max(NowSeconds(), after_s), .by = by};
  ATOLL_RETURN_IF_ERROR(Written(parts_.ledger.PutRevocation(revocation)));
  revocations_[name] = revocation;
  parts_.guard.RevokeName(name, revocation.revoke_s);
  parts_.end_revoked();
  v1::RevokeIdentityResponse response;
  *response.mutable_revocation() = MessageOf(revocation);
  return response;
}

int64_t Enrollment::SecondsAfterRevocation(const std::string& name) const {
  int64_t after_s = NowSeconds();
  if (const auto of_name = revocations_.find(name); of_name != revocations_.end())
    return std::max(after_s, of_name->second.revoke_s + 1);
  if (!name.empty()) return after_s;
  for (const auto& [revoked, revocation] : revocations_) after_s = std::max(after_s, revocation.revoke_s + 1);
  return after_s;
}

absl::Status Enrollment::Written(absl::Status written) const {
  if (!written.ok()) parts_.fatal(written);
  return written;
}

absl::Status Enrollment::Keep(const TokenRecord& record) {
  ATOLL_RETURN_IF_ERROR(Written(parts_.ledger.PutToken(record)));
  tokens_[record.id] = record;
  const MutexLock lock(mutex_);
  secrets_[record.id] = record.secret_hash;
  return absl::OkStatus();
}

absl::Status Enrollment::DropOld() {
  const int64_t now_s = NowSeconds();
  uint32_t left = kDroppedAtOnce;
  for (auto at = tokens_.begin(); at != tokens_.end() && left > 0;) {
    if (!IsOver(at->second, now_s)) {
      ++at;
      continue;
    }
    --left;
    ATOLL_RETURN_IF_ERROR(Written(parts_.ledger.DropToken(at->first)));
    const MutexLock lock(mutex_);
    secrets_.erase(at->first);
    at = tokens_.erase(at);
  }
  return absl::OkStatus();
}

absl::Status Enrollment::DropOldRevocations() {
  const int64_t now_s = NowSeconds();
  uint32_t left = kDroppedAtOnce;
  for (auto at = revocations_.begin(); at != revocations_.end() && left > 0;) {
    if (!IsOver(at->second, now_s)) {
      ++at;
      continue;
    }
    --left;
    ATOLL_RETURN_IF_ERROR(Written(parts_.ledger.DropRevocation(at->first)));
    at = revocations_.erase(at);
  }
  return absl::OkStatus();
}

}  // namespace atl
