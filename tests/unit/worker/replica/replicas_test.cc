// SPDX-License-Identifier: Apache-2.0
// Forming in parallel with training: a contribution holds the parameters of its send, in any kind
// of memory.
#include "worker/replica/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/codec/codec.h"
#include "tests/support/manual_executor.h"
#include "tests/support/toy_spec.h"
#include "tests/unit/worker/device/forming_gpu.h"
#include "worker/device/gpu_plugin.h"

namespace atl {
namespace {

// A copying window, as on a GPU. The copy is made at the begin, and visible after the wait.
class CopyWindow final : public HostWindow {
 public:
  struct Copies {
    int read = 0, written = 0;
    absl::Status failure;
  };
  CopyWindow(std::span<float> range, Copies& copies) : range_(range), seen_(range.size()), copies_(copies) {}
  absl::Status Snapshot(void*) override {
    ++copies_.read;
    made_.assign(range_.begin(), range_.end());
    return copies_.failure;
  }
  absl::Status WriteBack(void*) override {
    ++copies_.written;
    std::ranges::copy(seen_, range_.begin());
    return absl::OkStatus();
  }
  absl::Status Wait() override {
    if (!made_.empty()) seen_ = std::exchange(made_, {});
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Done() override { return made_.empty(); }
  std::span<float> host() override { return seen_; }
  bool is_direct() const override { return false; }

 private:
  std::span<float> range_;
  std::vector<float> made_, seen_;
  Copies& copies_;
};

class CopyDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<uint64_t> FreeMemoryBytes() override { return 0; }
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) override {
    return std::unique_ptr<HostWindow>(std::make_unique<CopyWindow>(range, copies));
  }
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t) override { return absl::UnimplementedError("no feeds"); }
  absl::StatusOr<GroupKey> NewGroupKey() override { return absl::UnimplementedError("alone"); }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey&, uint32_t, uint32_t) override {
    return absl::UnimplementedError("alone");
  }
  StepKernels* step_kernels() override { return nullptr; }
  CopyWindow::Copies copies;

 private:
  DeviceInfo info_;
};

enum class Memory { kDirect, kCopied, kFormed };

class ReplicasTest : public testing::TestWithParam<Memory> {
 protected:
  ReplicasTest() {
    JobSpec spec = ToySpec();
    spec.sync.pattern = FragmentPattern::kStrided;
    spec.sync.layers_per_fragment = 1;
    layout_ = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    local_.assign(layout_.elements, 0.0f);
    const bool formed = GetParam() == Memory::kFormed;
    Device& device = GetParam() == Memory::kDirect ? *cpu_ : formed ? *forming_ : copies_;
    auto made = Replicas::Create(layout_, spec, device, local_, nullptr, executor_,
                                 formed ? EncodedBy::kDevice : EncodedBy::kHost);
    EXPECT_TRUE(made.ok()) << made.status();
    replicas_ = *std::move(made);
    for (uint32_t p = 0; p < layout_.fragments.size(); ++p) Install(p, 0);
  }

  void Install(uint32_t p, uint64_t version) {
    const std::vector<float> zeros(layout_.fragments[p].elements, 0.0f);
    auto bytes = std::make_shared<std::vector<std::byte>>(zeros.size() * sizeof(float));
    const Digest hash = ContentHash(zeros, version, layout_.digest);
    replicas_->Keep({JobId{"toy"}, {FragmentIndex{p}, Version{version}}, true, hash, bytes});
    EXPECT_TRUE(replicas_->Install(FragmentIndex{p}, Version{version}).ok());
  }
  void Begin(uint32_t p, bool at_rest = false) {
    replicas_->BeginForm({FragmentIndex{p}, Version{0}}, ++errands_, at_rest,
                         [this](const FormingEnded& ended) { told_.push_back(ended); });
  }
  void SetLocal(float value) { std::ranges::fill(local_, value); }
  // The first element of the held contribution: minus the local parameters from which it was formed.
  float FirstOf(uint32_t p) {
    const StoredContribution* held = replicas_->unresolved(FragmentIndex{p});
    if (held == nullptr) return 0;
    std::vector<float> delta(layout_.fragments[p].elements);
    Decode(CodecKind::kFp32, *held->encoded, delta);
    return delta[0];
  }

