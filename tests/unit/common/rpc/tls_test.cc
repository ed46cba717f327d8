// SPDX-License-Identifier: Apache-2.0
// Mutual TLS over real sockets: accepted clients, and certificate renewal without a restart.
#include "common/rpc/tls.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "common/base/wall_time.h"
#include "common/rpc/control_stream.h"
#include "common/rpc/enroll_client.h"
#include "common/rpc/transport_log.h"
#include "common/trust/access.h"
#include "common/trust/handshake.h"
#include "common/trust/secret_files.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/common/rpc/enroll_door.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/raw_socket.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

int64_t NowSeconds() { return WallSeconds(SystemClock()); }

absl::Status CheckRole(const std::string& method, const CertificateFacts& caller) {
  return CheckAccess(method, caller.identity);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    SilenceTransportLog();  // refused handshakes are expected here
    std::string name = testing::TempDir() + "/tlsXXXXXX";
    directory_ = mkdtemp(name.data());
    Write("server", Issue(authority_, {Role::kCoordinator, "coordinator", ""}));
  }
  ~TlsTest() override {
    server_.reset();
    enroll_door_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name + ".pem"; }
  void Write(const std::string& name, const IdentityFile& identity) {
    ASSERT_TRUE(WriteIdentityFile(Path(name), identity).ok());
  }
  static IdentityFile Issue(const Authority& authority, const Identity& identity, int64_t now_s = NowSeconds()) {
    return *IssueIdentity(authority, identity, now_s);
  }
  void Start(const std::vector<grpc::Service*>& services = {}) {
    absl::StatusOr<ServerSecurity> security =
        MutualTls(Path("server"), clock_, CheckRole, {.peer = 1'000'000, .all = 1'000'000});
    ASSERT_TRUE(security.ok()) << security.status();
    Listen(*security, services);
  }
  void Listen(const ServerSecurity& security, const std::vector<grpc::Service*>& services) {
    auto server = Server::Start({.connections = {.calls_per_second = 1'000'000}}, security, services);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = "127.0.0.1:" + std::to_string(server_->port());
  }
  // Listens as a coordinator that issues certificates; its own certificate is valid from
  // `issued_s`.
  void ListenForEnrolment(Enroller enroller, int64_t issued_s = NowSeconds()) {
    auto tls = ServerOnlyTls(Path("server"), issued_s);
    ASSERT_TRUE(tls.ok()) << tls.status();
    enroll_door_.reset();
    enroll_door_ = OpenEnrollDoor(*tls, std::move(enroller));
    address_ = "127.0.0.1:" + std::to_string(enroll_door_->port());
  }
  std::shared_ptr<grpc::Channel> To(const ChannelSecurity& security) const {
    return *MakeControlChannel({.address = address_}, security);
  }
  // A channel with a new identity of `authority`.
  std::shared_ptr<grpc::Channel> As(const Identity& identity, const Authority& authority) {
    const std::string name = RoleName(identity.role) + identity.name;
    Write(name, Issue(authority, identity));
    const auto security = MutualTlsChannel(Path(name), NowSeconds());
    EXPECT_TRUE(security.ok()) << security.status();
    return To(*security);
  }
  grpc::StatusCode Health(const std::shared_ptr<grpc::Channel>& channel) {
    const grpc::Status status = OneCall(channel, kHealthMethod);
    if (!status.ok()) refused_ = status.error_message();
    return status.error_code();
  }
  void TearDown() override {
    if (HasFailure()) std::cout << "the newest call that failed said: " << refused_ << std::endl;
  }

  // The server's clock, set to the present: at its initial time no certificate here is valid.
  ManualClock clock_{{(NowSeconds() - WallSeconds(ManualClock({0}))) * Seconds(1).ns}};
  std::string directory_, address_, refused_;
  const Authority authority_ = *Authority::Create(NowSeconds());
  const Authority stranger_ = *Authority::Create(NowSeconds());
  std::unique_ptr<Server> server_;
  std::unique_ptr<guard::Guard> enroll_door_;
};

