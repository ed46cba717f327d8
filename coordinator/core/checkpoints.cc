// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/checkpoints.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/core/rounds.h"

namespace atl {
namespace {

WriteCheckpoint WriteTaskOf(const CheckpointRecord& record) {
  return {record.job, record.step, record.versions, record.pool_consumed, record.pool_frontier};
}

}  // namespace

void Checkpoints::Load(const CheckpointSpec& rule, Version version) {
  const uint64_t called_for = NewestMultiple(rule.every_rounds, version);
  due_ = called_for > 0 && !Saves(called_for);
}

void Checkpoints::Commit(const CheckpointSpec& rule, Version version) {
  due_ = due_ || (rule.every_rounds != 0 && version.value % rule.every_rounds == 0);
}

void Checkpoints::Restore(std::vector<CheckpointRecord> records) {
  for (CheckpointRecord& record : records) records_.emplace(record.step, std::move(record));
}

CheckpointEffects Checkpoints::Begin(CheckpointRecord record, const CheckpointSpec& rule) {
  record.kept_for_good = KeepsForGood(rule, record.versions);
  if (!records_.emplace(record.step, record).second) return {};
  return {{record}, {WriteTaskOf(record)}};
}

bool Checkpoints::IsBegun(uint64_t step) const {
  const auto it = records_.find(step);
  return it != records_.end() && !it->second.complete;
}

CheckpointEffects Checkpoints::Written(uint64_t step, std::vector<Digest> hashes, int64_t wall_nanos,
                                       const VersionVector& versions, bool merging) {
  const auto it = records_.find(step);
  it->second.complete = true;
  // Checkpoints are written in order. An unwritten older one had no disk space: it is retried, or
  // abandoned for a newer one.
  const bool older_waits = std::any_of(records_.begin(), it, [](const auto& c) { return !c.second.complete; });
  CheckpointEffects effects = older_waits ? Retry(versions, merging) : CheckpointEffects{};
  it->second.hashes = std::move(hashes);
  it->second.wall_nanos = wall_nanos;
  effects.records.push_back(it->second);
  return effects;
}

CheckpointEffects Checkpoints::Drop(uint64_t step) {
  CheckpointEffects effects;
  Drop(step, effects);
  return effects;
}

void Checkpoints::Drop(uint64_t step, CheckpointEffects& effects) {
  const auto it = records_.find(step);
  const auto next = std::next(it);
  // A checkpoint that was never written passes its retention to the next one.
  if (!it->second.complete && it->second.kept_for_good && next != records_.end() && !next->second.kept_for_good) {
    next->second.kept_for_good = true;
    effects.records.push_back(next->second);
  }
  const JobId job = it->second.job;
  records_.erase(it);
  effects.records.push_back(CheckpointDropped{job, step});
  effects.tasks.push_back(DropCheckpoint{job, step});
}

CheckpointEffects Checkpoints::Retry(const VersionVector& versions, bool merging) {
  CheckpointEffects effects;
  std::vector<uint64_t> overtaken;
  for (const auto& [step, checkpoint] : records_) {
    if (checkpoint.complete) continue;
    if (!merging && checkpoint.versions == versions) {
      effects.tasks.push_back(WriteTaskOf(checkpoint));
    } else {
      overtaken.push_back(step);
    }
  }
  // The versions of the checkpoint are overwritten in memory: a later checkpoint replaces it.
  for (const uint64_t step : overtaken) {
    Drop(step, effects);
    due_ = true;
  }
  return effects;
}

CheckpointEffects Checkpoints::Rewrite() const {
  CheckpointEffects effects;
  for (const auto& [step, checkpoint] : records_) {
    if (!checkpoint.complete) effects.tasks.push_back(WriteTaskOf(checkpoint));
  }
  return effects;
}

CheckpointEffects Checkpoints::DropOvertaken(const VersionVector& versions) {
  std::vector<uint64_t> overtaken;
  for (const auto& [step, checkpoint] : records_) {
    if (!checkpoint.complete && checkpoint.versions != versions) overtaken.push_back(step);
  }
  CheckpointEffects effects;
  for (const uint64_t step : overtaken) Drop(step, effects);
  return effects;
}

CheckpointEffects Checkpoints::DropAfter(uint64_t step) {
  CheckpointEffects effects;
  for (auto it = records_.upper_bound(step); it != records_.end(); it = records_.erase(it)) {
    effects.records.push_back(CheckpointDropped{it->second.job, it->first});
    effects.tasks.push_back(DropCheckpoint{it->second.job, it->first});
  }
  return effects;
}

CheckpointEffects Checkpoints::DropAll() {
  CheckpointEffects effects;
  while (!records_.empty()) Drop(records_.rbegin()->first, effects);
  return effects;
}

CheckpointEffects Checkpoints::Retain(const CheckpointSpec& rule, const std::function<bool(uint64_t step)>& is_needed) {
  std::vector<uint64_t> complete;
  for (const auto& [step, checkpoint] : records_) {
    if (checkpoint.complete) complete.push_back(step);
  }
  CheckpointEffects effects;
  const size_t keep = std::max(1u, rule.keep_last);
  for (size_t i = 0; i + keep < complete.size(); ++i) {
    if (!records_.at(complete[i]).kept_for_good && !is_needed(complete[i])) Drop(complete[i], effects);
  }
  return effects;
}

bool Checkpoints::IsNewest(uint64_t step) const {
  return std::none_of(records_.upper_bound(step), records_.end(), [](const auto& c) { return c.second.complete; });
}

const CheckpointRecord* Checkpoints::Complete(uint64_t step) const {
  const auto it = records_.find(step);
  return it != records_.end() && it->second.complete ? &it->second : nullptr;
}

const CheckpointRecord* Checkpoints::Of(const VersionVector& versions) const {
  const auto it = std::find_if(records_.begin(), records_.end(),
                               [&versions](const auto& c) { return c.second.versions == versions; });
  return it == records_.end() ? nullptr : &it->second;
}

bool Checkpoints::KeepsForGood(const CheckpointSpec& rule, const VersionVector& versions) const {
  const uint64_t every = uint64_t{rule.every_rounds} * rule.keep_every;
  if (every == 0) return false;
  const uint64_t called_for = NewestMultiple(every, versions[0]);
  return called_for == versions[0].value || (called_for > 0 && !Saves(called_for));
}

bool Checkpoints::Saves(uint64_t version) const {
  return std::any_of(records_.begin(), records_.end(),
                     [version](const auto& c) { return c.second.versions[0].value >= version; });
}

}  // namespace atl
