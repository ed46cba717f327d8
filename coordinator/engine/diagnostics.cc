// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/diagnostics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace atl {
namespace {

double GainOf(const RoundMeasures& measures) {
  return measures.merged_norm > 0 ? measures.outer_step_norm / measures.merged_norm : 0;
}

void FillStaleness(const RoundRecord& record, RoundMeasures& measures) {
  measures.staleness_steps = 0;
  for (const CommittedContribution& contribution : record.contributions) {
    const ContributionHeader& header = contribution.header;
    const uint64_t stale = record.clock_step - std::min(record.clock_step, header.send_step);
    measures.staleness_steps = std::max(measures.staleness_steps, stale);
    for (ContributionMeasures& of_worker : measures.contributions) {
      if (of_worker.worker == header.worker) of_worker.staleness_steps = stale;
    }
  }
}

JobNote Warning(const RoundRecord& record, double mean) {
  return {
      record.job,
      kMomentumMisfit,
      absl::StrFormat("the pseudo-gradients of the newest %d rounds of fragment %d have a mean cosine of %.2f to the "
                      "outer momentum: with momentum %g and learning rate %g the outer copy overshoots the direction "
                      "of the workers; in the next job lower outer_optimizer.momentum or its learning_rate, or "
                      "sync.inner_steps",
                      kMisfitRounds, record.reached.fragment.value, mean, record.momentum, record.learning_rate),
      {{"fragment", absl::StrCat(record.reached.fragment.value)},
       {"version", absl::StrCat(record.reached.version.value)},
       {"mean_momentum_alignment", absl::StrFormat("%.4f", mean)},
       {"momentum", absl::StrCat(record.momentum)},
       {"learning_rate", absl::StrCat(record.learning_rate)}}};
}

}  // namespace

void Diagnostics::Heard(const WorkerId& worker, const Heartbeat& heartbeat) {
  JobId& job = job_of_[worker];
  if (job != heartbeat.job) {
    const auto left = participation_.find(job);
    if (left != participation_.end()) left->second.erase(worker);
    HideDirections(worker);
    job = heartbeat.job;
  }
}

void Diagnostics::Gone(const WorkerId& worker) {
  job_of_.erase(worker);
  HideDirections(worker);
  for (auto& [job, shares] : participation_) shares.erase(worker);
}

Diagnostics::Outcome Diagnostics::OnRound(const RoundRecord& record, RoundMeasures& measures) {
  FillStaleness(record, measures);
  for (ContributionMeasures& measured : measures.contributions) {
    for (const CommittedContribution& c : record.contributions) {
      if (c.header.worker == measured.worker && c.header.upload_error_nano)
        measured.upload_error = static_cast<double>(*c.header.upload_error_nano) * 1e-9;
    }
  }
  FollowParticipation(record);
  Outcome outcome;
  outcome.warnings = directions_.OnRound(record, measures);
  if (auto warning = FollowMomentum(record, measures)) outcome.warnings.push_back(*std::move(warning));
  SetMetrics(record, measures);
  ShowDirections(record);
  outcome.fields = FieldsOf(record.job, measures);
  return outcome;
}

void Diagnostics::FollowParticipation(const RoundRecord& record) {
  std::map<WorkerId, double>& shares = participation_[record.job];
  for (auto& [worker, share] : shares) share *= kParticipationFading;
  for (const CommittedContribution& contribution : record.contributions) {
    const WorkerId& worker = contribution.header.worker;
    if (!job_of_.contains(worker)) continue;
    const auto [it, first] = shares.try_emplace(worker, 1);
    if (!first) it->second += 1 - kParticipationFading;
  }
  for (const auto& [worker, share] : shares)
    metrics_.Set(Metric::kParticipation, share, {record.job.value, worker.value});
}

std::optional<JobNote> Diagnostics::FollowMomentum(const RoundRecord& record, RoundMeasures& measures) {
  Window& window = windows_[{record.job, record.reached.fragment}];
  if (window.epoch != record.epoch) window = {.epoch = record.epoch, .cosines = {}, .warned = false};
  if (!measures.momentum_alignment) return std::nullopt;
  window.cosines.push_back(*measures.momentum_alignment);
  if (window.cosines.size() > kMisfitRounds) window.cosines.pop_front();
  const double mean =
      std::accumulate(window.cosines.begin(), window.cosines.end(), 0.0) / static_cast<double>(window.cosines.size());
  measures.momentum_mean = mean;
  if (mean >= kFitCosine) window.warned = false;
  if (window.cosines.size() < kMisfitRounds || mean >= kMisfitCosine || window.warned) return std::nullopt;
  window.warned = true;
  return Warning(record, mean);
}

