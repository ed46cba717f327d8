// SPDX-License-Identifier: Apache-2.0
#include "common/plan/link_model.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "common/base/check.h"
#include "common/plan/sync_schedule.h"

namespace atl {
namespace {

// The first periods fill the pipeline; the following ones are measured.
constexpr uint64_t kWarmupPeriods = 3, kMeasuredPeriods = 4;

// Bounds in bytes a second for the search of a needed rate.
constexpr double kLeastRate = 1, kMostRate = 1e15, kRatePrecision = 1e-6;

struct Send {
  uint32_t offset = 0;  // into the period
  uint32_t fragment = 0;
};

// Returns the sends of one period ordered by step. A send with offset 0 is on the period's last
// step.
std::vector<Send> SendsOfAPeriod(const LinkJob& job) {
  const SyncSchedule schedule(job.inner_steps, job.overlap_steps, static_cast<uint32_t>(job.fragments.size()));
  std::vector<Send> sends;
  for (uint32_t p = 0; p < job.fragments.size(); ++p) {
    const uint32_t offset = schedule.OffsetOf(FragmentIndex{p});
    sends.push_back({offset == 0 ? job.inner_steps : offset, p});
  }
  std::stable_sort(sends.begin(), sends.end(), [](const Send& a, const Send& b) { return a.offset < b.offset; });
  return sends;
}

// Iterates over the sends of all periods in the order of steps.
class Calendar {
 public:
  explicit Calendar(const LinkJob& job) : sends_(SendsOfAPeriod(job)), period_(job.inner_steps) {}

  uint64_t NextStep() const { return base_ + sends_[next_].offset; }
  uint32_t Take() {
    const uint32_t fragment = sends_[next_].fragment;
    if (++next_ == sends_.size()) {
      next_ = 0;
      base_ += period_;
    }
    return fragment;
  }

 private:
  std::vector<Send> sends_;
  uint64_t period_, base_ = 0;
  size_t next_ = 0;
};

// One direction of a link. Transfers run one after the other, in the order of requests.
class Pipe {
 public:
  explicit Pipe(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  double Carry(double from, double bytes) {
    free_at_ = std::max(from, free_at_) + bytes / bytes_per_second_;
    return free_at_;
  }

 private:
  double bytes_per_second_, free_at_ = 0;
};

void CheckJob(const LinkJob& job, const LinkCapacity& link) {
  ATOLL_CHECK(!job.units.empty() && !job.fragments.empty(), "a plan needs a model");
  ATOLL_CHECK(StepSeconds(job) > 0, "a plan needs the time of a step");
  ATOLL_CHECK(link.upload_bytes_per_second > 0 && link.download_bytes_per_second > 0, "a plan needs a link");
  for (const LinkUnit& unit : job.units)
    ATOLL_CHECK(unit.fragment < job.fragments.size(), "a unit of no known fragment");
}

// Runs `machine`, which has now() and RunTo(step), over the warm-up and the measured periods. Returns the share of
// the measured time that is spent computing.
template <typename Machine>
double SteadyUtilization(const LinkJob& job, Machine& machine) {
  machine.RunTo(kWarmupPeriods * job.inner_steps);
  const double start = machine.now();
  machine.RunTo((kWarmupPeriods + kMeasuredPeriods) * job.inner_steps);
  const double computed = static_cast<double>(kMeasuredPeriods * job.inner_steps) * StepSeconds(job);
  return std::min(1.0, computed / (machine.now() - start));
}

class AllReduceRun {
 public:
  AllReduceRun(const LinkJob& job, const LinkCapacity& link)
      : job_(job),
        calendar_(job),
        pipe_(link.upload_bytes_per_second),
        latency_seconds_(link.latency_seconds),
        step_seconds_(StepSeconds(job)) {}

  double now() const { return now_; }

  void RunTo(uint64_t last) {
    while (step_ < last) {
      const uint64_t first_use = uses_.empty() ? UINT64_MAX : uses_.front().step;
      const uint64_t eventful = std::min(calendar_.NextStep(), first_use);
      if (step_ + 1 < eventful) {
        const uint64_t quiet = std::min(last, eventful - 1) - step_;
        now_ += static_cast<double>(quiet) * step_seconds_;
        step_ += quiet;
      } else {
        TakeStep();
      }
    }
  }

