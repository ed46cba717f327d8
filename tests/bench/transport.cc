// SPDX-License-Identifier: Apache-2.0
// bench_transport [ROUNDS [KIBIBYTES...]]: 1, 2 and 4 workers, each on its own connection, upload
// and download fragments of the given size over loopback, as JSON for scripts/bench. common/rpc's
// client, service, acceptor and credentials carry them in plaintext and over mutual TLS. Plain
// sockets and OpenSSL over plain sockets take turns with them, with equal numbers of connections.
//
// bench_transport ROUNDS --only KIND up|down KIBIBYTES CONNECTIONS runs one kind of transport (tcp,
// tls, plaintext, mtls) in one direction.
//
// A fragment has arrived when all its bytes are in the receiver's memory and match the announced
// digest. The worker's DownloadBuffer does the same, and so does the coordinator's round log apart
// from its file. The reference transports fill memory of the same size and check nothing.
//
// After the timed runs each direction over gRPC runs once more to count the heap allocations of
// both ends, including the beginning and the end of the transfer.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/wall_time.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_log.h"
#include "common/trust/access.h"
#include "common/trust/secret_files.h"
#include "tests/bench/allocations.h"
#include "tests/bench/bench.h"
#include "tests/bench/raw_tls.h"
#include "tests/bench/sockets.h"
#include "worker/link/download_buffer.h"

namespace atl::bench {
namespace {

using Content = std::vector<std::byte>;

constexpr absl::string_view kKinds[] = {"tcp", "tls", "plaintext", "mtls"};
constexpr size_t kConnections[] = {1, 2, 4};
constexpr size_t kMostConnections = 4;

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

// Identities of one authority in a directory that is deleted with its owner.
class Identities {
 public:
  Identities() {
    std::string name = std::filesystem::temp_directory_path() / "bench_transportXXXXXX";
    ATOLL_CHECK(mkdtemp(name.data()) != nullptr, "no folder for certificates could be made");
    folder_ = name;
    const int64_t now_s = WallSeconds(SystemClock());
    const auto authority = Authority::Create(now_s);
    Require(authority.status());
    Write(*authority, "coordinator", {Role::kCoordinator, "coordinator", ""}, now_s);
    for (size_t i = 0; i < kMostConnections; ++i)
      Write(*authority, WorkerName(i), {Role::kWorker, WorkerName(i), ""}, now_s);
  }
  ~Identities() { std::filesystem::remove_all(folder_); }
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;
  std::string Of(const std::string& name) const { return absl::StrCat(folder_, "/", name, ".pem"); }
  TlsFiles Files() const { return {Of(WorkerName(0)), Of("coordinator")}; }

