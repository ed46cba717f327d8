// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

constexpr int64_t kOneSecond = Seconds(1).ns;
constexpr Duration kLongest = Seconds(86'400);
constexpr uint64_t kFastest = 10'000'000'000;        // bytes per second; higher claims are cut to it
constexpr uint64_t kMostBytes = 10'000'000'000'000;  // so that products fit 64 bits

// At most a day; 0 for an unknown rate.
Duration TimeOf(uint64_t bytes, uint64_t rate) {
  if (rate == 0) return {};
  rate = std::min(rate, kFastest);
  if (bytes / rate >= static_cast<uint64_t>(kLongest.ns / kOneSecond)) return kLongest;
  const uint64_t part = bytes % rate * 1'000'000'000 / rate;
  return Seconds(static_cast<int64_t>(bytes / rate)) + Duration{static_cast<int64_t>(part)};
}

// The lowest rate at which `bytes` fit into the period; rounded up.
uint64_t RateFor(uint64_t bytes, Duration period) {
  const auto micros = static_cast<uint64_t>(std::max<int64_t>(1, period.ns / 1000));
  return (std::min(bytes, kMostBytes) * 1'000'000 + micros - 1) / micros;
}

std::string PeriodText(Duration period) {
  return period < Seconds(10) ? absl::StrCat(period.ns / 1'000'000, " ms") : SecondsOf(period);
}

std::string MeasuredText(uint64_t rate) { return rate == 0 ? "an unmeasured rate" : RateText(rate); }

}  // namespace

std::string BytesText(uint64_t bytes) {
  return bytes >= 1'000'000 ? absl::StrCat(bytes / 1'000'000, " MB") : absl::StrCat((bytes + 999) / 1000, " kB");
}

std::string RateText(uint64_t rate) {
  if (rate < 1'000'000) return absl::StrCat(rate / 1000, ".", rate % 1000 / 100, " kB/s");
  return absl::StrCat(rate / 1'000'000, ".", rate % 1'000'000 / 100'000, " MB/s");
}

Duration TransferTime(const PeriodTraffic& traffic, const LinkRates& rates) {
  const Duration up = TimeOf(traffic.upload_bytes, rates.upload_bytes_per_second);
  const Duration down = TimeOf(traffic.download_bytes, rates.download_bytes_per_second);
  const Duration one = TimeOf(traffic.largest_upload_bytes, rates.upload_bytes_per_second) +
                       TimeOf(traffic.largest_download_bytes, rates.download_bytes_per_second);
  return std::max({up, down, one});
}

LinkVerdict JudgeLink(const WorkerId& worker, const PeriodTraffic& traffic, Duration period, const LinkRates& measured,
                      bool admitted) {
  LinkVerdict verdict;
  if (period.ns <= 0) return verdict;
  const uint64_t one = traffic.largest_upload_bytes + traffic.largest_download_bytes;
  verdict.needed = {RateFor(std::max(traffic.upload_bytes, one), period),
                    RateFor(std::max(traffic.download_bytes, one), period)};
  const Duration limit = admitted ? period + period / 4 : period;
  verdict.admitted = TransferTime(traffic, measured) <= limit;
  if (verdict.admitted) return verdict;
  verdict.reason =
      absl::StrCat("the link of worker ", worker.value, " carries ", MeasuredText(measured.upload_bytes_per_second),
                   " up and ", MeasuredText(measured.download_bytes_per_second), " down, and ",
                   MeasuredText(verdict.needed.upload_bytes_per_second), " up and ",
                   MeasuredText(verdict.needed.download_bytes_per_second), " down are needed to move ",
                   BytesText(traffic.upload_bytes), " up and ", BytesText(traffic.download_bytes),
                   " down in its period of ", PeriodText(period));
  return verdict;
}

// ---- the verdicts in the fleet
// ------------------------------------------------------------------------------------

// Called at each heartbeat of the worker. A worker without rates keeps its verdict.
void Machine::JudgeLinkOf(const Run& run, Member& member) {
  const bool counts = member.Trains(run.id()) && member.stage() == Stage::kTraining;
  const LinkRates rates{member.heartbeat().upload_bytes_per_second, member.heartbeat().download_bytes_per_second};
  const bool measured = rates.upload_bytes_per_second > 0 || rates.download_bytes_per_second > 0;
  if (!counts || !measured || member.heartbeat().step_ns <= 0) return;
  const LinkVerdict verdict =
      JudgeLink(member.record().worker, run.traffic, PeriodOf(run, member), rates, member.link_too_slow().empty());
  member.JudgeLink(verdict.reason);
}

// The workers with fast links must suffice for workers.min, and for a quorum that the job sets.
// Otherwise all workers are admitted, and the run is as slow as its links.
void Machine::AdmitWorkers(Run& run) {
  uint32_t fast = 0;
  for (const auto& [id, member] : core_.fleet.Of(run.id())) {
    const bool there =
        member.Trains(run.id()) && !member.lost() && !member.draining() && member.stage() == Stage::kTraining;
    fast += there && member.link_too_slow().empty() ? 1 : 0;
  }
  const bool suffice = fast >= run.LeastExpected();
  for (auto& [id, member] : core_.fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost()) continue;
    const bool excluded = suffice && !member.link_too_slow().empty();
    if (excluded == member.not_waited_for()) continue;
    member.Exclude(excluded);
    const std::string why =
        excluded ? absl::StrCat(member.link_too_slow(), "; no round waits for it until it carries that")
        : member.link_too_slow().empty() ? absl::StrCat("the link of worker ", id.value, " carries what the job needs")
                                         : absl::StrCat("too few workers have a faster link than worker ", id.value);
    core_.SendTo(member, LinkJudged{run.id(), !excluded, why});
    core_.Note(run.id(), excluded ? "worker not admitted" : "worker admitted", why, {{"worker", id.value}});
  }
}

}  // namespace atl
