// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/transport_server.h"

#include <grpcpp/impl/service_type.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "common/trust/access.h"
#include "tests/bench/bench.h"

namespace atl::bench {

void Require(const absl::Status& status) { ATOLL_CHECK(status.ok(), std::string(status.message()).c_str()); }

std::string WorkerName(size_t index) { return absl::StrCat("worker-", index); }

std::shared_ptr<const Content> RandomBytes(size_t bytes) {
  auto out = std::make_shared<Content>(bytes);
  Rng random(StreamKey(0, "transport"));
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(out->data() + at, &word, std::min(sizeof(word), bytes - at));
  }
  return out;
}

// The coordinator's end: one fragment that all workers may fetch, and space for one contribution of
// each worker.
class Yard final : public BulkHandler {
 public:
  explicit Yard(Executor& io) : io_(io) {}
  // Not while a transfer is in progress.
  void Serve(std::shared_ptr<const Content> fragment) {
    digest_ = DigestOf(*fragment);
    fragment_ = std::move(fragment);
    Renew();
    rooms_.clear();
    for (size_t i = 0; i < kMostConnections; ++i) rooms_[WorkerName(i)].resize(fragment_->size());
  }

  // Later downloads are of a new update that no worker has fetched.
  void Renew() { update_ = MakeMemorySource(fragment_); }

  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return std::make_shared<Arrival>(*this); }
  void OnDownload(DownloadRequest, DownloadReply reply) override {
    const DownloadHeader header{
        .total_bytes = fragment_->size(), .version = {1}, .hash = {}, .codec = CodecKind::kFp32, .digest = digest_};
    reply(DownloadContent{header, update_, {}});
  }
  void OnMissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override {
    reply(std::vector<Sha256>{});
  }

 private:
  // Handles a contribution as DataPlane and RoundLog do, in memory.
  class Arrival final : public UploadHandler, public std::enable_shared_from_this<Arrival> {
   public:
    explicit Arrival(Yard& yard) : yard_(yard) {}
    void OnBegin(UploadHeader header, UploadReply reply) override {
      header_ = std::get<ContributionUpload>(header).header;
      room_ = yard_.rooms_.at(header_.worker.value);
      reply(UploadStatus{});
    }
    void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
      Place* const place = &places_[next_++ % places_.size()];
      *place = {shared_from_this(), offset, std::move(bytes), std::move(reply)};
      yard_.io_.Post([place] { Store(std::exchange(*place, {})); });
    }
    void OnEnd(StatusReply reply) override {
      yard_.io_.Post([self = shared_from_this(), reply = std::move(reply)] {
        const bool same = self->hasher_.Finish() == self->header_.digest;
        reply(same ? absl::OkStatus() : absl::DataLossError("a contribution has another digest"));
      });
    }
    void OnBroken(absl::Status) override {}

   private:
    // A slot that is not answered yet and keeps its upload.
    struct Place {
      std::shared_ptr<Arrival> self;
      uint64_t offset = 0;
      BulkBytes bytes;
      StatusReply reply;
    };
    static void Store(const Place& place) {
      Arrival& self = *place.self;
      std::span<std::byte> to = self.room_.subspan(place.offset);
      for (const Bytes& piece : place.bytes.pieces) {
        std::memcpy(to.data(), piece.data(), piece.size());
        to = to.subspan(piece.size());
        self.hasher_.Update(piece);
      }
      place.reply(absl::OkStatus());
    }

    Yard& yard_;
    std::array<Place, kUploadCredits + 1> places_;
    size_t next_ = 0;
    ContributionHeader header_;
    std::span<std::byte> room_;
    DigestHasher hasher_;
  };

  Executor& io_;
  std::shared_ptr<const Content> fragment_;
  std::shared_ptr<BulkSource> update_;
  Digest digest_;
  std::map<std::string, Content> rooms_;
};

