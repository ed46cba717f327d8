// SPDX-License-Identifier: Apache-2.0
#include "common/preflight/coordinator_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/job.grpc.pb.h"
#include "common/base/wall_time.h"
#include "common/plan/messages.h"
#include "common/preflight/link_rate.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/tls.h"
#include "common/trust/handshake.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/resource_names.h"

namespace atl {
namespace {

constexpr double kGoodSkew_s = 5;
constexpr int kRoundTrips = 5;

// Returns an error if the server uses TLS: a channel without identity would then only report that no server answers.
absl::Status WantsPlaintext(const std::string& address) {
  if (!absl::IsPermissionDenied(FetchAuthority(address, Sha256{}).status())) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat(address,
                                                 " uses TLS and accepts only clients with a certificate: give your "
                                                 "identity file (--identity), or get one with a join token"));
}

// One run of the check. Each step reports its findings and returns false when later steps cannot
// work.
class Run {
 public:
  Run(const CoordinatorCheck& check, const Clock& clock, const TellFinding& tell)
      : check_(check), clock_(clock), tell_(tell) {}

  CoordinatorCheckResult Go() && {
    const bool reached = CheckIdentity() && CheckReach() && CheckTls() && Connect() && CheckServer();
    if (reached) CheckRenewal();
    if (reached && MeasureLink()) JudgeJobs();
    return std::move(result_);
  }

 private:
  bool CheckIdentity();
  bool CheckReach();
  bool CheckTls();
  bool CheckPlaintext();
  bool Connect();
  bool CheckServer();
  void CheckRenewal();
  void CheckClock(const v1::GetServerInfoResponse& info, double middle_s);
  bool MeasureLink();
  void JudgeJobs();
  absl::StatusOr<v1::ListOffersResponse> Offers();

  std::vector<std::string> Addresses() const {
    if (check_.bulk_address == check_.control_address) return {check_.control_address};
    return {check_.control_address, check_.bulk_address};
  }
  double WallNow_s() const { return static_cast<double>(clock_.WallNanos()) * 1e-9; }
  void Good(const char* what, std::string sentence) { tell_({Verdict::kGood, what, std::move(sentence)}); }
  void Warn(const char* what, std::string sentence) { tell_({Verdict::kWarning, what, std::move(sentence)}); }
  bool Failed(const char* what, const absl::Status& status) {
    result_.good = false;
    tell_(FailedFinding(what, status));
    return false;
  }

