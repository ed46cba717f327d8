// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/identity_keeper.h"

#include "common/base/stop_wait.h"
#include "common/base/wall_time.h"
#include "common/rpc/enroll_client.h"
#include "worker/daemon/stream_advice.h"

namespace atl {
namespace {

absl::Status CheckOwner(const WorkerOptions& options, const Identity& identity) {
  if (identity.role == Role::kWorker && identity.name == options.name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--identity ", options.identity, " belongs to ", RoleName(identity.role), " '", identity.name,
                   "', but this is worker '", options.name, "': start with that --name, or use another file"));
}

bool HasToken(const WorkerOptions& options) { return options.join || !options.join_token.empty(); }

absl::Status EnrollAnew(const WorkerOptions& options, Log& log) {
  ATOLL_ASSIGN_OR_RETURN(const JoinToken token, options.join ? *options.join : ReadJoinTokenFile(options.join_token));
  ATOLL_RETURN_IF_ERROR(
      EnrollWithToken(options.coordinator_enroll, token, Role::kWorker, options.name, options.identity).status());
  log.Info("enrolled", {{"name", options.name}, {"token", token.id}, {"identity", options.identity}});
  return absl::OkStatus();
}

absl::Status Renew(const WorkerOptions& options, const IdentityFile& held, Log& log) {
  const absl::StatusOr<IdentityFile> answer = RenewIdentity(options.coordinator_enroll, held);
  const std::string advice = AdviceOnRevoked(options, answer.status().message());
  if (!advice.empty())
    return absl::Status(answer.status().code(), absl::StrCat(answer.status().message(), ": ", advice));
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile renewed, answer);
  ATOLL_RETURN_IF_ERROR(WriteIdentityFile(options.identity, renewed));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(renewed.certificate_pem));
  log.Info("certificate renewed", {{"identity", options.identity}, {"until", DateText(facts.not_after_s)}});
  return absl::OkStatus();
}

absl::StatusOr<CertificateFacts> FactsHeld(const WorkerOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile held, ReadIdentityFile(options.identity));
  return ReadCertificate(held.certificate_pem);
}

// Checks a new certificate. Unavailable, as in an outage, if it is not valid yet or no longer, which only a wrong
// local clock causes: the error ends when the clock is corrected.
absl::Status CheckNew(const WorkerOptions& options, const Clock& clock) {
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, FactsHeld(options));
  const absl::Status good = CheckTimes(facts, WallSeconds(clock));
  if (good.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(good.message(), ", although it was issued just now"));
}

}  // namespace

absl::Status EnsureIdentity(const WorkerOptions& options, const Clock& clock, Log& log, absl::Status* asked) {
  if (asked != nullptr) *asked = absl::OkStatus();
  const absl::StatusOr<IdentityFile> held = ReadIdentityFile(options.identity);
  if (absl::IsNotFound(held.status())) {
    if (HasToken(options)) {
      ATOLL_RETURN_IF_ERROR(EnrollAnew(options, log));
      return CheckNew(options, clock);
    }
    return absl::NotFoundError(absl::StrCat("no identity exists in ", options.identity,
                                            ": give a join token with --join-token FILE to get one"));
  }
  ATOLL_RETURN_IF_ERROR(held.status());
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(held->certificate_pem));
  ATOLL_RETURN_IF_ERROR(CheckOwner(options, facts.identity));
  const int64_t now_s = WallSeconds(clock);
  const absl::Status good = CheckTimes(facts, now_s);
  if (good.ok() && now_s < RenewAt(facts)) return absl::OkStatus();
  const absl::Status renewed = Renew(options, *held, log);
  if (asked != nullptr) *asked = renewed;
  if (renewed.ok()) return CheckNew(options, clock);
  if (good.ok()) {
    log.Warn("certificate not renewed yet",
             {{"until", DateText(facts.not_after_s)}, {"reason", std::string(renewed.message())}});
    return absl::OkStatus();
  }
  // The certificate is not valid now and was not renewed: only a token can help.
  if (!HasToken(options)) return Annotate(renewed, good.message());
  const absl::Status enrolled = EnrollAnew(options, log);
  if (enrolled.ok()) return CheckNew(options, clock);
  return absl::Status(renewed.code(),
                      absl::StrCat(good.message(), ": ", renewed.message(), "; with ",
                                   options.join ? "the join string" : "--join-token " + options.join_token,
                                   " it is refused too: ", enrolled.message()));
}

IdentityKeeper::IdentityKeeper(const WorkerOptions& options, const Clock& clock, Log& log, Metrics& metrics)
    : options_(options), clock_(clock), log_(log), metrics_(metrics) {
  TellEnd();
  thread_ = std::jthread([this](std::stop_token stop) { Keep(std::move(stop)); });
}

Duration IdentityKeeper::PauseAfter(const absl::Status& asked) {
  return absl::IsUnauthenticated(asked) || absl::IsPermissionDenied(asked) ? kRefusedInterval : kLookInterval;
}

// Exports the end of the certificate. If the file is unreadable, the metric keeps its value.
void IdentityKeeper::TellEnd() {
  const absl::StatusOr<CertificateFacts> facts = FactsHeld(options_);
  if (facts.ok()) metrics_.Set(Metric::kCertificateEnd, static_cast<double>(facts->not_after_s));
}

void IdentityKeeper::Keep(std::stop_token stop) {
  absl::Status asked;
  while (true) {
    WaitForStop(stop, PauseAfter(asked));
    if (stop.stop_requested()) return;
    const absl::Status kept = EnsureIdentity(options_, clock_, log_, &asked);
    if (!kept.ok()) log_.Error("no certificate", {{"reason", std::string(kept.message())}});
    TellEnd();
  }
}

}  // namespace atl
