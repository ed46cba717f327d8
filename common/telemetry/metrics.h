// SPDX-License-Identifier: Apache-2.0
// Values of the catalogue's metrics, and their exposition for Prometheus. One object per process,
// passed to its users. Thread-safe. A wrong number of labels is a broken invariant and stops the
// process.
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
  // `series_limit`: limit on the number of series of all metrics. Each value for a further series is dropped and
  // counted in atoll_metric_series_dropped_total.
  explicit Metrics(size_t series_limit = 50'000);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  using Labels = std::vector<std::string>;  // values, in the catalogue's order
  void Add(Metric counter, double amount,
           const Labels& labels = {});  // amount >= 0; negative values and NaN are ignored
  void Set(Metric gauge, double value, const Labels& labels = {});
  void Observe(Metric histogram, double value, const Labels& labels = {});
  // Drops a series, if it exists.
  void Forget(Metric metric, const Labels& labels);

  // Sets a worker's metrics from its heartbeat, with the labels job and worker. Only the series of the worker's
  // present job exist, and none between jobs. A metric independent of the job (IsOfNoJob) always has only the label
  // worker. Unknown names are ignored. Counters rise to the worker's values and never fall: a lower value, as after a
  // restart of the worker, has no effect until ForgetWorker.
  void SetFromHeartbeat(const WorkerId& worker, const Heartbeat& heartbeat);
  // Drops every series with that worker label value.
  void ForgetWorker(const WorkerId& worker);
  // Drops every series with that job label value.
  void ForgetJob(const JobId& job);

  // Returns the text exposition format, version 0.0.4.
  std::string Expose() const;
  // Returns this process's worker metrics for a heartbeat, without histograms, at most
  // limits::kMetricsPerHeartbeat.
  std::vector<MetricSample> HeartbeatSamples() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_METRICS_H_
