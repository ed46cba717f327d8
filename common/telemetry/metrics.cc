// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

using PromLabels = std::map<std::string, std::string>;

// One family in the registry, of any type.
struct Family {
  prometheus::Family<prometheus::Counter>* counters = nullptr;
  prometheus::Family<prometheus::Gauge>* gauges = nullptr;
  prometheus::Family<prometheus::Histogram>* histograms = nullptr;
};

struct Series {
  prometheus::Counter* counter = nullptr;
  prometheus::Gauge* gauge = nullptr;
  prometheus::Histogram* histogram = nullptr;
};

}  // namespace

struct Metrics::State {
  explicit State(size_t limit) : series_limit(limit) {
    for (const MetricInfo& info : MetricCatalogue()) families[info.metric] = MakeFamily(registry, info);
    dropped = &families.at(Metric::kSeriesDropped).counters->Add({});
  }

  static Family MakeFamily(prometheus::Registry& registry, const MetricInfo& info) {
    Family family;
    switch (info.type) {
      case MetricType::kCounter:
        family.counters = &prometheus::BuildCounter().Name(info.name).Help(info.help).Register(registry);
        break;
      case MetricType::kGauge:
        family.gauges = &prometheus::BuildGauge().Name(info.name).Help(info.help).Register(registry);
        break;
      case MetricType::kHistogram:
        family.histograms = &prometheus::BuildHistogram().Name(info.name).Help(info.help).Register(registry);
        break;
    }
    return family;
  }

  // Returns the series with these labels, creating it if needed; null beyond the limit.
  Series* Find(const MetricInfo& info, const PromLabels& labels) ATOLL_REQUIRES(mutex) {
    const auto key = std::pair(info.metric, labels);
    const auto it = series.find(key);
    if (it != series.end()) return &it->second;
    if (series.size() >= series_limit) {
      dropped->Increment();
      return nullptr;
    }
    const Family& family = families.at(info.metric);
    Series made;
    if (family.counters != nullptr) made.counter = &family.counters->Add(labels);
    if (family.gauges != nullptr) made.gauge = &family.gauges->Add(labels);
    if (family.histograms != nullptr) made.histogram = &family.histograms->Add(labels, info.buckets);
    return &series.emplace(key, made).first->second;
  }

  void Remove(const MetricInfo& info, const Series& gone) ATOLL_REQUIRES(mutex) {
    const Family& family = families.at(info.metric);
    if (gone.counter != nullptr) family.counters->Remove(gone.counter);
    if (gone.gauge != nullptr) family.gauges->Remove(gone.gauge);
    if (gone.histogram != nullptr) family.histograms->Remove(gone.histogram);
  }

  // Drops every series with all of these labels; with `workers_own` only series of worker metrics.
  void Forget(const PromLabels& wanted, bool workers_own = false) ATOLL_REQUIRES(mutex) {
    for (auto it = series.begin(); it != series.end();) {
      const PromLabels& labels = it->first.second;
      const bool spared = workers_own && InfoOf(it->first.first).home != MetricHome::kWorker;
      const bool all = !spared && std::all_of(wanted.begin(), wanted.end(), [&labels](const auto& label) {
        const auto found = labels.find(label.first);
        return found != labels.end() && found->second == label.second;
      });
      if (!all) {
        ++it;
        continue;
      }
      Remove(InfoOf(it->first.first), it->second);
      it = series.erase(it);
    }
  }

  const size_t series_limit;
  prometheus::Registry registry;
  Mutex mutex;
  std::map<Metric, Family> families;  // immutable after construction
  std::map<std::pair<Metric, PromLabels>, Series> series ATOLL_GUARDED_BY(mutex);
  std::map<std::string, std::string> job_of
      ATOLL_GUARDED_BY(mutex);  // worker -> job, for workers with exported heartbeats
  prometheus::Counter* dropped = nullptr;
};