// S14, S17, S18.
TEST_F(TlsTest, EveryCallForEveryRoleOverASocket) {
  Start();
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin, Role::kWorker}) {
    const auto channel = As({role, "x", ""}, authority_);
    for (const AccessRule& rule : AccessTable()) {
      if (rule.method == "/grpc.health.v1.Health/Watch") continue;  // never ends
      const grpc::Status status = OneCall(channel, rule.method);
      const bool may = CheckAccess(rule.method, {role, "x", ""}).ok();
      const bool health = rule.method == kHealthMethod;
      // An allowed call reaches the server, which does not implement that service.
      EXPECT_EQ(status.error_code(), health ? grpc::OK
                                     : may  ? grpc::UNIMPLEMENTED
                                            : grpc::PERMISSION_DENIED)
          << rule.method << " " << RoleName(role) << ": " << status.error_message();
    }
    EXPECT_EQ(OneCall(channel, "/atoll.v1.JobService/Nothing").error_code(), grpc::PERMISSION_DENIED);
  }
}

// A user's identity ends at its time, also on an open connection. A worker has a new identity by
// then, which its connection does not know.
TEST_F(TlsTest, AnEndedCertificateMakesNoMoreCalls) {
  Start();
  const auto person = As({Role::kViewer, "eve", ""}, authority_), worker = As({Role::kWorker, "w", ""}, authority_);
  EXPECT_EQ(Health(person), grpc::OK);
  EXPECT_EQ(Health(worker), grpc::OK);
  clock_.Advance(Seconds(kUserLifetime_s - 3600));
  EXPECT_EQ(Health(person), grpc::OK);
  clock_.Advance(Seconds(7200));
  for (int i = 0; i < 2; ++i) {
    const grpc::Status refused = OneCall(person, kHealthMethod);
    EXPECT_EQ(refused.error_code(), grpc::UNAUTHENTICATED);
    EXPECT_NE(refused.error_message().find("the certificate of viewer 'eve' ended at "), std::string::npos)
        << refused.error_message();
  }
  EXPECT_EQ(Health(worker), grpc::OK);
}

TEST_F(TlsTest, HandlersLearnWhoCalls) {
  Inbox<std::string> peers;
  const auto service =
      MakeControlService([&peers](std::unique_ptr<CoordinatorEnd>, std::string peer) { peers.Put(std::move(peer)); });
  Start({service.get()});
  const auto worker = OpenControlStream(As({Role::kWorker, "cpu-1", "0123456789abcdef"}, authority_));
  worker->Start({.on_message = [](CoordinatorMessage) {}, .on_closed = [](const absl::Status&) {}});
  const auto peer = peers.Take();
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(IdentityOfPeer(*peer), (Identity{Role::kWorker, "cpu-1", "0123456789abcdef"})) << *peer;
  EXPECT_NE(peer->find("127.0.0.1:"), std::string::npos) << *peer;
}

// S7: revoking a token closes all connections of identities issued for it, and no others.
TEST_F(TlsTest, ARevokedCertificateEndsItsConnections) {
  Mutex mutex;
  std::vector<std::unique_ptr<CoordinatorEnd>> streams;
  Inbox<int> accepted;
  const auto service = MakeControlService([&](std::unique_ptr<CoordinatorEnd> stream, const std::string&) {
    stream->Start({.on_message = [](WorkerMessage) {}, .on_closed = [](const absl::Status&) {}});
    const MutexLock lock(mutex);
    streams.push_back(std::move(stream));
    accepted.Put(1);
  });
  Start({service.get()});
  Inbox<std::string> ends;
  const auto open = [&](const std::string& name, const std::string& token) {
    auto stream = OpenControlStream(As({Role::kWorker, name, token}, authority_));
    stream->Start({.on_message = [](CoordinatorMessage) {},
                   .on_closed =
                       [&ends, name](const absl::Status& status) {
                         ends.Put(name + " " + std::string(absl::StatusCodeToString(status.code())));
                       }});
    EXPECT_TRUE(accepted.Take().has_value());
    return stream;
  };
  const auto bad = open("bad", "0000000000000001"), good = open("good", "0000000000000002");
  server_->door().EndConnections([](const guard::Peer& peer) {
    return peer.certificate && peer.certificate->identity.token == "0000000000000001";
  });
  EXPECT_EQ(ends.Take(), "bad UNAVAILABLE");
  EXPECT_EQ(server_->Connections().revoked, 1u);
  EXPECT_TRUE(good->Send(Leaving{}).ok());
  good->Close(absl::OkStatus());
  EXPECT_EQ(ends.Take(), "good OK");
  const MutexLock lock(mutex);
  streams.clear();
}

