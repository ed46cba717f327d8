// SPDX-License-Identifier: Apache-2.0
// Values of the catalogue's metrics, and their exposition for Prometheus. One object per process, handed down.
// Thread-safe. A wrong number of labels is a broken invariant and stops the process.
#ifndef ATOLL_COMMON_TELEMETRY_METRICS_H_
#define ATOLL_COMMON_TELEMETRY_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"
#include "common/telemetry/catalogue.h"

namespace atl {

class Metrics {
 public:
  // `series_limit`: most series in all; further ones are dropped and counted in atoll_metric_series_dropped_total.
  explicit Metrics(size_t series_limit = 50'000);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  using Labels = std::vector<std::string>;                             // values, in the catalogue's order
  void Add(Metric counter, double amount, const Labels& labels = {});  // amount >= 0; NaN and less than 0 are ignored
  void Set(Metric gauge, double value, const Labels& labels = {});
  void Observe(Metric histogram, double value, const Labels& labels = {});
  // Drops one series, where there is one.
  void Forget(Metric metric, const Labels& labels);

  // Metrics of a worker as they come with its heartbeat, shown with the labels job and worker, those of one job at a
  // time and none between jobs; what is of no job (IsOfNoJob) with the label worker, always. Unknown names are ignored.
  // Counters are shown as the worker counts them.
  void SetFromHeartbeat(const WorkerId& worker, const Heartbeat& heartbeat);
  // Drops every series with that worker label value.
  void ForgetWorker(const WorkerId& worker);
  // Drops every series with that job label value.
  void ForgetJob(const JobId& job);

  // The text exposition format, version 0.0.4.
  std::string Expose() const;
  // This process's worker metrics for a heartbeat, at most limits::kMetricsPerHeartbeat (histograms as sum and count
  // are left out).
  std::vector<MetricSample> HeartbeatSamples() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_METRICS_H_
