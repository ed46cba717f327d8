// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/enroll_client.h"

#include <algorithm>

#include "atoll/v1/worker.pb.h"
#include "common/base/files.h"
#include "common/rpc/rpc_status.h"
#include "common/trust/handshake.h"

namespace atl {
namespace {

constexpr char kUnanswered[] = ".enrolling";  // end of the file with the key of a request without an answer so far

absl::StatusOr<v1::EnrollResponse> Post(const std::string& address, const std::string& authority_pem,
                                        const v1::EnrollRequest& request) {
  const absl::StatusOr<HttpsAnswer> answer =
      PostHttps(address, authority_pem, kEnrollTarget, kProtobuf, request.SerializeAsString());
  if (absl::IsUnavailable(answer.status()) && request.certificate().empty()) {
    // FetchAuthority has just succeeded, so some server listens there. A port that demands a client
    // certificate ends such a connection. A worker that renews has used the port before.
    return absl::UnavailableError(absl::StrCat(answer.status().message(),
                                               "; this may be the control or bulk port and not the enrolment port "
                                               "(--enroll-port of the coordinator, 7073 unless given), or the port has "
                                               "too many connections: try again"));
  }
  ATOLL_RETURN_IF_ERROR(answer.status());
  v1::EnrollResponse response;
  if (answer->status == 200 && response.ParseFromString(answer->body)) return response;
  v1::EnrollFailure failure;
  if (answer->status != 200 && answer->content_type == kProtobuf && failure.ParseFromString(answer->body))
    return FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(failure.code()), failure.message()));
  return absl::UnavailableError(absl::StrCat("the answer is not that of an enrolment port: HTTP status ",
                                             answer->status, " ", answer->body.substr(0, 200)));
}

// `authority_pem`: authorities that may have issued the certificate of the coordinator's port.
// `issuer_pem`: the one of them that must have issued the new certificate, itself or by a successor.
absl::StatusOr<IdentityFile> Ask(const std::string& address, const std::string& authority_pem,
                                 const std::string& issuer_pem, const std::string& key_pem, v1::EnrollRequest request) {
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(key_pem));
  ATOLL_ASSIGN_OR_RETURN(*request.mutable_signing_request(), MakeSigningRequest(key));
  const absl::StatusOr<v1::EnrollResponse> response = Post(address, authority_pem, request);
  if (!response.ok()) return Annotate(response.status(), absl::StrCat("enrolment at ", address));
  IdentityFile identity{.key_pem = key_pem, .certificate_pem = response->certificate(), .authority_pem = authority_pem};
  // Checks the answer before it replaces anything.
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  ATOLL_ASSIGN_OR_RETURN(const Sha256 own, CheckSigningRequest(request.signing_request()));
  if (facts.public_key != own) {
    return absl::InternalError(
        absl::StrCat("the coordinator at ", address, " answered with another key's certificate"));
  }
  if (!response->authorities().empty()) {
    const absl::StatusOr<std::string> authorities = SucceedingAuthorities(issuer_pem, response->authorities());
    if (!authorities.ok()) return Annotate(authorities.status(), absl::StrCat("enrolment at ", address));
    identity.authority_pem = *authorities;
  }
  const absl::Status issued = IssuerOf(identity.certificate_pem, identity.authority_pem).status();
  if (!issued.ok()) return Annotate(issued, absl::StrCat("what came back from the enrolment at ", address));
  return identity;
}

// Returns the key of an earlier call that got no answer, or a new key, which is then on disk.
absl::StatusOr<std::string> KeyToAskWith(const std::string& path, const std::string& passphrase) {
  if (const absl::StatusOr<std::string> before = ReadOwnSecretFile(path); before.ok()) {
    const absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(*before, passphrase);
    if (key.ok()) return key->ToPem();
    // A new key would cost another use of the token, so a key that the passphrase does not open is an error.
    if (IsProtected(*before)) return Annotate(key.status(), path);
  }
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  ATOLL_ASSIGN_OR_RETURN(const std::string kept, key.ToPem(passphrase));
  ATOLL_RETURN_IF_ERROR(WriteSecretFile(path, kept));
  return key.ToPem();
}

}  // namespace

absl::StatusOr<IdentityFile> EnrollWithToken(const std::string& address, const JoinToken& token,
                                             std::optional<Role> role, const std::string& name, const std::string& path,
                                             const std::string& passphrase) {
  ATOLL_RETURN_IF_ERROR(
      Annotate(TrySecretFile(path), "the join token was not sent, since the identity's file cannot be written"));
  const absl::StatusOr<std::string> authority = FetchAuthority(address, token.authority);
  if (absl::IsUnavailable(authority.status())) {
    return absl::UnavailableError(absl::StrCat(
        authority.status().message(),
        "; check that the coordinator runs with --trust, that this is its enrolment port (--enroll-port, 7073 unless "
        "given), and that no firewall is between"));
  }
  ATOLL_RETURN_IF_ERROR(authority.status());
  const std::string unanswered = path + kUnanswered;
  ATOLL_ASSIGN_OR_RETURN(const std::string key_pem, KeyToAskWith(unanswered, passphrase));
  v1::EnrollRequest request;
  request.set_token_id(token.id);
  request.set_token_secret(std::string(token.secret.bytes().begin(), token.secret.bytes().end()));
  request.set_name(name);
  if (role) request.set_role(RoleName(*role));
  ATOLL_ASSIGN_OR_RETURN(IdentityFile identity, Ask(address, *authority, *authority, key_pem, std::move(request)));
  ATOLL_RETURN_IF_ERROR(WriteIdentityFile(path, identity, passphrase));
  // If it remains, the file is a second copy of the identity's key, with the same permissions.
  (void)MakePosixFiles()->Remove(unanswered);
  return identity;
}

absl::StatusOr<Sha256> KeyToEnrol(const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string key_pem, KeyToAskWith(path + kUnanswered, ""));
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(key_pem));
  ATOLL_ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key));
  return CheckSigningRequest(request);
}

absl::StatusOr<IdentityFile> RenewIdentity(const std::string& address, const IdentityFile& identity) {
  v1::EnrollRequest request;
  request.set_certificate(identity.certificate_pem);
  ATOLL_ASSIGN_OR_RETURN(const std::string issuer, IssuerOf(identity.certificate_pem, identity.authority_pem));
  return Ask(address, identity.authority_pem, issuer, identity.key_pem, std::move(request));
}

}  // namespace atl
