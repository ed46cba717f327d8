// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/numerics/loop.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl::numerics {

ModelLayout LayoutOf(const std::vector<uint64_t>& fragment_elements) {
  ModelLayout layout;
  for (const uint64_t elements : fragment_elements) {
    layout.fragments.push_back({layout.elements, elements, {}});
    layout.elements += elements;
  }
  layout.digest = {77, 78};
  return layout;
}

Loop::Loop(const ModelLayout& layout, const LoopOptions& options, std::span<const float> start, size_t workers)
    : layout_(layout),
      options_(options),
      schedule_(options.inner_steps, options.overlap_steps, static_cast<uint32_t>(layout.fragments.size())),
      aggregator_(layout) {
  options_.outer.inner_steps = options.inner_steps;
  for (size_t w = 0; w < workers; ++w) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->local.assign(start.begin(), start.end());
    workers_.back()->outer.resize(start.size());
  }
  for (uint32_t f = 0; f < layout.fragments.size(); ++f) {
    const FragmentInfo& info = layout.fragments[f];
    const std::span<const float> values = start.subspan(info.offset, info.elements);
    ATOLL_CHECK(aggregator_.Restore(FragmentIndex{f}, {Version{0}, values, {}, {}}).ok(), "initial state");
    for (const auto& worker : workers_) {
      auto replica = FragmentReplica::Create(Range(worker->outer, FragmentIndex{f}),
                                             {.upload_codec = options.upload_codec,
                                              .download_codec = options.outer.download_codec,
                                              .upload_error_memory = options.upload_error_memory,
                                              .layout_digest = layout.digest});
      ATOLL_CHECK(replica.ok() && replica->Install(values, Version{0}, aggregator_.Hash(FragmentIndex{f})).ok(),
                  "install");
      worker->replicas.push_back(*std::move(replica));
    }
  }
}

std::span<float> Loop::Range(std::vector<float>& arena, FragmentIndex fragment) const {
  const FragmentInfo& info = layout_.fragments[fragment.value];
  return std::span(arena).subspan(info.offset, info.elements);
}

void Loop::Step(const InnerStep& inner) {
  ++step_;
  for (size_t w = 0; w < workers_.size(); ++w) inner(w, step_, workers_[w]->local);
  for (FragmentIndex p{0}; p.value < schedule_.fragments(); ++p.value) {
    if (schedule_.IsSendStep(p, step_)) Send(p);
  }
  for (const Pending& pending : pending_) {
    if (pending.apply_step == step_) Apply(pending);
  }
  std::erase_if(pending_, [this](const Pending& pending) { return pending.apply_step == step_; });
}

void Loop::Send(FragmentIndex fragment) {
  Pending pending{fragment, schedule_.ApplyStep(step_), rounds_.size(), {}};
  std::vector<RoundInput> inputs;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto formed = workers_[w]->replicas[fragment.value].FormContribution(Range(workers_[w]->local, fragment));
    ATOLL_CHECK(formed.ok(), "a contribution at every send step");
    if (arrives_ && !arrives_(w, fragment, step_)) continue;
    pending.contributors.insert(w);
    inputs.push_back({WorkerId{"worker-" + std::to_string(w)}, options_.upload_codec, *(*formed)->encoded,
                      options_.inner_steps, options_.inner_steps});
  }
  if (inputs.empty()) {  // the round stays open: the senders may try again at their next offset
    for (const auto& worker : workers_) worker->replicas[fragment.value].DropContribution();
    return;
  }
  std::rotate(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(rotation_ % inputs.size()), inputs.end());
  auto result =
      aggregator_.CloseRound(fragment, aggregator_.version(fragment), inputs, options_.outer, options_.threads);
  ATOLL_CHECK(result.ok() && result->committed, "a round that closes");
  rounds_.push_back(*std::move(result));
  pending_.push_back(std::move(pending));
}

void Loop::Apply(const Pending& pending) {
  const RoundResult& round = rounds_[pending.round];
  for (size_t w = 0; w < workers_.size(); ++w) {
    FragmentReplica& replica = workers_[w]->replicas[pending.fragment.value];
    const std::span<float> local = Range(workers_[w]->local, pending.fragment);
    const bool contributed = pending.contributors.contains(w);
    const auto verdict = replica.ApplyUpdate({round.reached, round.update, round.hash},
                                             contributed ? Standing::kContributor : Standing::kNotContributor);
    ATOLL_CHECK(verdict.ok() && *verdict == ApplyVerdict::kApplied, "replicas are equal bit for bit");
    const absl::Status resolved =
        contributed ? replica.ResolveAsContributor(local, options_.mix) : replica.ResolveAsNonContributor(local);
    ATOLL_CHECK(resolved.ok(), "an applied update is resolved");
  }
}

}  // namespace atl::numerics