// S35.
TEST_F(TlsTest, NobodyElseComesIn) {
  Start();
  EXPECT_EQ(Health(As({Role::kViewer, "right", ""}, authority_)), grpc::OK);
  // S3, S4, S5: no certificate, another authority's, an expired or future one; and plaintext.
  EXPECT_EQ(Health(To(PinnedTlsChannel(authority_.certificate_pem()))), grpc::UNAVAILABLE);
  EXPECT_EQ(Health(As({Role::kAdmin, "stranger", ""}, stranger_)), grpc::UNAVAILABLE);
  const int64_t past_s = NowSeconds() - 10 * 86'400;
  Write("old", Issue(authority_, {Role::kWorker, "old", ""}, past_s));
  EXPECT_EQ(Health(To(*MutualTlsChannel(Path("old"), past_s))), grpc::UNAVAILABLE);
  const int64_t future_s = NowSeconds() + 86'400;
  Write("early", Issue(authority_, {Role::kAdmin, "early", ""}, future_s));
  EXPECT_EQ(Health(To(*MutualTlsChannel(Path("early"), future_s))), grpc::UNAVAILABLE);
  EXPECT_EQ(Health(To(ChannelSecurity::PlaintextLoopback())), grpc::UNAVAILABLE);
  // A stranger's signing key together with our authority's certificate.
  IdentityFile mixed = Issue(stranger_, {Role::kAdmin, "mixed", ""});
  mixed.authority_pem = authority_.certificate_pem();
  Write("mixed", mixed);
  EXPECT_EQ(Health(To(*MutualTlsChannel(Path("mixed"), NowSeconds()))), grpc::UNAVAILABLE);
  EXPECT_EQ(Health(As({Role::kViewer, "after", ""}, authority_)), grpc::OK) << "and it goes on serving";
}

// S6: a worker's certificate is not accepted as a server's, whatever its use.
TEST_F(TlsTest, OnlyACoordinatorIsACoordinator) {
  EXPECT_EQ(MutualTlsChannel(Path("server"), NowSeconds()).status().code(), absl::StatusCode::kInvalidArgument);
  Write("worker", Issue(authority_, {Role::kWorker, "w", ""}));
  EXPECT_EQ(MutualTls(Path("worker"), clock_, CheckRole).status().code(), absl::StatusCode::kInvalidArgument);
  Listen(ServerSecurity::WithCertificates(*guard::TlsServer::Open(Path("worker"), guard::ClientCertificates::kDemanded),
                                          nullptr),
         {});
  EXPECT_EQ(Health(As({Role::kViewer, "v", ""}, authority_)), grpc::UNAVAILABLE);
}

// S8.
TEST_F(TlsTest, FilesAreReadAgainWithoutARestart) {
  Start();
  Write("new", Issue(stranger_, {Role::kViewer, "new", ""}));
  EXPECT_EQ(Health(To(*MutualTlsChannel(Path("new"), NowSeconds()))), grpc::UNAVAILABLE);
  const auto held = As({Role::kViewer, "held", ""}, authority_);
  EXPECT_EQ(Health(held), grpc::OK);
  Write("server", Issue(stranger_, {Role::kCoordinator, "coordinator", ""}));
  const SystemClock clock;
  const Instant end = clock.Now() + kPatience;
  grpc::StatusCode code = grpc::UNAVAILABLE;
  while (code != grpc::OK && clock.Now() < end) code = Health(To(*MutualTlsChannel(Path("new"), NowSeconds())));
  EXPECT_EQ(code, grpc::OK) << "the server goes on with its old certificate";
  EXPECT_EQ(Health(held), grpc::OK) << "connections that stand are not cut";
}

// S8: both ends renew their certificates during calls; each tenth call uses a new connection.
TEST_F(TlsTest, NoCallFailsWhileCertificatesAreRenewed) {
  Start();
  const Identity worker{Role::kWorker, "w", ""};
  const auto held = As(worker, authority_);
  const SystemClock clock;
  Instant end = kNever;
  int calls = 0;
  for (; calls < 1'000 || clock.Now() < end; ++calls) {
    if (calls == 300) {
      Write("server", Issue(authority_, {Role::kCoordinator, "coordinator", ""}));
      end = clock.Now() + Seconds(2);  // files are checked every second
    }
    ASSERT_EQ(Health(calls % 10 == 0 ? As(worker, authority_) : held), grpc::OK) << "call " << calls;
  }
}

