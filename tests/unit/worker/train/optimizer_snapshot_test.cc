// SPDX-License-Identifier: Apache-2.0
#include "worker/train/optimizer_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/random.h"
#include "common/plan/model_layout.h"
#include "tests/unit/common/format/temp_dir.h"
#include "tests/unit/worker/train/tiny_job.h"

namespace atl {
namespace {

using testing::Each;
using testing::HasSubstr;

class OptimizerSnapshotTest : public testing::Test {
 protected:
  OptimizerSnapshotTest() { facts_ = {JobId{"job"}, layout_.digest, 40, {{7}, {2}}}; }

  std::unique_ptr<Trainer> Make() {
    auto made = Trainer::Create(spec_, layout_, {.available_bytes = uint64_t{8} << 30}, clock_);
    EXPECT_TRUE(made.ok()) << made.status();
    InitialParameters(layout_, 7, 0, (*made)->parameters().host());
    return *std::move(made);
  }
  static void Step(Trainer& trainer, uint64_t key) {
    Rng rng(key);
    std::vector<int32_t> tokens(size_t{4} * 33);
    for (int32_t& t : tokens) t = static_cast<int32_t>(rng.Below(256));
    ASSERT_TRUE(trainer.Step({tokens, 4}, 1e-3)->applied);
  }
  // A trainer with its snapshot at path_, taken at step 40.
  std::unique_ptr<Trainer> Keep() {
    auto trainer = Make();
    for (uint64_t key = 0; key < 3; ++key) Step(*trainer, key);
    EXPECT_EQ(WriteOptimizerSnapshot(*files_, path_, facts_, *trainer), absl::OkStatus());
    return trainer;
  }
  absl::Status Read(Trainer& trainer) { return ReadOptimizerSnapshot(*files_, path_, facts_, trainer).status(); }
  void ExpectAtZero(Trainer& trainer) {
    EXPECT_EQ(trainer.optimizer_steps(), 0u);
    EXPECT_THAT(trainer.first_moments()->host(), Each(0));
    EXPECT_THAT(trainer.second_moments()->host(), Each(0));
  }

  const SystemClock clock_;
  const std::unique_ptr<Files> files_ = MakePosixFiles();
  const JobSpec spec_ = TinyJob();
  const ModelLayout layout_ = MakeModelLayout(spec_.model, FragmentPattern::kStrided, 1);
  const TempDir folder_;
  const std::string path_ = folder_ / "job.safetensors";
  OptimizerSnapshotFacts facts_;
};

TEST_F(OptimizerSnapshotTest, ARestartedWorkerStepsAsIfItHadNeverEnded) {
  const auto before = Keep(), after = Make();
  ASSERT_TRUE(after->parameters().Write(0, before->parameters().host()).ok());
  facts_.clock_step = 55;  // the job has continued
  const auto kept_at = ReadOptimizerSnapshot(*files_, path_, facts_, *after);
  ASSERT_TRUE(kept_at.ok()) << kept_at.status();
  EXPECT_EQ(*kept_at, 40u);
  EXPECT_EQ(after->optimizer_steps(), 3u);
  for (Trainer* trainer : {before.get(), after.get()}) Step(*trainer, 9);
  EXPECT_TRUE(std::ranges::equal(before->parameters().host(), after->parameters().host()));
}

TEST_F(OptimizerSnapshotTest, WithoutAFileItBeginsAtZero) {
  const auto trainer = Make();
  Step(*trainer, 1);
  EXPECT_TRUE(absl::IsNotFound(Read(*trainer)));
  ExpectAtZero(*trainer);
}

TEST_F(OptimizerSnapshotTest, ForeignSnapshotIsNotRestored) {
  Keep();
  const OptimizerSnapshotFacts own = facts_;
  const auto trainer = Make();
  const auto refused = [&](OptimizerSnapshotFacts facts, const char* why) {
    facts_ = std::move(facts);
    const absl::Status status = Read(*trainer);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    ExpectAtZero(*trainer);
  };
  refused({JobId{"other"}, own.layout, 40, {}}, "another job");
  refused({own.job, Digest{1, 2}, 40, {}}, "another job or model");
  refused({own.job, own.layout, 39, {}}, "saved at step 40, beyond");
  refused({own.job, own.layout, 40, {{7}, {1}}}, "saved at version 2 of fragment 1, but the job was rolled back to 1");
}

TEST_F(OptimizerSnapshotTest, ADamagedFileIsNotTaken) {
  Keep();
  std::string content;
  {
    std::ifstream in(path_, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto refused = [&](std::string damaged) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
    const auto trainer = Make();
    EXPECT_TRUE(absl::IsDataLoss(Read(*trainer)));
    ExpectAtZero(*trainer);
  };
  std::string flipped = content;
  flipped[content.size() - 9] = static_cast<char>(flipped[content.size() - 9] ^ 1);
  refused(flipped);
  refused(content.substr(0, content.size() - 4));
  refused("");
}

TEST_F(OptimizerSnapshotTest, PlainSgdHasNothingToKeep) {
  JobSpec spec = spec_;
  spec.inner.kind = InnerOptimizerSpec::Kind::kSgd;
  const auto trainer = *Trainer::Create(spec, layout_, {.available_bytes = uint64_t{8} << 30}, clock_);
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteOptimizerSnapshot(*files_, path_, facts_, *trainer)));
  EXPECT_TRUE(absl::IsNotFound(Read(*trainer)));
}

}  // namespace
}  // namespace atl
