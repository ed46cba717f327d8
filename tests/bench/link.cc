// SPDX-License-Identifier: Apache-2.0
// bench_link [ROUNDS [BYTES]]: the throughput of the link emulator, as JSON for scripts/bench.
// Plain TCP goes through a link of each rate, in one direction and in both at once. BYTES cross the
// link of 1 Gbit/s, and proportionally fewer cross slower links, so that all runs take equally
// long. bench_link relay BITS_PER_SECOND DELAY_SECONDS PORT...: relays between real processes until
// it is killed. The first output line is {"ports": [...]}, one for each loopback PORT.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "tests/bench/bench.h"
#include "tests/bench/link_shaper.h"
#include "tests/bench/sockets.h"

namespace atl::bench {
namespace {

constexpr double kRates[] = {10e6, 50e6, 200e6, 1000e6};  // bits per second
constexpr double kYardRate = 1000e6;                      // the link that carries all the given bytes
constexpr double kLeastBytes = 4096;

// A connection through its own link; the link's relay runs in a thread.
class ShapedPair {
 public:
  explicit ShapedPair(double bits_per_second) : ShapedPair(bits_per_second, Listening()) {}
  ~ShapedPair() { shaper_.Stop(); }

  void SendUp(size_t bytes) { Carry(client_.fd(), server_.fd(), bytes); }
  void SendDown(size_t bytes) { Carry(server_.fd(), client_.fd(), bytes); }

 private:
  struct Listener {
    Socket socket;
    uint16_t port = 0;
  };
  static Listener Listening() {
    Listener out{Socket(socket(AF_INET, SOCK_STREAM, 0))};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    ATOLL_CHECK(bind(out.socket.fd(), generic, size) == 0 && listen(out.socket.fd(), 1) == 0 &&
                    getsockname(out.socket.fd(), generic, &size) == 0,
                "a port on loopback could not be had");
    out.port = ntohs(address.sin_port);
    return out;
  }

  ShapedPair(double bits_per_second, const Listener& listener)
      : shaper_({.bits_per_second = bits_per_second}, {listener.port}),
        relay_([this] { shaper_.Run(); }),
        client_(ConnectTo(shaper_.ports().front())),
        server_(accept(listener.socket.fd(), nullptr, nullptr)) {}

  static void Carry(int from, int to, size_t bytes) {
    const std::vector<std::byte> sent(bytes, std::byte{1});
    std::vector<std::byte> received(bytes);
    InParallel(2, [&](unsigned part) { part == 0 ? SendAll(from, sent) : ReceiveAll(to, received); });
    ATOLL_CHECK(received == sent, "a link changed what it carried");
  }

  LinkShaper shaper_;
  std::jthread relay_;  // ends with Stop, so before the shaper
  const Socket client_, server_;
};

Group Measure(double rate, size_t rounds, double yard_bytes) {
  const auto pair = std::make_shared<ShapedPair>(rate);
  const auto bytes = static_cast<size_t>(std::max(kLeastBytes, yard_bytes * rate / kYardRate));
  const auto size = static_cast<double>(bytes);
  const auto both = [pair, bytes] {
    InParallel(2, [&](unsigned part) { part == 0 ? pair->SendUp(bytes) : pair->SendDown(bytes); });
  };
  Group group = Interleave(absl::StrCat("link of ", rate / 1e6, " Mbit/s"), 1,
                           {{"up", size, [pair, bytes] { pair->SendUp(bytes); }, {}},
                            {"down", size, [pair, bytes] { pair->SendDown(bytes); }, {}},
                            {"both ways, each", size, both, {}}},
                           rounds);
  return group;
}

int RelayForOthers(int argc, char** argv) {
  double bits_per_second = 0, delay_seconds = 0;
  std::vector<uint16_t> targets;
  bool good = argc > 4 && absl::SimpleAtod(argv[2], &bits_per_second) && absl::SimpleAtod(argv[3], &delay_seconds) &&
              bits_per_second > 0 && delay_seconds >= 0;
  for (int i = 4; i < argc; ++i) {
    uint32_t port = 0;
    good = good && absl::SimpleAtoi(argv[i], &port) && port > 0 && port <= UINT16_MAX;
    targets.push_back(static_cast<uint16_t>(port));
  }
  if (!good) {
    std::fputs("bench_link: relay takes BITS_PER_SECOND DELAY_SECONDS PORT..., the rate above 0\n", stderr);
    return 2;
  }
  LinkShaper shaper({bits_per_second, Nanoseconds(std::llround(delay_seconds * 1e9))}, targets);
  std::printf("{\"ports\": [%s]}\n", absl::StrJoin(shaper.ports(), ", ").c_str());
  std::fflush(stdout);
  shaper.Run();
  return 0;
}

int MeasureAll(int argc, char** argv) {
  uint64_t rounds = 3, yard_bytes = 64 << 20;
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &rounds)) || (argc > 2 && !absl::SimpleAtoi(argv[2], &yard_bytes)))
    return 2;
  std::vector<Group> groups;
  for (const double rate : kRates)
    groups.push_back(Measure(rate, std::max<uint64_t>(1, rounds), static_cast<double>(yard_bytes)));
  PrintJson(groups);
  return 0;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  atl::bench::TuneMalloc();
  if (argc > 1 && std::string(argv[1]) == "relay") return atl::bench::RelayForOthers(argc, argv);
  return atl::bench::MeasureAll(argc, argv);
}