// S8: the authority is rotated during calls; each tenth call uses a new connection. Half of the new
// connections know only the old authority, half know both. Then the old authority is retired.
TEST_F(TlsTest, NoCallFailsWhileTheAuthorityIsRotated) {
  Start();
  const Authority rotated = *authority_.Rotated(NowSeconds());
  const Identity worker{Role::kWorker, "w", ""};
  const auto held = As(worker, authority_);
  const SystemClock clock;
  Instant known = kNever, end = kNever;
  int calls = 0, of_both = 0;
  for (; calls < 1'000 || clock.Now() < end; ++calls) {
    if (calls == 300) {
      Write("server", Issue(rotated, {Role::kCoordinator, "coordinator", ""}));
      known = clock.Now() + Seconds(3);  // files are checked every second
      end = known + Seconds(1);
    }
    const bool both = calls % 20 == 0 && clock.Now() > known;
    of_both += both ? 1 : 0;
    ASSERT_EQ(Health(calls % 10 == 0 ? As(worker, both ? rotated : authority_) : held), grpc::OK) << "call " << calls;
  }
  EXPECT_GT(of_both, 0);
  const auto moved = As({Role::kWorker, "moved", ""}, rotated);
  EXPECT_EQ(Health(moved), grpc::OK);
  Write("server", Issue(rotated.Alone(), {Role::kCoordinator, "coordinator", ""}));
  const Instant give_up = clock.Now() + kPatience;
  while (Health(As(worker, authority_)) == grpc::OK && clock.Now() < give_up) {
  }
  EXPECT_EQ(Health(As(worker, authority_)), grpc::UNAVAILABLE);
  for (const auto& channel : {held, moved, As(worker, rotated), As(worker, rotated.Alone())}) {
    EXPECT_EQ(Health(channel), grpc::OK);
  }
}

// The coordinator's side of enrolment, reduced to signing.
class Signing {
 public:
  explicit Signing(const Authority& authority) : authority_(authority) {}
  Enroller enroller() {
    return [this](const v1::EnrollRequest& request, const std::string&, const EnrollAnswer& answer) {
      seen = request;
      if (loses_answer) return answer(absl::DeadlineExceededError("nothing came back"), {});
      const int64_t lifetime_s = wrong_key ? 60 : kWorkerLifetime_s;
      const std::string theirs = wrong_key ? *MakeSigningRequest(*PrivateKey::Generate()) : request.signing_request();
      v1::EnrollResponse response;
      response.set_certificate(
          *authority_.Sign(theirs, {Role::kWorker, "cpu-1", "0123456789abcdef"}, NowSeconds(), lifetime_s));
      response.set_authorities(authorities);
      answer(absl::OkStatus(), response);
    };
  }
  v1::EnrollRequest seen;  // read when the call is over
  bool wrong_key = false, loses_answer = false;
  std::string authorities;

 private:
  const Authority& authority_;
};

TEST_F(TlsTest, EnrolmentMakesAKeyHereAndRenewsWithIt) {
  Signing service(authority_);
  ListenForEnrolment(service.enroller());
  const JoinToken token = MakeToken(authority_.fingerprint(), {})->token;
  const auto enrolled = EnrollWithToken(address_, token, Role::kWorker, "cpu-1", Path("own"));
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  EXPECT_EQ(service.seen.token_id(), token.id);
  EXPECT_EQ(service.seen.name(), "cpu-1");
  EXPECT_EQ(enrolled->authority_pem, authority_.certificate_pem());
  Write("enrolled", *enrolled);
  EXPECT_TRUE(MutualTlsChannel(Path("enrolled"), NowSeconds()).ok());
  const auto renewed = RenewIdentity(address_, *enrolled);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->key_pem, enrolled->key_pem);
  EXPECT_EQ(service.seen.certificate(), enrolled->certificate_pem);
  EXPECT_EQ(service.seen.token_secret(), "");
  service.wrong_key = true;
  EXPECT_EQ(RenewIdentity(address_, *enrolled).status().code(), absl::StatusCode::kInternal);
}

// The coordinator recorded the key with the token's use, so a retry must use the same key.
TEST_F(TlsTest, EnrolmentAsksAgainWithTheSameKey) {
  Signing service(authority_);
  ListenForEnrolment(service.enroller());
  const JoinToken token = MakeToken(authority_.fingerprint(), {})->token;
  const auto enrol = [&] { return EnrollWithToken(address_, token, Role::kWorker, "cpu-1", Path("own")); };
  service.loses_answer = true;
  EXPECT_EQ(enrol().status().code(), absl::StatusCode::kDeadlineExceeded);
  const Sha256 first = *CheckSigningRequest(service.seen.signing_request());
  EXPECT_TRUE(ReadSecretFile(Path("own") + ".enrolling").ok()) << "the key outlives the process";
  EXPECT_FALSE(ReadIdentityFile(Path("own")).ok());
  service.loses_answer = false;
  const auto enrolled = enrol();
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  EXPECT_EQ(ReadCertificate(enrolled->certificate_pem)->public_key, first);
  EXPECT_EQ(ReadIdentityFile(Path("own"))->certificate_pem, enrolled->certificate_pem);
  EXPECT_FALSE(ReadSecretFile(Path("own") + ".enrolling").ok());
  ASSERT_TRUE(enrol().ok());
  EXPECT_NE(*CheckSigningRequest(service.seen.signing_request()), first) << "an answered key is not used again";
}

