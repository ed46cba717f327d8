// SPDX-License-Identifier: Apache-2.0
// bench_transport [ROUNDS [KIBIBYTES...]]: 1, 2 and 4 workers, each on its own connection, upload
// and download fragments of the given size over loopback, as JSON for scripts/bench. common/rpc's
// client, service, acceptor and credentials carry them in plaintext and over mutual TLS. Plain
// sockets and OpenSSL over plain sockets take turns with them, with equal numbers of connections.
// The coordinator's end of the gRPC transports is another process, as it always is.
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
#include "common/base/wall_time.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_log.h"
#include "common/trust/secret_files.h"
#include "tests/bench/allocations.h"
#include "tests/bench/bench.h"
#include "tests/bench/raw_tls.h"
#include "tests/bench/sockets.h"
#include "tests/bench/transport_server.h"
#include "worker/link/download_buffer.h"

namespace atl::bench {
namespace {

constexpr absl::string_view kKinds[] = {"tcp", "tls", "plaintext", "mtls"};
constexpr size_t kConnections[] = {1, 2, 4};

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

// Workers of one server.
class Island {
 public:
  explicit Island(int port) : address_(absl::StrCat("127.0.0.1:", port)) {}
  void AddWorker(const ChannelSecurity& security) {
    auto channel = MakeBulkChannel({.address = address_}, security);
    Require(channel.status());
    clients_.push_back(MakeGrpcBulkClient(*std::move(channel), clock_, {}));
  }

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

  const std::string address_;
  const SystemClock clock_;
  const std::shared_ptr<BufferShelf> shelf_ = std::make_shared<BufferShelf>(4);
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
  Comparison() {
    CountAlso([this] { return server_.CpuSeconds(); });
    suite_ = NegotiatedWith(server_.sealed_port(), identities_.Files());
    for (size_t i = 0; i < kMostConnections; ++i) {
      const auto security = MutualTlsChannel(identities_.Of(WorkerName(i)), WallSeconds(SystemClock()));
      Require(security.status());
      sealed_.AddWorker(*security);
      plain_.AddWorker(ChannelSecurity::PlaintextLoopback());
      sockets_.push_back(Connect());
      tls_.emplace_back(identities_.Files(), suite_);
    }
  }

  ~Comparison() { CountAlso({}); }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void Measure(size_t bytes, size_t rounds, std::vector<Group>& groups) {
    const Digest digest = Lay(bytes);
    const auto renew = [this] { server_.Renew(); };
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
                      {{std::string(kind), all, kinds.at(kind), [this] { server_.Renew(); }}}, rounds);
  }

 private:
  // Makes a new fragment of `bytes` bytes, used by all transports from now on.
  Digest Lay(size_t bytes) {
    fragment_ = RandomBytes(bytes);
    server_.Serve(bytes);
    rooms_.assign(kMostConnections, Content(bytes));
    return DigestOf(*fragment_);
  }
  std::function<void()> Over(Island& island, Digest digest, bool up, size_t connections) {
    return [this, &island, digest, up, connections] {
      up ? island.Upload(connections, fragment_, digest) : island.Download(connections, fragment_->size());
    };
  }
  void AddAllocations(const std::function<void()>& run, Samples& sample) {
    server_.Renew();
    const Allocations counted = server_.CountBothEnds(run);
    const double mebibytes = sample.bytes / (1 << 20);
    sample.own_allocations = static_cast<double>(counted.own_calls) / mebibytes;
    sample.own_allocated_bytes = static_cast<double>(counted.own_bytes) / mebibytes;
    sample.library_allocations = static_cast<double>(counted.library_calls) / mebibytes;
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
  TransportServer server_{identities_.Of("coordinator")};  // before this process has threads
  Island plain_{server_.plain_port()}, sealed_{server_.sealed_port()};
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
