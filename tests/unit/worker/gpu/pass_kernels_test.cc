// SPDX-License-Identifier: Apache-2.0
// The kernels of a pass on a real GPU: same cases as on the host.
#include "worker/device/pass_kernels.h"

#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/opened_plugin.h"
#include "tests/unit/worker/gpu/pass_cases.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/model/arena.h"
#include "worker/model/pass_check.h"

namespace atl {
namespace {

class OnACard : public testing::Test, public pass_cases::Place {
 protected:
  void SetUp() override {
    if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU to run a pass on: " << Plugin().reason;
    auto opened = OpenGpuDevice(Plugin().table, 0);
    ASSERT_TRUE(opened.ok()) << opened.status();
    device_ = *std::move(opened);
    ASSERT_NE(device_->pass_kernels(), nullptr);
  }

 public:
  void* Put(std::span<const std::byte> bytes) override {
    std::vector<float> floats(bytes.size() / sizeof(float) + 1);
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    auto arena = Arena::Create(floats.size(), {.gpu = true});
    EXPECT_TRUE(arena.ok() && (*arena)->Write(0, floats).ok());
    held_.push_back(*std::move(arena));
    return held_.back()->memory().data();
  }
  void Take(const void* from, std::span<std::byte> bytes) override {
    for (const std::unique_ptr<Arena>& arena : held_) {
      const auto* const begin = reinterpret_cast<const std::byte*>(arena->memory().data());
      const auto offset = static_cast<const std::byte*>(from) - begin;
      if (offset < 0 || static_cast<size_t>(offset) >= arena->memory().size_bytes()) continue;
      std::vector<float> floats(arena->memory().size());
      EXPECT_TRUE(arena->Read(0, floats).ok());
      std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(floats.data()) + offset, bytes.size());
      return;
    }
    ADD_FAILURE() << "memory that was not put";
  }
  PassKernels& kernels() override { return *device_->pass_kernels(); }

 private:
  std::vector<std::unique_ptr<Arena>> held_;
  std::unique_ptr<Device> device_;
};

TEST_F(OnACard, ScoresAreJudged) { pass_cases::ExpectJudged(*this, 20'001); }
TEST_F(OnACard, ScoresThatAreNotFiniteMakeNoLoss) { pass_cases::ExpectNotFinite(*this); }
TEST_F(OnACard, GatesAndTheirGradients) { pass_cases::ExpectGated(*this); }
TEST_F(OnACard, HeadsAreTurnedAndTurnedBack) { pass_cases::ExpectTurned(*this); }
TEST_F(OnACard, AgreesWithLibTorch) {
  const absl::Status status = CheckPassKernels(kernels(), TinyJob().model, {.gpu = true});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace atl