// Enrolment with a token, or renewal of an identity, from before a rotation also brings the new authority, but no
// stranger's.
TEST_F(TlsTest, EnrolmentBringsTheSuccessor) {
  const Authority rotated = *authority_.Rotated(NowSeconds());
  Signing service(rotated);
  Write("server", Issue(rotated, {Role::kCoordinator, "coordinator", ""}));
  ListenForEnrolment(service.enroller());
  service.authorities = rotated.certificates_pem();
  const std::string both = rotated.certificate_pem() + authority_.certificate_pem();
  for (const Authority* pinned : {&authority_, &rotated}) {
    const JoinToken token = MakeToken(pinned->fingerprint(), {})->token;
    EXPECT_EQ(*FetchAuthority(address_, pinned->fingerprint()), pinned->certificate_pem());
    const auto enrolled = EnrollWithToken(address_, token, Role::kWorker, "cpu-1", Path("own"));
    ASSERT_TRUE(enrolled.ok()) << enrolled.status();
    EXPECT_EQ(enrolled->authority_pem, pinned == &rotated ? rotated.certificate_pem() : both);
  }
  const IdentityFile before = Issue(authority_, {Role::kWorker, "cpu-1", ""});
  const auto renewed = RenewIdentity(address_, before);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->authority_pem, both);
  EXPECT_TRUE(rotated.Alone().CheckIssued(renewed->certificate_pem).ok());
  // A client with a certificate of the new authority no longer needs the old authority.
  const auto again = RenewIdentity(address_, *renewed);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->authority_pem, rotated.certificate_pem());
  service.authorities = authority_.certificate_pem();
  EXPECT_EQ(RenewIdentity(address_, *again).status().code(), absl::StatusCode::kPermissionDenied);
  // A stranger's certificate is ignored, and so is one that no known authority signed.
  service.authorities = rotated.certificates_pem() + stranger_.certificates_pem();
  EXPECT_EQ(RenewIdentity(address_, before)->authority_pem, both);
  for (const std::string& strange : {stranger_.certificates_pem(), std::string(), authority_.certificates_pem()}) {
    service.authorities = strange;
    EXPECT_EQ(RenewIdentity(address_, before).status().code(), absl::StatusCode::kPermissionDenied);
  }
  // After the retirement an older token belongs to another coordinator.
  Write("server", Issue(rotated.Alone(), {Role::kCoordinator, "coordinator", ""}));
  server_.reset();
  ListenForEnrolment(service.enroller());
  EXPECT_EQ(FetchAuthority(address_, authority_.fingerprint()).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(FetchAuthority(address_, rotated.fingerprint()).ok());
}

// S6.
TEST_F(TlsTest, NothingIsSentToAnotherAuthority) {
  Signing service(authority_);
  ListenForEnrolment(service.enroller());
  EXPECT_EQ(*FetchAuthority(address_, authority_.fingerprint()), authority_.certificate_pem());
  const absl::Status other =
      EnrollWithToken(address_, MakeToken(stranger_.fingerprint(), {})->token, {}, "a", Path("own")).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(other.message()).find("for another coordinator"), std::string::npos) << other;
  EXPECT_EQ(service.seen.token_secret(), "");
  // A chain that ends in the right authority, under a certificate that the authority never signed.
  IdentityFile forged = Issue(stranger_, {Role::kCoordinator, "coordinator", ""});
  forged.authority_pem = authority_.certificate_pem();
  Write("server", forged);
  server_.reset();
  ListenForEnrolment(service.enroller());
  EXPECT_EQ(FetchAuthority(address_, authority_.fingerprint()).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(TlsTest, WhereNoTlsIsSpokenIsSaid) {
  Listen(ServerSecurity::PlaintextLoopback(), {});
  const absl::Status plain = FetchAuthority(address_, authority_.fingerprint()).status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(plain.message()).find("no TLS handshake with 127.0.0.1:"), std::string::npos) << plain;
  const absl::Status nobody = FetchAuthority("127.0.0.1:1", authority_.fingerprint()).status();
  EXPECT_NE(std::string(nobody.message()).find("Connection refused"), std::string::npos) << nobody;
}