  const CoordinatorCheck& check_;
  const Clock& clock_;
  const TellFinding& tell_;
  std::optional<IdentityFile> identity_;
  int64_t good_until_s_ = 0;  // expiry of the identity's certificate
  std::shared_ptr<grpc::Channel> control_, bulk_channel_;
  std::unique_ptr<BulkClient> bulk_;
  CoordinatorCheckResult result_;
};

bool Run::CheckIdentity() {
  if (check_.identity.empty()) {
    Good("identity", "none: plaintext, which coordinators accept on loopback only");
    return true;
  }
  absl::StatusOr<IdentityFile> file = ReadIdentityFile(check_.identity, check_.passphrase);
  if (!file.ok()) return Failed("identity", file.status());
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(file->certificate_pem);
  if (!facts.ok()) return Failed("identity", Annotate(facts.status(), check_.identity));
  const absl::Status times = CheckTimes(*facts, WallSeconds(clock_));
  if (!times.ok()) return Failed("identity", Annotate(times, check_.identity));
  identity_ = *std::move(file);
  good_until_s_ = facts->not_after_s;
  Good("identity", absl::StrCat(RoleName(facts->identity.role), " '", facts->identity.name, "', valid until ",
                                DateText(facts->not_after_s)));
  return true;
}

bool Run::CheckReach() {
  for (const std::string& address : Addresses()) {
    const Instant begin = clock_.Now();
    const absl::StatusOr<std::string> peer = TryConnect(address);
    if (!peer.ok()) {
      return Failed(
          "reach",
          absl::UnavailableError(absl::StrCat(
              peer.status().message(),
              "; check that the coordinator runs and listens there, and that no firewall blocks the connection")));
    }
    Good("reach", absl::StrFormat("%s%s answers in %.3g ms", address,
                                  *peer == address ? std::string() : absl::StrCat(" (", *peer, ")"),
                                  1e3 * ToSeconds(clock_.Now() - begin)));
  }
  return true;
}

// Warns if the enrolment port does not answer. After enrolment only renewals use that port, so that without this
// check a failing renewal would be noticed only when the certificate expires.
void Run::CheckRenewal() {
  if (!identity_ || check_.enroll_address.empty()) return;
  const absl::StatusOr<std::string> peer = TryConnect(check_.enroll_address);
  if (peer.ok())
    return Good("renewal", absl::StrCat(check_.enroll_address, " answers; the certificate is renewed there"));
  Warn("renewal",
       absl::StrCat(peer.status().message(), "; the certificate is renewed there and ends ", DateText(good_until_s_),
                    ": allow TCP connections to it, or give its address with --coordinator-enroll"));
}

bool Run::CheckTls() {
  if (!identity_) return CheckPlaintext();
  for (const std::string& address : Addresses()) {
    const absl::StatusOr<std::string> version = TryHandshake(address, *identity_);
    if (!version.ok()) return Failed("tls", version.status());
    Good("tls", absl::StrCat(address, " speaks ", *version, " and accepts our certificate"));
  }
  return true;
}

bool Run::CheckPlaintext() {
  for (const std::string& address : Addresses()) {
    if (const absl::Status status = WantsPlaintext(address); !status.ok()) return Failed("tls", status);
  }
  return true;
}

bool Run::Connect() {
  const auto connect = [this]() -> absl::Status {
    ChannelSecurity security = ChannelSecurity::PlaintextLoopback();
    if (identity_) {
      ATOLL_ASSIGN_OR_RETURN(security, MutualTlsChannel(check_.identity, WallSeconds(clock_), check_.passphrase));
    }
    ATOLL_ASSIGN_OR_RETURN(control_, MakeControlChannel({.address = check_.control_address}, security));
    ATOLL_ASSIGN_OR_RETURN(bulk_channel_, MakeBulkChannel({.address = check_.bulk_address}, security));
    return absl::OkStatus();
  };
  if (const absl::Status status = connect(); !status.ok()) return Failed("coordinator", status);
  bulk_ = MakeGrpcBulkClient(bulk_channel_, clock_,
                             {.caps = {check_.upload_bytes_per_second, check_.download_bytes_per_second}});
  return true;
}

bool Run::CheckServer() {
  v1::GetServerInfoResponse info;
  std::array<double, kRoundTrips> round_trips_s{};
  double middle_s = 0;
  const auto stub = v1::AdminService::NewStub(control_);
  for (double& round_trip_s : round_trips_s) {
    grpc::ClientContext context;
    SetDeadline(context);
    const Instant begin = clock_.Now();
    const grpc::Status status = stub->GetServerInfo(&context, {}, &info);
    if (!status.ok()) return Failed("coordinator", FromGrpc(status));
    round_trip_s = ToSeconds(clock_.Now() - begin);
    middle_s = WallNow_s() - round_trip_s / 2;
  }
  std::sort(round_trips_s.begin(), round_trips_s.end());
  result_.link.latency_seconds = round_trips_s[kRoundTrips / 2] / 2;
  if (info.protocol_revision() != kProtocolRevision) {
    return Failed("coordinator", absl::FailedPreconditionError(absl::StrCat(
                                     "the coordinator (", info.version(), ") speaks protocol revision ",
                                     info.protocol_revision(), ", this program (", check_.version, ") revision ",
                                     kProtocolRevision, "; install the coordinator's version on this machine")));
  }
  Good("coordinator", absl::StrFormat("version %s, boot %u; this program is %s, a call takes %.3g ms", info.version(),
                                      info.boot_number(), check_.version, 2e3 * result_.link.latency_seconds));
  CheckClock(info, middle_s);
  return true;
}

void Run::CheckClock(const v1::GetServerInfoResponse& info, double middle_s) {
  const double there_s =
      static_cast<double>(info.current_time().seconds()) + static_cast<double>(info.current_time().nanos()) * 1e-9;
  const double ahead_s = middle_s - there_s;
  const std::string text = absl::StrFormat("this machine is %.3g s %s the coordinator", std::abs(ahead_s),
                                           ahead_s >= 0 ? "ahead of" : "behind the clock of");
  if (std::abs(ahead_s) <= kGoodSkew_s) return Good("clock", text);
  Warn("clock",
       absl::StrCat(text, "; certificates are checked against both clocks: synchronise them with NTP (timedatectl)"));
}

bool Run::MeasureLink() {
  const absl::StatusOr<double> up = MeasureUpload(*bulk_, clock_);
  if (absl::IsPermissionDenied(up.status())) {
    Warn("link", absl::StrCat("not measured: ", up.status().message()));
    return false;
  }
  if (!up.ok()) return Failed("link", Annotate(up.status(), "upwards"));
  Good("link",
       absl::StrCat(BitRateText(*up), " upwards", check_.upload_bytes_per_second > 0 ? ", within --upload-limit" : ""));
  const absl::StatusOr<double> down = MeasureDownload(*bulk_, clock_, check_.worker);
  if (!down.ok()) return Failed("link", Annotate(down.status(), "downwards"));
  Good("link", absl::StrCat(BitRateText(*down), " downwards",
                            check_.download_bytes_per_second > 0 ? ", within --download-limit" : ""));
  result_.link.upload_bytes_per_second = *up;
  result_.link.download_bytes_per_second = *down;
  return true;
}

absl::StatusOr<v1::ListOffersResponse> Run::Offers() {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListOffersResponse response;
  const grpc::Status status = v1::JobService::NewStub(control_)->ListOffers(&context, {}, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

void Run::JudgeJobs() {
  const absl::StatusOr<v1::ListOffersResponse> response = Offers();
  if (!response.ok()) {
    Failed("job", response.status());
    return;
  }
  if (response->offers().empty()) Good("job", "the coordinator has no job to check against at present");
  for (const v1::Offer& proto : response->offers()) {
    const absl::StatusOr<JobId> job = ParseJobName(proto.job());
    JobOffer offer;
    if (!job.ok() || !JobSpecFromProto(proto.spec(), /*before_submit=*/false, offer.spec).empty()) {
      Warn("job", absl::StrCat(proto.job(), " has settings unknown to this program, which may be too old for the job"));
      continue;
    }
    offer.job = *job;
    if (proto.has_step_seconds() && proto.step_seconds() > 0) offer.step_seconds = proto.step_seconds();
    tell_(JudgeLink(offer, result_.link));
    result_.offers.push_back(std::move(offer));
  }
}

}  // namespace

absl::Status FindTlsFault(const std::string& address, const std::string& identity, const std::string& passphrase) {
  if (!TryConnect(address).ok()) return absl::OkStatus();
  if (identity.empty()) return WantsPlaintext(address);
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile file, ReadIdentityFile(identity, passphrase));
  absl::Status status = TryHandshake(address, file).status();
  if (!absl::IsUnavailable(status)) return status;
  return absl::UnavailableError(
      absl::StrCat(status.message(), "; if the coordinator runs without --trust, omit --identity"));
}

CoordinatorCheckResult CheckCoordinator(const CoordinatorCheck& check, const Clock& clock, const TellFinding& tell) {
  return Run(check, clock, tell).Go();
}

}  // namespace atl