 private:
  void Write(const Authority& authority, const std::string& name, const Identity& identity, int64_t now_s) {
    const auto issued = IssueIdentity(authority, identity, now_s);
    Require(issued.status());
    Require(WriteIdentityFile(Of(name), *issued));
  }
  std::string folder_;
};

// The coordinator's end: one fragment that all workers may fetch, and space for one contribution of
// each worker.
class Yard final : public BulkHandler {
 public:
  explicit Yard(Executor& io) : io_(io) {}
  // Not while a transfer is in progress.
  void Serve(std::shared_ptr<const Content> fragment, Digest digest) {
    fragment_ = std::move(fragment);
    digest_ = digest;
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

// A production server with its clients.
class Island {
 public:
  Island(Yard& yard, Executor& io, const ServerSecurity& security) : service_(MakeBulkService(yard, io, clock_, {})) {
    auto server = Server::Start({}, security, {service_.get()});
    Require(server.status());
    server_ = *std::move(server);
  }
  void AddWorker(const ChannelSecurity& security) {
    auto channel = MakeBulkChannel({.address = absl::StrCat("127.0.0.1:", server_->port())}, security);
    Require(channel.status());
    clients_.push_back(MakeGrpcBulkClient(*std::move(channel), clock_, {}));
  }
  int port() const { return server_->port(); }

  void Upload(size_t connections, const std::shared_ptr<const Content>& fragment, Digest digest) {
    Move(connections, [&](size_t i, BulkDone done) {
      ContributionHeader header;
      header.job = {"bench"};
      header.worker = {WorkerName(i)};
      header.incarnation = {1};
      header.digest = digest;
      header.encoded_bytes = fragment->size();
      return clients_[i]->Upload(ContributionUpload{header, {1}}, MakeMemorySource(fragment), std::move(done));
    });
  }
  void Download(size_t connections, uint64_t bytes) {
    std::vector<std::shared_ptr<DownloadBuffer>> buffers(connections);
    Move(connections, [&](size_t i, BulkDone done) {
      buffers[i] = std::make_shared<DownloadBuffer>(bytes, shelf_);
      DownloadRequest request{.key = UpdateKey{{"bench"}, {{0}, {1}}}, .worker = {WorkerName(i)}};
      return clients_[i]->Download(std::move(request), buffers[i], [&, i, done = std::move(done)](BulkResult result) {
        if (result.status.ok() && !(buffers[i]->complete() && buffers[i]->intact()))
          result.status = absl::DataLossError("a fragment has another digest");
        done(std::move(result));
      });
    });
    for (const auto& buffer : buffers) buffer->Take();  // releases the memory, as a worker does with an update
  }

 private:
  template <typename Begin>
  void Move(size_t connections, const Begin& begin) {
    std::latch arrived(static_cast<std::ptrdiff_t>(connections));
    std::vector<std::unique_ptr<BulkCall>> calls;
    for (size_t i = 0; i < connections; ++i) {
      calls.push_back(begin(i, [&arrived](const BulkResult& result) {
        Require(result.status);
        arrived.count_down();
      }));
    }
    arrived.wait();
  }

  const SystemClock clock_;
  const std::shared_ptr<BufferShelf> shelf_ = std::make_shared<BufferShelf>(4);
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<BulkClient>> clients_;
};

// One thread for each end of each connection.
template <typename Pair, typename Move>
void MoveRaw(const std::vector<Pair>& pairs, size_t connections, const Move& move) {
  InParallel(static_cast<unsigned>(2 * connections),
             [&](unsigned part) { move(pairs[part / 2], part / 2, part % 2 == 0); });
}

// All compared transports.
class Comparison {
 public:
  Comparison() : plain_(yard_, io_, ServerSecurity::PlaintextLoopback()), sealed_(yard_, io_, ServerSide()) {
    for (size_t i = 0; i < kMostConnections; ++i) {
      const auto security = MutualTlsChannel(identities_.Of(WorkerName(i)), WallSeconds(SystemClock()));
      Require(security.status());
      sealed_.AddWorker(*security);
      plain_.AddWorker(ChannelSecurity::PlaintextLoopback());
      sockets_.push_back(Connect());
      tls_.emplace_back(identities_.Files());
    }
    suite_ = NegotiatedWith(sealed_.port(), identities_.Files());
    ATOLL_CHECK(tls_[0].negotiated() == suite_, "the yardstick of TLS negotiates another suite than the server");
  }

  void Measure(size_t bytes, size_t rounds, std::vector<Group>& groups) {
    const Digest digest = Lay(bytes);
    const auto renew = [this] { yard_.Renew(); };
    for (const bool up : {true, false}) {
      for (const size_t n : kConnections) {
        const auto by = [&, up, n](Island& island) { return Over(island, digest, up, n); };
        const double all = static_cast<double>(n * bytes);
        Group& group = groups.emplace_back(
            Interleave(absl::StrCat(up ? "upload" : "download", ", ", bytes >> 20, " MiB"), static_cast<unsigned>(n),
                       {{"raw TCP", all, [this, up, n] { MoveSockets(up, n); }, {}},
                        {"gRPC, plaintext", all, by(plain_), renew},
                        {absl::StrCat("raw ", suite_), all, [this, up, n] { MoveTls(up, n); }, {}},
                        {"gRPC, mutual TLS", all, by(sealed_), renew}},
                       rounds));
        AddAllocations(by(plain_), group.samples[1]);
        AddAllocations(by(sealed_), group.samples[3]);
      }
    }
  }

  // Runs one kind of transport in one direction `rounds` times, for profiling.
  Group Repeat(absl::string_view kind, bool up, size_t bytes, size_t connections, size_t rounds) {
    const Digest digest = Lay(bytes);
    const std::map<absl::string_view, std::function<void()>> kinds{{"tcp", [=, this] { MoveSockets(up, connections); }},
                                                                   {"tls", [=, this] { MoveTls(up, connections); }},
                                                                   {"plaintext", Over(plain_, digest, up, connections)},
                                                                   {"mtls", Over(sealed_, digest, up, connections)}};
    const double all = static_cast<double>(connections * bytes);
    return Interleave(std::string(kind), static_cast<unsigned>(connections),
                      {{std::string(kind), all, kinds.at(kind), [this] { yard_.Renew(); }}}, rounds);
  }

 private:
  // Makes a new fragment of `bytes` bytes, used by all transports from now on.
  Digest Lay(size_t bytes) {
    fragment_ = RandomBytes(bytes);
    const Digest digest = DigestOf(*fragment_);
    yard_.Serve(fragment_, digest);
    rooms_.assign(kMostConnections, Content(bytes));
    return digest;
  }
  std::function<void()> Over(Island& island, Digest digest, bool up, size_t connections) {
    return [this, &island, digest, up, connections] {
      up ? island.Upload(connections, fragment_, digest) : island.Download(connections, fragment_->size());
    };
  }
  void AddAllocations(const std::function<void()>& run, Samples& sample) {
    yard_.Renew();
    const Allocations counted = CountAllocations(run);
    const double mebibytes = sample.bytes / (1 << 20);
    sample.own_allocations = static_cast<double>(counted.own_calls) / mebibytes;
    sample.own_allocated_bytes = static_cast<double>(counted.own_bytes) / mebibytes;
    sample.library_allocations = static_cast<double>(counted.library_calls) / mebibytes;
  }
  ServerSecurity ServerSide() {
    static const SystemClock clock;
    auto security = MutualTls(
        identities_.Of("coordinator"), clock,
        [](const std::string& method, const CertificateFacts& who) { return CheckAccess(method, who.identity); });
    Require(security.status());
    return *std::move(security);
  }
  void MoveSockets(bool up, size_t connections) {
    MoveRaw(sockets_, connections, [&](const SocketPair& pair, size_t i, bool client) {
      const int fd = client ? pair.client.fd() : pair.server.fd();
      client == up ? SendAll(fd, *fragment_) : ReceiveAll(fd, rooms_[i]);
    });
  }
  void MoveTls(bool up, size_t connections) {
    MoveRaw(tls_, connections, [&](const TlsPair& pair, size_t i, bool client) {
      SSL* ssl = client ? pair.client() : pair.server();
      client == up ? SendAll(ssl, *fragment_) : ReceiveAll(ssl, rooms_[i]);
    });
  }

  const Identities identities_;
  ThreadExecutor io_{1};  // as many as the coordinator has
  Yard yard_{io_};
  Island plain_, sealed_;
  std::vector<SocketPair> sockets_;
  std::vector<TlsPair> tls_;
  std::string suite_;
  std::shared_ptr<const Content> fragment_;
  std::vector<Content> rooms_;
};

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  uint64_t rounds = 11;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &rounds)) return 2;
  atl::SilenceTransportLog();
  atl::bench::TuneMalloc();
  if (argc > 2 && absl::string_view(argv[2]) == "--only") {
    uint64_t size = 0, connections = 0;
    const absl::string_view way = argc == 7 ? argv[4] : "";
    if ((way != "up" && way != "down") || !absl::c_linear_search(atl::bench::kKinds, argv[3]) ||
        !absl::SimpleAtoi(argv[5], &size) || !absl::SimpleAtoi(argv[6], &connections) ||
        connections > atl::bench::kMostConnections) {
      std::fputs(
          "usage: bench_transport ROUNDS --only tcp|tls|plaintext|mtls up|down KIBIBYTES CONNECTIONS (up to 4)\n",
          stderr);
      return 2;
    }
    const bool up = way == "up";
    atl::bench::PrintJson(
        {atl::bench::Comparison().Repeat(argv[3], up, std::max<uint64_t>(1, size) << 10,
                                         std::max<uint64_t>(1, connections), std::max<uint64_t>(1, rounds))});
    return 0;
  }
  std::vector<uint64_t> kibibytes;
  for (int i = 2; i < argc; ++i) {
    if (!absl::SimpleAtoi(argv[i], &kibibytes.emplace_back())) return 2;
  }
  if (kibibytes.empty()) kibibytes = {32 << 10, 100 << 10};
  std::vector<atl::bench::Group> groups;
  {
    atl::bench::Comparison comparison;
    for (const uint64_t size : kibibytes)
      comparison.Measure(std::max<uint64_t>(1, size) << 10, std::max<uint64_t>(1, rounds), groups);
  }
  atl::bench::PrintJson(groups);
  return 0;
}