  ModelLayout layout_;
  std::vector<float> local_;
  const std::unique_ptr<Device> cpu_ = OpenCpuDevice();
  CopyDevice copies_;
  const atoll_gpu_table table_ = forming_gpu::MakeTable();
  const std::unique_ptr<Device> forming_ = *OpenGpuDevice(&table_, 0);
  ManualExecutor executor_;
  std::vector<FormingEnded> told_;
  uint64_t errands_ = 0;
  std::unique_ptr<Replicas> replicas_;
};

INSTANTIATE_TEST_SUITE_P(Memories, ReplicasTest, testing::Values(Memory::kDirect, Memory::kCopied, Memory::kFormed));

TEST_P(ReplicasTest, AContributionIsThatOfItsSend) {
  SetLocal(1);
  Begin(0);
  SetLocal(2);
  EXPECT_EQ(replicas_->unresolved(FragmentIndex{0}), nullptr);
  executor_.RunAll();
  ASSERT_EQ(told_.size(), 1u);
  ASSERT_TRUE(told_[0].status.ok()) << told_[0].status;
  EXPECT_TRUE(replicas_->EndForm(told_[0]));
  EXPECT_EQ(FirstOf(0), -1);
  EXPECT_EQ(local_[0], 2) << "nothing is written";
}

TEST_P(ReplicasTest, AContributionOfParametersAtRestIsThatOfItsSend) {
  SetLocal(1);
  Begin(0, true);
  if (GetParam() == Memory::kDirect) {
    EXPECT_TRUE(told_.empty());
    replicas_->ReleaseParameters();
    EXPECT_EQ(told_.size(), 1u) << "what reads them is done before they change";
  }
  replicas_->ReleaseParameters();
  SetLocal(2);
  executor_.RunAll();
  ASSERT_EQ(told_.size(), 1u);
  ASSERT_TRUE(told_[0].status.ok()) << told_[0].status;
  EXPECT_TRUE(replicas_->EndForm(told_[0]));
  EXPECT_EQ(FirstOf(0), -1);
}

TEST_P(ReplicasTest, FormingFromUnchangedParametersIsCancelled) {
  SetLocal(1);
  Begin(0, true);
  replicas_->DropContribution(FragmentIndex{0});
  replicas_->ReleaseParameters();
  SetLocal(2);
  executor_.RunAll();
  for (const FormingEnded& ended : told_) EXPECT_FALSE(replicas_->EndForm(ended));
  EXPECT_EQ(replicas_->unresolved(FragmentIndex{0}), nullptr);
}

TEST_P(ReplicasTest, ConcurrentFragmentsKeepTheirValues) {
  ASSERT_GE(layout_.fragments.size(), 3u);
  for (const uint32_t p : {0u, 1u, 2u}) {
    SetLocal(static_cast<float>(p + 1));
    Begin(p);
  }
  SetLocal(9);
  executor_.RunAll();
  ASSERT_EQ(told_.size(), 3u);
  for (const uint32_t p : {0u, 1u, 2u}) {
    EXPECT_EQ(told_[p].target.fragment, FragmentIndex{p});
    EXPECT_TRUE(replicas_->EndForm(told_[p]));
    EXPECT_EQ(FirstOf(p), -static_cast<float>(p + 1));
  }
}