void Diagnostics::SetMetrics(const RoundRecord& record, const RoundMeasures& measures) {
  const std::string& job = record.job.value;
  const std::string fragment = absl::StrCat(record.reached.fragment.value);
  metrics_.Set(Metric::kRoundStaleness, static_cast<double>(measures.staleness_steps), {job, fragment});
  metrics_.Set(Metric::kDownloadError, measures.download_error, {job, fragment});
  metrics_.Set(Metric::kOuterStepGain, GainOf(measures), {job, fragment});
  if (measures.step_alignment) metrics_.Set(Metric::kOuterStepAlignment, *measures.step_alignment, {job, fragment});
  if (measures.momentum_alignment)
    metrics_.Set(Metric::kMomentumAlignment, *measures.momentum_alignment, {job, fragment});
  for (const ContributionMeasures& c : measures.contributions) {
    if (!job_of_.contains(c.worker)) continue;  // no series for a worker that left: nothing would remove it
    metrics_.Set(Metric::kContributionNorm, c.norm, {job, c.worker.value, fragment});
    metrics_.Set(Metric::kContributionCosine, c.cosine_to_merged, {job, c.worker.value, fragment});
  }
}

void Diagnostics::ShowDirections(const RoundRecord& record) {
  const FragmentIndex fragment = record.reached.fragment;
  const std::map<WorkerId, double> means = directions_.Means(record.job, fragment);
  const auto labels = [&record](const WorkerId& worker) {
    return Metrics::Labels{record.job.value, worker.value, absl::StrCat(record.reached.fragment.value)};
  };
  std::set<WorkerId>& shown = directions_shown_[{record.job, fragment}];
  std::erase_if(shown, [&](const WorkerId& worker) {
    const bool hide = !means.contains(worker);
    if (hide) metrics_.Forget(Metric::kOthersCosine, labels(worker));
    return hide;
  });
  for (const auto& [worker, mean] : means) {
    const auto at = job_of_.find(worker);
    if (at == job_of_.end() || at->second != record.job) continue;  // it left: nothing would remove its series
    metrics_.Set(Metric::kOthersCosine, mean, labels(worker));
    shown.insert(worker);
  }
}

void Diagnostics::HideDirections(const WorkerId& worker) {
  for (auto& [of, shown] : directions_shown_) {
    if (shown.erase(worker) == 0) continue;
    metrics_.Forget(Metric::kOthersCosine, {of.first.value, worker.value, absl::StrCat(of.second.value)});
  }
}

std::map<std::string, std::string> Diagnostics::FieldsOf(const JobId& job, const RoundMeasures& measures) const {
  std::vector<std::string> directions, shares;
  for (const ContributionMeasures& c : measures.contributions) {
    directions.push_back(absl::StrFormat("%s:norm=%.6g,cosine=%.4f,staleness_steps=%d", c.worker.value, c.norm,
                                         c.cosine_to_merged, c.staleness_steps));
    if (c.cosine_to_others)
      absl::StrAppend(&directions.back(), absl::StrFormat(",others_cosine=%.4f", *c.cosine_to_others));
    if (c.clip_factor < 1) absl::StrAppend(&directions.back(), absl::StrFormat(",clip=%.6g", c.clip_factor));
    if (c.upload_error) absl::StrAppend(&directions.back(), absl::StrFormat(",upload_error=%.6g", *c.upload_error));
  }
  for (const auto& [worker, share] : Participation(job))
    shares.push_back(absl::StrFormat("%s=%.3f", worker.value, share));
  std::map<std::string, std::string> fields = {{"directions", absl::StrJoin(directions, " ")},
                                               {"participation", absl::StrJoin(shares, " ")},
                                               {"download_error", absl::StrFormat("%.6g", measures.download_error)},
                                               {"outer_step_gain", absl::StrFormat("%.6g", GainOf(measures))},
                                               {"staleness_steps", absl::StrCat(measures.staleness_steps)}};
  if (measures.step_alignment) fields["step_alignment"] = absl::StrFormat("%.4f", *measures.step_alignment);
  if (measures.momentum_alignment) fields["momentum_alignment"] = absl::StrFormat("%.4f", *measures.momentum_alignment);
  return fields;
}

std::map<WorkerId, double> Diagnostics::Participation(const JobId& job) const {
  const auto of_job = participation_.find(job);
  return of_job == participation_.end() ? std::map<WorkerId, double>{} : of_job->second;
}

void Diagnostics::ForgetJob(const JobId& job) {
  const auto of_job = [&job](const auto& entry) { return entry.first.first == job; };
  directions_.ForgetJob(job);
  participation_.erase(job);
  std::erase_if(windows_, of_job);
  std::erase_if(directions_shown_, of_job);
}

}  // namespace atl
