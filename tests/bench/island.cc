// SPDX-License-Identifier: Apache-2.0
// bench_island [ROUNDS [ELEMENTS]]: an island's exchanges, compared with one TCP connection that
// carries the same bytes in both directions at once, as JSON for scripts/bench. Ranks are threads
// of this process; ELEMENTS floats are reduced.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/bench/bench.h"
#include "worker/island/socket.h"
#include "worker/island/tcp_island.h"

namespace atl::bench {
namespace {

const SystemClock kClock;

Deadline Soon() { return {kClock, kClock.Now() + Seconds(600)}; }

// Two ends of a connection, and a buffer of equal size for each direction.
class Duplex {
 public:
  explicit Duplex(size_t bytes) : out_(bytes), in_{std::vector<std::byte>(bytes), std::vector<std::byte>(bytes)} {
    const auto listener = ListenAt("127.0.0.1", 0);
    ATOLL_CHECK(listener.ok(), "a port on loopback could not be had");
    auto client = ConnectTo("127.0.0.1", LocalPort(*listener), Soon());
    ATOLL_CHECK(client.ok(), "loopback refused a connection");
    ends_[0] = *std::move(client);
    while (!ends_[1].open()) ends_[1] = *AcceptFrom(*listener);
  }
  void Run() {
    InParallel(2, [this](unsigned end) { Exchange(ends_[end], in_[end]); });
  }

 private:
  // One thread serves both directions, as in an island's exchange.
  void Exchange(const Descriptor& socket, std::vector<std::byte>& in) {
    for (size_t sent = 0, got = 0; sent < out_.size() || got < in.size();) {
      size_t moved = 0;
      if (sent < out_.size()) moved += *SendSome(socket, Bytes(out_).subspan(sent));
      sent += moved;
      if (got < in.size()) {
        const size_t some = *ReceiveSome(socket, std::span(in).subspan(got));
        got += some;
        moved += some;
      }
      if (moved > 0) continue;
      pollfd one{socket.get(), static_cast<short>((got < in.size() ? POLLIN : 0) | (sent < out_.size() ? POLLOUT : 0)),
                 0};
      AwaitAny({&one, 1});
    }
  }

  const std::vector<std::byte> out_;
  std::vector<std::byte> in_[2];
  Descriptor ends_[2];
};

class Ranks {
 public:
  Ranks(uint32_t world, size_t elements) : values_(world, std::vector<float>(elements, 0.25F)) {
    const auto listener = ListenAt("127.0.0.1", 0);
    ATOLL_CHECK(listener.ok(), "a port on loopback could not be had");
    std::vector<std::future<absl::StatusOr<Mesh>>> meshes;
    for (uint32_t rank = 0; rank < world; ++rank) {
      IslandPlace place{rank, world, "127.0.0.1", LocalPort(*listener), "the secret of a benchmark", "bench"};
      meshes.push_back(std::async(std::launch::async, [place, &listener] {
        const StillWanted yes = [] { return absl::OkStatus(); };
        return place.rank == 0 ? MeetAsLeader(*listener, place, {}, kClock, yes)
                               : MeetAsFollower(place, {}, kClock, yes);
      }));
    }
    for (auto& mesh : meshes) {
      auto met = mesh.get();
      ATOLL_CHECK(met.ok(), "the ranks have not met");
      islands_.push_back(std::make_unique<TcpIsland>(*std::move(met), IslandLimits{}, kClock));
    }
  }
  // Reduces in exchanges of `bucket` elements.
  void Reduce(size_t bucket) {
    InParallel(static_cast<unsigned>(islands_.size()), [this, bucket](unsigned rank) {
      const std::span<float> all = values_[rank];
      for (size_t at = 0; at < all.size(); at += bucket) {
        const auto part = all.subspan(at, std::min(bucket, all.size() - at));
        ATOLL_CHECK(islands_[rank]->AllReduceMean(part, nullptr).ok(), "an exchange failed");
      }
    });
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<std::unique_ptr<TcpIsland>> islands_;
};

std::vector<Group> Run(size_t rounds, size_t elements) {
  const double each_way = static_cast<double>(elements * sizeof(float));
  Duplex duplex(elements * sizeof(float));
  std::vector<std::unique_ptr<Ranks>> islands;
  std::vector<Variant> variants = {{"raw TCP", 2 * each_way, [&duplex] { duplex.Run(); }, {}}};
  for (const uint32_t world : {2U, 3U, 4U}) {
    Ranks* ranks = islands.emplace_back(std::make_unique<Ranks>(world, elements)).get();
    // Every connection of the chain carries the values in both directions.
    const double bytes = 2 * each_way * (world - 1);
    const std::string name = std::to_string(world) + " ranks";
    variants.push_back({name, bytes, [ranks, elements] { ranks->Reduce(elements); }, {}});
    variants.push_back({name + ", buckets of 4 MiB", bytes, [ranks] { ranks->Reduce(size_t{1} << 20); }, {}});
  }
  return {Interleave("all-reduce", 2, std::move(variants), rounds)};
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) { return atl::bench::Main(argc, argv, atl::bench::Run); }
