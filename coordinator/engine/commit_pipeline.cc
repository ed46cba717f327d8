// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/commit_pipeline.h"

#include <utility>

namespace atl {

void CommitPipeline::Push(Effects effects) {
  if (effects.records.empty() && idle()) {
    parts_.release(std::move(effects));
    return;
  }
  waiting_.push_back(std::move(effects));
  FlushIfDue();
}

void CommitPipeline::FlushIfDue() {
  if (flushing_) return;
  while (!waiting_.empty() && waiting_.front().records.empty()) {
    Effects effects = std::move(waiting_.front());
    waiting_.pop_front();
    parts_.release(std::move(effects));
  }
  if (waiting_.empty()) return;
  std::vector<LedgerRecord> records;
  for (const Effects& step : waiting_) records.insert(records.end(), step.records.begin(), step.records.end());
  flushing_ = true;
  parts_.executor.Post([this, records = std::move(records), steps = waiting_.size()] {
    const absl::Status status = parts_.commit(records);
    parts_.completed([this, status, steps] { OnFlushed(status, steps); });
  });
}

void CommitPipeline::OnFlushed(const absl::Status& status, size_t steps) {
  if (!status.ok()) return parts_.fatal(Annotate(status, "the ledger could not be written"));
  flushing_ = false;
  std::deque<Effects> flushed;
  for (size_t i = 0; i < steps; ++i) {
    flushed.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  for (Effects& effects : flushed) parts_.release(std::move(effects));
  FlushIfDue();
}

}  // namespace atl
