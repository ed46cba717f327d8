// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/fetching.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/slow_step.h"
#include "coordinator/core/admission.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

constexpr Duration kPreparation = Seconds(120);  // manifests, memory, a model on its device
constexpr uint64_t kParameterBytes = 4;
constexpr Duration kRest = Seconds(60);    // during it, others may take the place
constexpr uint64_t kSlowLink = 1'250'000;  // bytes per second: 10 Mbit/s

}  // namespace

FetchTime FetchTimeOf(const JobSpec& spec, uint64_t measured_rate) {
  const uint64_t bytes = RoughParameters(spec.model) * kParameterBytes;
  const uint64_t rate = measured_rate > 0 ? measured_rate : kSlowLink;
  PeriodTraffic traffic;
  traffic.download_bytes = bytes;
  const Duration transfer = TransferTime(traffic, {.download_bytes_per_second = rate});
  return {kPreparation + transfer * 2,
          absl::StrCat(BytesText(bytes), " at ", RateText(rate), measured_rate > 0 ? ", as measured" : ", as assumed")};
}

Duration FetchDeadline(Duration allowed, uint32_t passed) {
  return allowed * ((int64_t{2} << std::min(passed, kFetchDeadlines)) - 1);
}

// Reports a worker that does not finish its fetch, then takes it off the job, so that another
// worker can have its place and no round waits for it forever.
void Machine::AdvanceFetches(Run& run) {
  for (auto& [id, member] : core_.fleet.Of(run.id())) {
    if (member.lost() || member.stage() != Stage::kFetching) continue;
    if (!run.loaded) member.HoldFetch(core_.now);  // the parameters are not available yet
    if (core_.now < FetchDeadlineOf(run, member)) continue;
    const FetchTime time = FetchTimeOf(*run.spec, member.heartbeat().download_bytes_per_second);
    const std::string since = absl::StrCat("in ", SecondsOf(core_.now - member.fetch_since()), " (", time.reason, ")");
    const std::string& waits = member.heartbeat().waiting_for;
    const std::string what = waits.empty() ? "" : absl::StrCat("; it waits for ", waits);
    if (member.ReportFetch() < kFetchDeadlines) {
      core_.Note(run.id(), "fetch overdue",
                 absl::StrCat("worker ", id.value, " has not fetched job ", run.id().value, " ", since, what,
                              "; next report in ", SecondsOf(FetchDeadlineOf(run, member) - core_.now)),
                 {{"worker", id.value}});
      continue;
    }
    const std::string why = absl::StrCat("it has not fetched the job ", since, what);
    run.failures[id] = {why};
    core_.Note(run.id(), "left out",
               absl::StrCat("worker ", id.value, " is taken off job ", run.id().value, ": ", why,
                            "; where nobody else has its place it is given the job again in ", SecondsOf(kRest)),
               {{"worker", id.value}});
    member.Rest(run.id(), core_.now + kRest);
    Detach(member, why);
  }
}

}  // namespace atl
