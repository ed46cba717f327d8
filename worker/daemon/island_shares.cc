// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/island_shares.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

constexpr uint64_t kStepsBetweenComparisons = 10;
constexpr Duration kPreparing = Seconds(120);  // for a follower to make its arenas, after rank 0 made its own

}  // namespace

JobSpec SpecOfShare(JobSpec spec, uint32_t ranks) {
  spec.batch.sequences_per_step = (spec.batch.sequences_per_step + ranks - 1) / ranks;
  spec.batch.micro_batch = std::min(spec.batch.micro_batch, spec.batch.sequences_per_step);
  return spec;
}

absl::Status CompareReplicas(Island& island, Trainer& trainer) {
  if (trainer.optimizer_steps() % kStepsBetweenComparisons != 0) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const uint32_t bits, trainer.parameters().Fingerprint());
  const auto own = static_cast<double>(bits);  // the sum over all ranks is exact in double
  std::array<double, 1> sum = {own};
  ATOLL_RETURN_IF_ERROR(island.AllReduceSum(sum));
  if (sum[0] == own * island.world()) return absl::OkStatus();
  return absl::InternalError(
      "the parameters of the ranks no longer have the same bits; run an island on processors, or GPUs, of one model");
}

IslandShares::~IslandShares() {
  // An error here was reported before, or ends the followers anyway.
  if (asked_) AwaitPrepared().IgnoreError();
  orders_.Order(EncodeOrder(ReleaseOrder{})).IgnoreError();
}

absl::Status IslandShares::BeginPrepare(const JobSpec& share, int32_t end_of_text, uint64_t available_bytes) {
  for (size_t f = 0; f < layout_.fragments.size(); ++f) changed_.insert(static_cast<uint32_t>(f));
  PrepareOrder order{JobSpecToProto(share).SerializeAsString(), end_of_text, available_bytes, layout_.digest};
  ATOLL_RETURN_IF_ERROR(orders_.Order(EncodeOrder(order)));
  asked_ = true;
  return absl::OkStatus();
}

absl::Status IslandShares::AwaitPrepared() {
  asked_ = false;
  ATOLL_ASSIGN_OR_RETURN(const auto answers, orders_.Answers(kPreparing));
  for (size_t i = 0; i < answers.size(); ++i) {
    ATOLL_RETURN_IF_ERROR(Annotate(DecodeAnswer(answers[i]), absl::StrCat("rank ", i + 1, " of the island")));
  }
  return absl::OkStatus();
}

absl::Status IslandShares::TellChanges(Trainer& trainer) {
  for (const uint32_t f : changed_) {
    const FragmentInfo& fragment = layout_.fragments[f];
    ATOLL_RETURN_IF_ERROR(orders_.Order(EncodeOrder(ParametersOrder{fragment.offset, fragment.elements})));
    const auto values = trainer.parameters().memory().subspan(fragment.offset, fragment.elements);
    ATOLL_RETURN_IF_ERROR(values_.Broadcast(values, trainer.compute_stream()));
  }
  changed_.clear();
  if (!optimizer_changed_) return absl::OkStatus();
  ATOLL_RETURN_IF_ERROR(orders_.Order(EncodeOrder(OptimizerOrder{trainer.optimizer_steps()})));
  for (Arena* moments : {trainer.first_moments(), trainer.second_moments()}) {
    if (moments == nullptr || trainer.optimizer_steps() == 0) continue;
    ATOLL_RETURN_IF_ERROR(values_.Broadcast(moments->memory(), trainer.compute_stream()));
  }
  optimizer_changed_ = false;
  return absl::OkStatus();
}

absl::StatusOr<StepReport> IslandShares::TakeOwnShare(const TokenBatch& share, uint64_t targets, double learning_rate,
                                                      Trainer& trainer) {
  ATOLL_ASSIGN_OR_RETURN(const StepReport report, trainer.StepShare(share, targets, learning_rate));
  // The step was taken, and an error would train its samples again. So a difference breaks the
  // island for the next step.
  const absl::Status same = CompareReplicas(values_, trainer);
  if (!same.ok()) orders_.Break(std::string(same.message()));
  return report;
}

absl::StatusOr<StepReport> IslandShares::Step(const SampleBatch& batch, double learning_rate, Trainer& trainer) {
  ATOLL_RETURN_IF_ERROR(TellChanges(trainer));
  const uint32_t ranks = orders_.world();
  const size_t length = batch.tokens.size() / batch.samples;
  const uint64_t targets = uint64_t{batch.samples} * (length - 1);
  // Samples in order; if they do not divide evenly, the first ranks take one more.
  const auto first = [&](uint32_t rank) {
    return rank * (batch.samples / ranks) + std::min(rank, batch.samples % ranks);
  };
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const auto begin = batch.tokens.begin() + static_cast<ptrdiff_t>(first(rank) * length);
    const auto end = batch.tokens.begin() + static_cast<ptrdiff_t>(first(rank + 1) * length);
    const StepOrder order{learning_rate, targets, first(rank + 1) - first(rank), {begin, end}};
    ATOLL_RETURN_IF_ERROR(orders_.OrderOne(rank, EncodeOrder(order)));
  }
  const auto own = std::span(batch.tokens).first(first(1) * length);
  auto report = TakeOwnShare({own, first(1)}, targets, learning_rate, trainer);
  if (report.ok() || absl::IsUnavailable(report.status())) return report;
  // Without Break, the other ranks would wait for this rank's gradients.
  orders_.Break(std::string(report.status().message()));
  return absl::UnavailableError(absl::StrCat("rank 0 of the island: ", report.status().message()));
}

}  // namespace atl
