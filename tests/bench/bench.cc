// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/time.h"
#include "common/vecmath/vecmath.h"

namespace atl::bench {
namespace {

// CPU time of all processes from /proc/stat: user, nice, system, irq, softirq, steal; without idle
// and iowait.
double BusyCpuSeconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  double ticks = 0;
  for (int field = 0; field < 8; ++field) {
    double value = 0;
    file >> value;
    if (field != 3 && field != 4) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

nlohmann::json Machine() {
  double load = 0;
  getloadavg(&load, 1);
  return {{"cpu", CpuModel()},
          {"cores", std::thread::hardware_concurrency()},
          {"last_level_cache_bytes", sysconf(_SC_LEVEL3_CACHE_SIZE)},
          {"instruction_set", vecmath::InstructionSet()},
          {"load_average", load}};
}

std::function<double()> other_cpu_seconds;

}  // namespace

void CountAlso(std::function<double()> cpu_seconds) { other_cpu_seconds = std::move(cpu_seconds); }

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime) + (other_cpu_seconds ? other_cpu_seconds() : 0);
}

Group Interleave(std::string name, unsigned threads, std::vector<Variant> variants, size_t rounds) {
  const SystemClock clock;
  Group group{.name = std::move(name), .threads = threads, .foreign_cores = 0, .samples = {}};
  for (const Variant& variant : variants)
    group.samples.emplace_back(Samples{.name = variant.name, .bytes = variant.bytes, .seconds = {}, .cpu_seconds = {}});
  const double own = OwnCpuSeconds(), busy = BusyCpuSeconds();
  const Instant begin = clock.Now();
  for (size_t round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < variants.size(); ++i) {
      if (variants[i].prepare) variants[i].prepare();
      const double cpu = OwnCpuSeconds();
      const Instant start = clock.Now();
      variants[i].run();
      const double wall = ToSeconds(clock.Now() - start);
      if (round == 0) continue;
      group.samples[i].seconds.push_back(wall);
      group.samples[i].cpu_seconds.push_back(OwnCpuSeconds() - cpu);
    }
  }
  const double wall = ToSeconds(clock.Now() - begin);
  group.foreign_cores = std::max(0.0, (BusyCpuSeconds() - busy - (OwnCpuSeconds() - own)) / wall);
  std::cerr << group.name << ", " << threads << (threads == 1 ? " thread" : " threads") << ": " << wall << " s\n";
  return group;
}

void InParallel(unsigned parts, const std::function<void(unsigned)>& work) {
  std::vector<std::jthread> helpers;
  for (unsigned part = 1; part < parts; ++part) helpers.emplace_back([&work, part] { work(part); });
  work(0);
}

Part PartOf(size_t elements, unsigned part, unsigned parts) {
  constexpr size_t kBlock = 4096;
  const size_t blocks = (elements + kBlock - 1) / kBlock;
  return {std::min(elements, blocks * part / parts * kBlock), std::min(elements, blocks * (part + 1) / parts * kBlock)};
}

void TuneMalloc() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  mallopt(M_ARENA_MAX, 1);
}

int Main(int argc, char** argv, const std::function<std::vector<Group>(size_t rounds, size_t elements)>& run) {
  uint64_t rounds = 9, elements = 16 << 20;
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &rounds)) || (argc > 2 && !absl::SimpleAtoi(argv[2], &elements)))
    return 2;
  TuneMalloc();
  PrintJson(run(std::max<uint64_t>(1, rounds), std::max<uint64_t>(4096, elements)));
  return 0;
}

void PrintJson(const std::vector<Group>& groups) {
  nlohmann::json all = nlohmann::json::array();
  for (const Group& group : groups) {
    nlohmann::json samples = nlohmann::json::array();
    for (const Samples& s : group.samples) {
      nlohmann::json& told = samples.emplace_back(
          nlohmann::json{{"name", s.name}, {"bytes", s.bytes}, {"seconds", s.seconds}, {"cpu_seconds", s.cpu_seconds}});
      if (s.own_allocations < 0) continue;
      told["own_allocations"] = s.own_allocations;
      told["own_allocated_bytes"] = s.own_allocated_bytes;
      told["library_allocations"] = s.library_allocations;
    }
    all.push_back({{"name", group.name},
                   {"threads", group.threads},
                   {"foreign_cores", group.foreign_cores},
                   {"samples", std::move(samples)}});
  }
  std::cout << nlohmann::json({{"machine", Machine()}, {"groups", std::move(all)}}).dump() << std::endl;
}

}  // namespace atl::bench
