// SPDX-License-Identifier: Apache-2.0
// The state that a session keeps when it leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

// Restored moments that were never used are kept with the job's clock of their restoration, not
// with step 0.
TEST_F(SessionTest, LeavingBeforeTheFirstStepKeepsTheMoments) {
  Join(/*clock_step=*/40);
  session_->RequestLeave("SIGTERM");
  Turn(3);
  EXPECT_EQ(factory_.kept, std::vector<uint64_t>{40});
}

TEST_F(SessionTest, SoDoesOneThatIsDrained) {
  Join(/*clock_step=*/40);
  Post(DrainRequested{"its machine is to be mended"});
  Turn(3);
  EXPECT_EQ(factory_.kept, std::vector<uint64_t>{40});
}

// A device with its own memory that can be lost: after that, no copy from or to it succeeds.
class LosableDevice final : public Device {
 public:
  explicit LosableDevice(const bool& lost) : lost_(lost) {}
  const DeviceInfo& info() const override { return cpu_->info(); }
  absl::StatusOr<uint64_t> FreeMemoryBytes() override { return cpu_->FreeMemoryBytes(); }
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) override {
    return std::unique_ptr<HostWindow>(std::make_unique<Window>(lost_, range));
  }
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t most_bytes) override {
    return cpu_->OpenFeed(most_bytes);
  }
  absl::StatusOr<GroupKey> NewGroupKey() override { return cpu_->NewGroupKey(); }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& key, uint32_t rank, uint32_t world) override {
    return cpu_->JoinGroup(key, rank, world);
  }
  StepKernels* step_kernels() override { return nullptr; }

 private:
  class Window final : public HostWindow {
   public:
    Window(const bool& lost, std::span<float> range) : lost_(lost), range_(range), host_(range.size()) {}
    absl::Status Snapshot(void*) override { return Copy(range_, host_); }
    absl::Status WriteBack(void*) override { return Copy(host_, range_); }
    absl::Status Wait() override { return Copy({}, {}); }
    absl::StatusOr<bool> Done() override { return true; }
    std::span<float> host() override { return host_; }
    bool is_direct() const override { return false; }

   private:
    absl::Status Copy(std::span<const float> from, std::span<float> to) const {
      if (lost_) return absl::InternalError("CUDA error: an illegal memory access was encountered");
      std::copy(from.begin(), from.end(), to.begin());
      return absl::OkStatus();
    }
    const bool& lost_;
    const std::span<float> range_;
    std::vector<float> host_;
  };
  const bool& lost_;
  const std::unique_ptr<Device> cpu_ = OpenCpuDevice();
};

// An accused job would be stopped if this is its only worker, although a restart of the worker
// fixes the fault.
TEST_F(SessionTest, LostDeviceDoesNotFailTheJob) {
  bool lost = false;
  factory_.device = [&lost] { return std::make_unique<LosableDevice>(lost); };
  Make(ToySpec());
  Join();
  Train(2);
  lost = true;
  factory_.broken = absl::UnavailableError("the GPU is lost");
  for (int turn = 0; turn < 20 && !session_->exit().has_value(); ++turn) Turn();
  ASSERT_TRUE(session_->exit().has_value());
  EXPECT_TRUE(session_->exit()->device_lost);
  EXPECT_EQ(session_->exit()->text, "the GPU is lost");
  EXPECT_EQ(Count<JobFailure>(), 0);
  EXPECT_EQ(Count<LeaseReturn>(), 1);
  EXPECT_TRUE(std::holds_alternative<Leaving>(link_.said.back()));
}

// Not only steps need the device: a process with a dead device is useless for any job.
class SessionWithLosableDevice : public SessionTest {
 protected:
  SessionWithLosableDevice() {
    factory_.device = [this] { return std::make_unique<LosableDevice>(lost_); };
    Make(ToySpec());
  }
  void Lose() {
    lost_ = true;
    factory_.lost = absl::UnavailableError("the GPU is lost");
  }
  void ExpectLeftFor(const char* why) {
    for (int turn = 0; turn < 20 && !session_->exit().has_value(); ++turn) Turn();
    ASSERT_TRUE(session_->exit().has_value());
    EXPECT_TRUE(session_->exit()->device_lost);
    EXPECT_EQ(session_->exit()->text, why);
    EXPECT_EQ(Count<JobFailure>(), 0);
    EXPECT_EQ(Count<EvaluationDone>(), 0);
    EXPECT_TRUE(std::holds_alternative<Leaving>(link_.said.back()));
  }
  bool lost_ = false;
};

TEST_F(SessionWithLosableDevice, LeavesWhenItIsLostAtASync) {
  Join();
  Lease();
  while (session_->core().clock_step() < ToySpec().sync.inner_steps) {
    ASSERT_FALSE(session_->exit().has_value());
    if (session_->core().clock_step() + 1 == ToySpec().sync.inner_steps) Lose();
    session_->Turn();
  }
  ExpectLeftFor("the GPU is lost");
}

// The core waits for the result of the step.
TEST_F(SessionWithLosableDevice, LeavesWhenItIsLostInAStepThatFailsOtherwise) {
  Join();
  Train(2);
  Lose();
  factory_.broken = absl::ResourceExhaustedError("out of memory");
  ExpectLeftFor("the GPU is lost");
}

TEST_F(SessionWithLosableDevice, LeavesWhenItIsLostInAnEvaluation) {
  Join();
  Lose();
  factory_.unread = absl::InternalError("CUDA error: an illegal memory access was encountered");
  Post(EvaluationAssigned{kJob, 7, {Version{0}}, 10});
  ExpectLeftFor("the GPU is lost");
}

TEST_F(SessionWithLosableDevice, LeavesWhenItIsLostBeforeAJob) {
  factory_.failure = absl::InternalError("CUDA error: an illegal memory access was encountered");
  Lose();
  Join();
  ExpectLeftFor("the GPU is lost");
}

}  // namespace
}  // namespace atl