 private:
  struct Use {
    uint64_t step = 0;  // step with the forward pass that needs it
    size_t unit = 0;
    double ready = 0;
  };

  void TakeStep() {
    ++step_;
    Forward();
    std::vector<bool> due(job_.fragments.size(), false);
    while (calendar_.NextStep() == step_) due[calendar_.Take()] = true;
    for (size_t u = job_.units.size(); u-- > 0;) {
      const LinkUnit& unit = job_.units[u];
      now_ += unit.compute_seconds * (1 - kForwardShare);
      if (!due[unit.fragment]) continue;
      const double arrived = pipe_.Carry(now_, unit.upload_bytes) + latency_seconds_;
      uses_.push_back({step_ + 1 + job_.overlap_steps, u, arrived});
    }
  }

  void Forward() {
    std::vector<double> ready(job_.units.size(), 0);
    for (; !uses_.empty() && uses_.front().step == step_; uses_.pop_front())
      ready[uses_.front().unit] = uses_.front().ready;
    for (size_t u = 0; u < job_.units.size(); ++u)
      now_ = std::max(now_, ready[u]) + job_.units[u].compute_seconds * kForwardShare;
  }

  const LinkJob& job_;
  Calendar calendar_;
  Pipe pipe_;
  const double latency_seconds_, step_seconds_;
  double now_ = 0;
  uint64_t step_ = 0;
  std::deque<Use> uses_;  // by step
};

class CoordinatorRun {
 public:
  CoordinatorRun(const LinkJob& job, const LinkCapacity& link)
      : job_(job),
        calendar_(job),
        up_(link.upload_bytes_per_second),
        down_(link.download_bytes_per_second),
        latency_seconds_(link.latency_seconds),
        round_seconds_(link.round_seconds),
        step_seconds_(StepSeconds(job)) {}

  double now() const { return now_; }

  void RunTo(uint64_t last) {
    while (step_ < last) {
      const uint64_t first_use = uses_.empty() ? UINT64_MAX : uses_.front().step;
      const uint64_t to = std::min({last, calendar_.NextStep(), first_use});
      now_ += static_cast<double>(to - step_) * step_seconds_;
      step_ = to;
      while (calendar_.NextStep() == step_) Exchange(job_.fragments[calendar_.Take()]);
      for (; !uses_.empty() && uses_.front().step == step_; uses_.pop_front())
        now_ = std::max(now_, uses_.front().ready);
    }
  }

 private:
  struct Use {
    uint64_t step = 0;  // applied at the end of this step
    double ready = 0;
  };

  void Exchange(const LinkFragment& fragment) {
    const double arrived = up_.Carry(now_, fragment.upload_bytes) + latency_seconds_ + round_seconds_;
    const double back = down_.Carry(arrived, fragment.download_bytes) + latency_seconds_;
    uses_.push_back({step_ + job_.overlap_steps, back});
  }

  const LinkJob& job_;
  Calendar calendar_;
  Pipe up_, down_;
  const double latency_seconds_, round_seconds_, step_seconds_;
  double now_ = 0;
  uint64_t step_ = 0;
  std::deque<Use> uses_;  // by step
};

}  // namespace

double StepSeconds(const LinkJob& job) {
  double seconds = 0;
  for (const LinkUnit& unit : job.units) seconds += unit.compute_seconds;
  return seconds;
}

double AllReduceUtilization(const LinkJob& job, const LinkCapacity& link) {
  CheckJob(job, link);
  AllReduceRun run(job, link);
  return SteadyUtilization(job, run);
}

double CoordinatorUtilization(const LinkJob& job, const LinkCapacity& link) {
  CheckJob(job, link);
  CoordinatorRun run(job, link);
  return SteadyUtilization(job, run);
}

double NeededUploadRate(const LinkJob& job, const LinkCapacity& link, double target,
                        double (*utilization)(const LinkJob&, const LinkCapacity&)) {
  const auto reaches = [&](double upload_rate) {
    LinkCapacity scaled = link;
    scaled.upload_bytes_per_second = upload_rate;
    scaled.download_bytes_per_second *= upload_rate / link.upload_bytes_per_second;
    return utilization(job, scaled) >= target;
  };
  double low = kLeastRate, high = kMostRate;
  if (!reaches(high)) return 0;
  if (reaches(low)) return low;
  while (high / low > 1 + kRatePrecision) {
    const double middle = std::sqrt(low * high);
    (reaches(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace atl