namespace {

template <typename Message>
void SendMessage(int socket, const Message& message) {
  ATOLL_CHECK(::send(socket, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message),
              "the other process has ended");
}

// False: the other process has ended.
template <typename Message>
bool ReceiveMessage(int socket, Message& message) {
  return ::recv(socket, &message, sizeof(message), MSG_WAITALL) == sizeof(message);
}

std::unique_ptr<Server> StartServer(const ServerSecurity& security, grpc::Service& service) {
  auto server = Server::Start({}, security, {&service});
  Require(server.status());
  return *std::move(server);
}

ServerSecurity Sealed(const std::string& identity_file, const Clock& clock) {
  auto security = MutualTls(identity_file, clock, [](const std::string& method, const CertificateFacts& who) {
    return CheckAccess(method, who.identity);
  });
  Require(security.status());
  return *std::move(security);
}

}  // namespace

void TransportServer::Run(int socket, const std::string& identity_file) {
  const SystemClock clock;
  ThreadExecutor io(1);  // as many as the coordinator has
  Yard yard(io);
  const auto plain = MakeBulkService(yard, io, clock, {}), sealed = MakeBulkService(yard, io, clock, {});
  const auto plain_server = StartServer(ServerSecurity::PlaintextLoopback(), *plain);
  const auto sealed_server = StartServer(Sealed(identity_file, clock), *sealed);
  SendMessage(socket, Answer{plain_server->port(), sealed_server->port(), 0, {}});
  for (Question question{}; ReceiveMessage(socket, question);) SendMessage(socket, Reply(socket, yard, question));
}

TransportServer::Answer TransportServer::Reply(int socket, Yard& yard, const Question& question) {
  Answer answer{};
  if (question.ask == Ask::kServe) yard.Serve(RandomBytes(question.bytes));
  if (question.ask == Ask::kRenew) yard.Renew();
  if (question.ask == Ask::kCpuTime) answer.cpu_seconds = OwnCpuSeconds();
  if (question.ask == Ask::kCount) {
    answer.counted = CountAllocations([socket] {
      SendMessage(socket, Answer{});  // counts from here on
      Question end{};
      ATOLL_CHECK(ReceiveMessage(socket, end) && end.ask == Ask::kCounted, "the benchmark has ended");
    });
  }
  return answer;
}

TransportServer::TransportServer(const std::string& identity_file) {
  std::array<int, 2> pair{};
  ATOLL_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "there are descriptors");
  Descriptor ours(pair[0]), theirs(pair[1]);
  process_ = ::fork();
  ATOLL_CHECK(process_ >= 0, "a process can be started");
  if (process_ == 0) {
    ours = Descriptor();
    Run(theirs.get(), identity_file);
    ::_exit(0);
  }
  socket_ = std::move(ours);
  theirs = Descriptor();
  Answer started{};
  ATOLL_CHECK(ReceiveMessage(socket_.get(), started), "the server's process starts");
  plain_port_ = started.plain_port;
  sealed_port_ = started.sealed_port;
}

TransportServer::~TransportServer() {
  socket_ = Descriptor();
  ::waitpid(process_, nullptr, 0);
}

TransportServer::Answer TransportServer::Call(const Question& question) const {
  SendMessage(socket_.get(), question);
  Answer answer{};
  ATOLL_CHECK(ReceiveMessage(socket_.get(), answer), "the server's process lives");
  return answer;
}

void TransportServer::Serve(uint64_t bytes) { Call({Ask::kServe, bytes}); }

double TransportServer::CpuSeconds() const { return Call({Ask::kCpuTime, 0}).cpu_seconds; }

void TransportServer::Renew() { Call({Ask::kRenew, 0}); }

Allocations TransportServer::CountBothEnds(const std::function<void()>& run) {
  Call({Ask::kCount, 0});
  Allocations all = CountAllocations(run);
  const Allocations theirs = Call({Ask::kCounted, 0}).counted;
  all.own_calls += theirs.own_calls;
  all.own_bytes += theirs.own_bytes;
  all.library_calls += theirs.library_calls;
  all.library_bytes += theirs.library_bytes;
  return all;
}

}  // namespace atl::bench