TEST_P(ReplicasTest, CancelledContributionIsNeverStored) {
  const FragmentIndex first{0};
  for (const bool formed : {false, true}) {
    for (const int how : {0, 1, 2}) {
      SetLocal(1);
      Begin(0);
      if (formed) executor_.RunAll();
      if (how == 0) replicas_->DropContribution(first);
      const absl::Status adopted = how == 1 ? replicas_->AdoptOuter(first) : absl::OkStatus();
      EXPECT_TRUE(adopted.ok()) << adopted;
      if (how == 2) Install(0, 0);
      executor_.RunAll();
      EXPECT_EQ(told_.size(), formed ? 1u : 0u);
      for (const FormingEnded& ended : std::exchange(told_, {})) EXPECT_FALSE(replicas_->EndForm(ended));
      EXPECT_EQ(replicas_->unresolved(first), nullptr);
      EXPECT_EQ(local_[0], how == 1 ? 0 : 1);
    }
  }
  SetLocal(3);
  Begin(0);
  executor_.RunAll();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(replicas_->EndForm(told_[0]));
  EXPECT_EQ(FirstOf(0), -3);
}

TEST_P(ReplicasTest, DestructionEndsTasksInProgress) {
  Begin(0);
  replicas_.reset();
  executor_.RunAll();
  EXPECT_TRUE(told_.empty());
}

// Work of an ended job may be reported when the next job's replicas exist.
TEST_P(ReplicasTest, ResultsOfAnEarlierJobAreIgnored) {
  EXPECT_FALSE(replicas_->EndForm({{FragmentIndex{99}, Version{0}}, 1, absl::OkStatus()}));
  Begin(0);
  const FormingEnded earlier{{FragmentIndex{0}, Version{0}}, errands_ + 1, absl::OkStatus()};
  EXPECT_FALSE(replicas_->EndForm(earlier));
}

TEST_P(ReplicasTest, FailedEndIsReported) {
  SetLocal(std::numeric_limits<float>::infinity());
  Begin(0);
  executor_.RunAll();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(replicas_->EndForm(told_[0]));
  EXPECT_EQ(replicas_->unresolved(FragmentIndex{0}), nullptr);
  ASSERT_TRUE(replicas_->AdoptOuter(FragmentIndex{0}).ok());
}

// For each mix: the worker sends at 1, the outer copy becomes 2, and the parameters are 3 by then.
TEST_P(ReplicasTest, AMergeReadsWhatItKeepsAndWritesWhatChanges) {
  const std::vector<double> mixes{0, 0.5, 1};
  ASSERT_GE(layout_.fragments.size(), mixes.size());
  for (uint32_t p = 0; p < mixes.size(); ++p) {
    SetLocal(1);
    Begin(p);
    executor_.RunAll();
    ASSERT_TRUE(replicas_->EndForm(told_.back()));
    SetLocal(3);
    const FragmentVersion reached{FragmentIndex{p}, Version{1}};
    const std::vector<float> twos(layout_.fragments[p].elements, 2.0f);
    const Digest hash = ContentHash(twos, 1, layout_.digest);
    const Bytes bytes = std::as_bytes(std::span(twos));
    replicas_->Keep(
        {JobId{"toy"}, reached, false, hash, std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end())});
    const auto applied = replicas_->Apply(reached, Standing::kContributor, hash);
    ASSERT_TRUE(applied.ok()) << applied.status();
    ASSERT_EQ(*applied, ApplyVerdict::kApplied);
    copies_.copies = {};
    ASSERT_TRUE(replicas_->Resolve(FragmentIndex{p}, Standing::kContributor, mixes[p]).ok());
    EXPECT_EQ(local_[layout_.fragments[p].offset], 3 * mixes[p] + 2 * (1 - mixes[p]));
    if (GetParam() != Memory::kCopied) continue;
    EXPECT_EQ(copies_.copies.read, mixes[p] == 0.5 ? 1 : 0) << mixes[p];
    EXPECT_EQ(copies_.copies.written, mixes[p] < 1 ? 1 : 0) << mixes[p];
  }
}

TEST_P(ReplicasTest, FailingDeviceIsReported) {
  if (GetParam() != Memory::kCopied) GTEST_SKIP() << "no copy can be made to fail";
  copies_.copies.failure = absl::InternalError("the copy failed");
  Begin(0);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].status, copies_.copies.failure);
  EXPECT_TRUE(replicas_->EndForm(told_[0]));
  EXPECT_EQ(executor_.pending(), 0u);
}

}  // namespace
}  // namespace atl