namespace {

PromLabels LabelsOf(const MetricInfo& info, const Metrics::Labels& values) {
  ATOLL_CHECK(values.size() == info.labels.size(), "a metric is given exactly the labels of the catalogue");
  PromLabels labels;
  for (size_t i = 0; i < values.size(); ++i) labels[info.labels[i]] = values[i];
  return labels;
}

}  // namespace

Metrics::Metrics(size_t series_limit) : state_(std::make_unique<State>(series_limit)) {}
Metrics::~Metrics() = default;

void Metrics::Add(Metric metric, double amount, const Labels& labels) {
  if (!(amount >= 0)) return;
  const MetricInfo& info = InfoOf(metric);
  MutexLock lock(state_->mutex);
  Series* series = state_->Find(info, LabelsOf(info, labels));
  if (series != nullptr && series->counter != nullptr) series->counter->Increment(amount);
}

void Metrics::Set(Metric metric, double value, const Labels& labels) {
  const MetricInfo& info = InfoOf(metric);
  MutexLock lock(state_->mutex);
  Series* series = state_->Find(info, LabelsOf(info, labels));
  if (series != nullptr && series->gauge != nullptr) series->gauge->Set(value);
}

void Metrics::Observe(Metric metric, double value, const Labels& labels) {
  const MetricInfo& info = InfoOf(metric);
  MutexLock lock(state_->mutex);
  Series* series = state_->Find(info, LabelsOf(info, labels));
  if (series != nullptr && series->histogram != nullptr) series->histogram->Observe(value);
}

void Metrics::Forget(Metric metric, const Labels& labels) {
  const MetricInfo& info = InfoOf(metric);
  MutexLock lock(state_->mutex);
  const auto it = state_->series.find(std::pair(metric, LabelsOf(info, labels)));
  if (it == state_->series.end()) return;
  state_->Remove(info, it->second);
  state_->series.erase(it);
}

void Metrics::SetFromHeartbeat(const WorkerId& worker, const Heartbeat& heartbeat) {
  const PromLabels alone = {{"worker", worker.value}};
  const PromLabels at_job = {{"job", heartbeat.job.value}, {"worker", worker.value}};
  MutexLock lock(state_->mutex);
  std::string& job = state_->job_of[worker.value];
  if (!job.empty() && job != heartbeat.job.value) state_->Forget({{"job", job}, {"worker", worker.value}}, true);
  job = heartbeat.job.value;
  for (const MetricSample& sample : heartbeat.metrics) {
    const MetricInfo* info = FindWorkerMetric(sample.name);
    if (info == nullptr || (job.empty() && !IsOfNoJob(info->metric))) continue;
    Series* series = state_->Find(*info, IsOfNoJob(info->metric) ? alone : at_job);
    if (series == nullptr) continue;
    if (series->gauge != nullptr) series->gauge->Set(sample.value);
    if (series->counter != nullptr && sample.value > series->counter->Value())
      series->counter->Increment(sample.value - series->counter->Value());
  }
}

void Metrics::ForgetWorker(const WorkerId& worker) {
  MutexLock lock(state_->mutex);
  state_->Forget({{"worker", worker.value}});
  state_->job_of.erase(worker.value);
}

void Metrics::ForgetJob(const JobId& job) {
  MutexLock lock(state_->mutex);
  state_->Forget({{"job", job.value}});
}

std::string Metrics::Expose() const { return prometheus::TextSerializer().Serialize(state_->registry.Collect()); }

std::vector<MetricSample> Metrics::HeartbeatSamples() const {
  std::vector<MetricSample> samples;
  MutexLock lock(state_->mutex);
  for (const auto& [key, series] : state_->series) {
    const MetricInfo& info = InfoOf(key.first);
    if (info.home != MetricHome::kWorker || samples.size() >= limits::kMetricsPerHeartbeat) continue;
    if (series.gauge != nullptr) samples.push_back({HeartbeatName(key.first), series.gauge->Value()});
    if (series.counter != nullptr) samples.push_back({HeartbeatName(key.first), series.counter->Value()});
  }
  return samples;
}

}  // namespace atl