TEST_F(TlsTest, AHandshakeTellsWhoRefusesWhom) {
  Start();
  const IdentityFile good = Issue(authority_, {Role::kWorker, "a", ""});
  EXPECT_EQ(*TryConnect(address_), address_);
  EXPECT_EQ(*TryHandshake(address_, good), "TLSv1.3");
  // We reject the coordinator: it belongs to another authority than our identity.
  const absl::Status other = TryHandshake(address_, Issue(stranger_, {Role::kWorker, "a", ""})).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(other.message()).find("not issued to a coordinator by our"), std::string::npos) << other;
  // It rejects us: a stranger's certificate, an expired one.
  IdentityFile forged = Issue(stranger_, {Role::kWorker, "a", ""});
  forged.authority_pem = authority_.certificate_pem();
  const absl::Status unknown = TryHandshake(address_, forged).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(unknown.message()).find("refuses our certificate"), std::string::npos) << unknown;
  const absl::Status ended =
      TryHandshake(address_, Issue(authority_, {Role::kWorker, "a", ""}, NowSeconds() - 100 * 86'400)).status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(ended.message()).find("refuses our certificate"), std::string::npos) << ended;
}

// S12, S5: the error blames neither the authority nor the port.
TEST_F(TlsTest, ACoordinatorsCertificateThatIsNotGoodByOurClockIsToldWithBothTimes) {
  for (const int64_t offset_s : {int64_t{3600}, int64_t{-100 * 86'400}}) {
    const int64_t issued = NowSeconds() + offset_s;
    Signing service(authority_);
    const IdentityFile server = Issue(authority_, {Role::kCoordinator, "coordinator", ""}, issued);
    Write("server", server);
    server_.reset();
    ListenForEnrolment(service.enroller(), issued);
    const CertificateFacts facts = *ReadCertificate(server.certificate_pem);
    const std::string date = DateText(offset_s > 0 ? facts.not_before_s : facts.not_after_s);
    const JoinToken token = MakeToken(authority_.fingerprint(), {})->token;
    const IdentityFile own = Issue(authority_, {Role::kWorker, "a", ""});
    for (const absl::Status& told :
         {TryHandshake(address_, own).status(), EnrollWithToken(address_, token, {}, "a", Path("own")).status(),
          RenewIdentity(address_, own).status()}) {
      const std::string text(told.message());
      EXPECT_NE(text.find(date), std::string::npos) << text;
      EXPECT_NE(text.find("this machine's clock shows " + DateText(NowSeconds()).substr(0, 13)), std::string::npos)
          << text;
      EXPECT_NE(text.find("set the clock right, on this machine or"), std::string::npos) << text;
    }
  }
}

TEST_F(TlsTest, WhereNobodyListensIsSaid) {
  EXPECT_NE(std::string(TryConnect("127.0.0.1:1").status().message()).find("cannot connect to 127.0.0.1:1: "),
            std::string::npos);
  EXPECT_EQ(TryConnect("no-such-host.invalid:7070").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(TryConnect("127.0.0.1").status().code(), absl::StatusCode::kInvalidArgument);
  Listen(ServerSecurity::PlaintextLoopback(), {});
  const absl::Status plain = TryHandshake(address_, Issue(authority_, {Role::kWorker, "a", ""})).status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable) << plain;
  EXPECT_NE(std::string(plain.message()).find("no TLS handshake with 127.0.0.1:"), std::string::npos) << plain;
}

// Long before connections without a call are ended.
TEST_F(TlsTest, WhoSaysNothingInTheHandshakeIsEnded) {
  Start();
  EXPECT_TRUE(Ends(ConnectTo(server_->port()))) << "within ten seconds";
}

TEST_F(TlsTest, WhatIsWrongWithAFileIsSaidAtOnce) {
  EXPECT_EQ(MutualTlsChannel(Path("none"), NowSeconds()).status().code(), absl::StatusCode::kNotFound);
  Write("old", Issue(authority_, {Role::kWorker, "old", ""}, NowSeconds() - 10 * 86'400));
  const absl::Status old = MutualTlsChannel(Path("old"), NowSeconds()).status();
  EXPECT_EQ(old.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(old.message()).find("old.pem: the certificate of worker 'old' expired at"), std::string::npos)
      << old;
}

}  // namespace
}  // namespace atl
