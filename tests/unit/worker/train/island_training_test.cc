// SPDX-License-Identifier: Apache-2.0
// Several trainers train as one: the ranks are threads of this process, over real sockets.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "common/base/random.h"
#include "tests/unit/worker/island/island_of_threads.h"
#include "tests/unit/worker/train/host_kernels.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/cpu_step_kernels.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

constexpr uint32_t kLength = 33;
constexpr int kSteps = 4;

std::vector<int32_t> Tokens(uint32_t sequences, uint64_t key) {
  Rng rng(key);
  std::vector<int32_t> out(size_t{sequences} * kLength);
  for (int32_t& t : out) t = static_cast<int32_t>(rng.Below(256));
  return out;
}

struct Trained {
  std::vector<float> gradients, parameters, first, second;
  std::vector<double> losses, norms;
  uint64_t tokens = 0;  // of the last step
};

std::vector<float> Copy(Arena& arena) { return {arena.host().begin(), arena.host().end()}; }

std::unique_ptr<Trainer> MakeTrainer(const JobSpec& job, const Clock& clock, Island* island,
                                     StepKernels* kernels = nullptr, HostFeed* feed = nullptr) {
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kStrided, 1);
  TrainerOptions options;
  options.available_bytes = uint64_t{8} << 30;
  options.island = island;
  options.kernels = kernels;
  options.feed = feed;
  options.bf16_products = true;  // on any machine, for jobs in bf16
  auto made = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(made.ok()) << made.status();
  InitialParameters(layout, 7, 0, (*made)->parameters().host());
  return *std::move(made);
}

Trained Take(Trainer& trainer, const std::function<absl::StatusOr<StepReport>(uint64_t key)>& step) {
  Trained out;
  for (uint64_t key = 0; key < kSteps; ++key) {
    const auto report = step(key);
    EXPECT_TRUE(report.ok() && report->applied) << report.status();
    if (!report.ok()) return out;
    out.losses.push_back(report->loss);
    out.norms.push_back(report->grad_norm);
    out.tokens = report->tokens;
    if (key == 0) out.gradients = Copy(trainer.gradients());  // before the parameters diverge
  }
  out.parameters = Copy(trainer.parameters());
  out.first = Copy(*trainer.first_moments());
  out.second = Copy(*trainer.second_moments());
  return out;
}

Trained TrainAlone(const JobSpec& job) {
  const SystemClock clock;
  const auto trainer = MakeTrainer(job, clock, nullptr);
  const uint32_t all = job.batch.sequences_per_step;
  return Take(*trainer, [&](uint64_t key) { return trainer->Step({Tokens(all, key), all}, 1e-3); });
}

// Rank i takes `shares[i]` sequences of each batch.
std::vector<Trained> TrainIsland(const JobSpec& job, const std::vector<uint32_t>& shares) {
  IslandOfThreads island(static_cast<uint32_t>(shares.size()));
  std::vector<Trained> out(shares.size());
  island.Run([&](TcpIsland& mine) {
    const SystemClock clock;
    const auto trainer = MakeTrainer(job, clock, &mine);
    uint32_t all = 0, first = 0;
    for (uint32_t rank = 0; rank < shares.size(); ++rank) {
      if (rank < mine.rank()) first += shares[rank];
      all += shares[rank];
    }
    const uint32_t count = shares[mine.rank()];
    out[mine.rank()] = Take(*trainer, [&](uint64_t key) {
      const std::vector<int32_t> tokens = Tokens(all, key);
      const auto share = std::span(tokens).subspan(size_t{first} * kLength, size_t{count} * kLength);
      return trainer->StepShare({share, count}, uint64_t{all} * (kLength - 1), 1e-3);
    });
  });
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectSameBits(const Trained& a, const Trained& b) {
  EXPECT_TRUE(SameBits(a.gradients, b.gradients));
  EXPECT_TRUE(SameBits(a.parameters, b.parameters));
  EXPECT_TRUE(SameBits(a.first, b.first));
  EXPECT_TRUE(SameBits(a.second, b.second));
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.tokens, b.tokens);
}

JobSpec JobOf(uint32_t sequences, uint32_t micro, Precision precision = Precision::kFp32) {
  JobSpec job = TinyJob();
  job.model.precision = precision;
  job.batch.sequences_per_step = sequences;
  job.batch.micro_batch = micro;
  return job;
}

class IslandTraining : public testing::TestWithParam<uint32_t> {};

TEST_P(IslandTraining, EqualsOneProcessWithTheWholeBatch) {
  const uint32_t world = GetParam();
  const JobSpec job = JobOf(8, 8 / world);
  const std::vector<Trained> ranks = TrainIsland(job, std::vector<uint32_t>(world, 8 / world));
  for (const Trained& rank : ranks) ExpectSameBits(rank, ranks[0]);
  // In passes of the same size, and in one: other sums inside the matrix products, the bound of
  // accumulation.
  for (const Trained& alone : {TrainAlone(job), TrainAlone(JobOf(8, 8))}) {
    EXPECT_EQ(alone.tokens, 8u * 32);
    for (size_t i = 0; i < alone.gradients.size(); ++i) {
      ASSERT_NEAR(ranks[0].gradients[i], alone.gradients[i], 1e-7 + 2e-5 * std::abs(alone.gradients[i])) << i;
    }
    for (size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 1e-5);
  }
}

// The relative difference of a tensor's gradient, |a - b| / |b|, the largest of all tensors.
double LargestDifference(const JobSpec& job, const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (const TensorInfo& tensor : MakeModelLayout(job.model, FragmentPattern::kStrided, 1).tensors) {
    double apart = 0, all = 0;
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i) {
      apart += std::pow(double{a[i]} - b[i], 2);
      all += std::pow(double{b[i]}, 2);
    }
    largest = std::max(largest, std::sqrt(apart / all));
  }
  return largest;
}

// In passes of the same size only sums in fp32 differ. In one pass a gradient of a weight is
// rounded to bf16 once instead of once a pass.
TEST_P(IslandTraining, EqualsOneProcessInBf16WithinItsRounding) {
  const uint32_t world = GetParam();
  const JobSpec job = JobOf(8, 8 / world, Precision::kBf16);
  const Trained rank = TrainIsland(job, std::vector<uint32_t>(world, 8 / world))[0];
  const Trained alike = TrainAlone(job), whole = TrainAlone(JobOf(8, 8, Precision::kBf16));
  EXPECT_LE(LargestDifference(job, rank.gradients, alike.gradients), 1e-6);
  EXPECT_LE(LargestDifference(job, rank.gradients, whole.gradients), 0x1p-8);
  ASSERT_EQ(rank.losses.size(), size_t{kSteps});
  for (size_t i = 0; i < rank.losses.size(); ++i) {
    EXPECT_NEAR(rank.losses[i], alike.losses[i], 1e-5);
    EXPECT_NEAR(rank.losses[i], whole.losses[i], 1e-3);
  }
}

TEST_P(IslandTraining, RepeatsBitForBit) {
  const uint32_t world = GetParam();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const JobSpec job = JobOf(8, 8 / world, precision);
    const std::vector<uint32_t> shares(world, 8 / world);
    const std::vector<Trained> once = TrainIsland(job, shares), again = TrainIsland(job, shares);
    for (uint32_t rank = 0; rank < world; ++rank) {
      ExpectSameBits(once[rank], once[0]);
      ExpectSameBits(once[rank], again[rank]);
      EXPECT_EQ(once[rank].losses, again[rank].losses);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, IslandTraining, testing::Values(2, 4));

class IslandShares : public testing::TestWithParam<uint32_t> {};

// In one pass, in several, and in none.
TEST_P(IslandShares, SharesAreWeightedByTheirTargets) {
  const Trained alone = TrainAlone(JobOf(6, 6));
  for (const std::vector<uint32_t>& shares : {std::vector<uint32_t>{3, 2, 1}, {4, 2}, {6, 0}, {0, 3, 3}}) {
    const std::vector<Trained> ranks = TrainIsland(JobOf(6, GetParam()), shares);
    for (const Trained& rank : ranks) {
      ExpectSameBits(rank, ranks[0]);
      EXPECT_EQ(rank.tokens, 6u * 32);
      EXPECT_NEAR(rank.losses[0], alone.losses[0], 1e-6);
      for (size_t i = 0; i < alone.gradients.size(); ++i) {
        ASSERT_NEAR(rank.gradients[i], alone.gradients[i], 1e-7 + 2e-5 * std::abs(alone.gradients[i])) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, IslandShares, testing::Values(6, 2, 1));

// Rank 0 has all sequences. Its step takes longer than a working rank waits, and longer than it may
// be silent. The first step passes, as the ranks agree on kernels there.
TEST(IslandTraining, ARankWithoutAShareWaitsForAStepHoweverLongItTakes) {
  IslandOfThreads island(2);
  std::atomic<int> looks{0};  // of the clock, before rank 1 waits in its second step
  island.Run([&](TcpIsland& mine) {
    const SystemClock clock;
    const auto trainer = MakeTrainer(JobOf(4, 4), clock, &mine);
    const uint32_t share = mine.rank() == 0 ? 4 : 0;
    for (uint64_t key = 0; key < 3; ++key) {
      if (key == 1 && mine.rank() == 1) looks = island.clock.looks();
      if (key == 1 && mine.rank() == 0) {
        while (looks == 0) std::this_thread::yield();
        island.clock.AwaitLooks(looks, kEntering);
        StayAway(mine, island.clock, mine.Silence() * 3);
      }
      const auto tokens = share > 0 ? Tokens(share, key) : std::vector<int32_t>();
      const auto report = trainer->StepShare({tokens, share}, uint64_t{4} * (kLength - 1), 1e-3);
      ASSERT_TRUE(report.ok() && report->applied) << "rank " << mine.rank() << ": " << report.status();
    }
  });
}

// Trains two ranks with these kernels; `refused` receives the reasons why they stop using them.
std::vector<Trained> TrainWithKernels(std::array<StepKernels*, 2> kernels, std::array<absl::Status, 2>& refused) {
  IslandOfThreads island(2);
  std::vector<Trained> out(2);
  island.Run([&](TcpIsland& mine) {
    const SystemClock clock;
    const auto trainer = MakeTrainer(JobOf(4, 2), clock, &mine, kernels[mine.rank()]);
    out[mine.rank()] = Take(*trainer, [&](uint64_t key) {
      return trainer->StepShare({Tokens(2, key * 2 + mine.rank()), 2}, 4 * (kLength - 1), 1e-3);
    });
    refused[mine.rank()] = trainer->kernels_refused();
  });
  return out;
}

constexpr int kComparison = 4;  // updates before training

TEST(IslandTraining, RanksUseTheKernelsOfTheirDevicesTogether) {
  HostKernels first, second;
  std::array<absl::Status, 2> refused;
  const std::vector<Trained> ranks = TrainWithKernels({&first, &second}, refused);
  EXPECT_TRUE(refused[0].ok() && refused[1].ok()) << refused[0] << refused[1];
  EXPECT_GT(first.updates, kComparison);
  EXPECT_EQ(first.updates, second.updates);
  ExpectSameBits(ranks[0], ranks[1]);
}

TEST(IslandTraining, RanksOnCpusUseTheirKernelsTogether) {
  CpuStepKernels cpu;
  HostKernels first, second;
  std::array<absl::Status, 2> refused;
  const std::vector<Trained> ranks = TrainWithKernels({&cpu, &cpu}, refused);
  EXPECT_TRUE(refused[0].ok() && refused[1].ok()) << refused[0] << refused[1];
  ExpectSameBits(ranks[0], ranks[1]);
  ExpectSameBits(ranks[0], TrainWithKernels({&first, &second}, refused)[0]);
}

TEST(IslandTraining, KernelsThatOneRankDoesWithoutAreUsedByNone) {
  std::array<absl::Status, 2> refused;
  const std::vector<Trained> wanted = TrainWithKernels({nullptr, nullptr}, refused);
  HostKernels right, wrong(HostKernels::Mistake::kNoDecay);
  for (StepKernels* const other : {static_cast<StepKernels*>(&wrong), static_cast<StepKernels*>(nullptr)}) {
    right.updates = 0;
    const std::vector<Trained> ranks = TrainWithKernels({&right, other}, refused);
    EXPECT_EQ(right.updates, kComparison) << "kernels were used by one rank alone";
    EXPECT_NE(refused[0].message().find("1 of 2 ranks of the island cannot use"), std::string::npos) << refused[0];
    for (uint32_t rank = 0; rank < 2; ++rank) ExpectSameBits(ranks[rank], wanted[rank]);
  }
}

TEST(IslandTraining, AStepThatIsNotFiniteAtOneRankIsAppliedAtNone) {
  IslandOfThreads island(2);
  island.Run([&](TcpIsland& mine) {
    const SystemClock clock;
    const auto trainer = MakeTrainer(JobOf(4, 2), clock, &mine);
    if (mine.rank() == 1) trainer->parameters().host()[40] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before = Copy(trainer->parameters());
    std::vector<int32_t> tokens(2 * kLength);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(i % 256);  // also row 1 of the embedding
    const auto report = trainer->StepShare({tokens, 2}, 4 * (kLength - 1), 1e-3);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->applied);
    EXPECT_TRUE(SameBits(before, Copy(trainer->parameters())));
    EXPECT_EQ(trainer->optimizer_steps(), 0u);
  });
}

// A device that runs out of memory at pass `fails_at`.
class FullDevice final : public HostFeed {
 public:
  absl::Status Put(Bytes bytes, void* to, void* /*compute_stream*/) override {
    if (++passes == fails_at) return absl::ResourceExhaustedError("out of memory");
    std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  int passes = 0, fails_at = 0;
};

// Steps of 8 sequences per rank, 4 at once: the first of two passes fails, in the first step or a
// later one.
TEST(IslandTraining, AStepThatRunsOutOfMemoryIsBegunAgainWithHalfTheMicroBatch) {
  const std::vector<Trained> wanted = TrainIsland(JobOf(16, 4), {8, 8});
  for (const int fails_at : {1, 3, 5}) {
    IslandOfThreads island(2);
    std::vector<Trained> ranks(2);
    island.Run([&](TcpIsland& mine) {
      const SystemClock clock;
      FullDevice device;
      if (mine.rank() == 0) device.fails_at = fails_at;
      const auto trainer = MakeTrainer(JobOf(4, 0), clock, &mine, nullptr, &device);
      EXPECT_EQ(trainer->micro_batch(), 4u);
      ranks[mine.rank()] = Take(*trainer, [&](uint64_t key) {
        const std::vector<int32_t> tokens = Tokens(16, key);
        const auto share = std::span(tokens).subspan(size_t{mine.rank()} * 8 * kLength, size_t{8} * kLength);
        auto report = trainer->StepShare({share, 8}, uint64_t{16} * (kLength - 1), 1e-3);
        if (!report.ok()) mine.Break(std::string(report.status().message()));
        return report;
      });
      EXPECT_EQ(trainer->micro_batch(), mine.rank() == 0 ? 2u : 4u);
    });
    ExpectSameBits(ranks[0], ranks[1]);
    ASSERT_EQ(ranks[0].losses.size(), wanted[0].losses.size()) << "pass " << fails_at;
    for (size_t i = 0; i < wanted[0].losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], wanted[0].losses[i], 1e-5);
  }
}

TEST(IslandTraining, ALostRankLeavesParametersAndMomentsAsTheyWere) {
  IslandOfThreads island(3);
  island.Run(
      [&](TcpIsland& mine) {
        const SystemClock clock;
        const auto trainer = MakeTrainer(JobOf(6, 2), clock, &mine);
        if (mine.rank() == 2) return;
        const std::vector<float> before = Copy(trainer->parameters());
        const auto report = trainer->StepShare({Tokens(2, mine.rank()), 2}, 6 * (kLength - 1), 1e-3);
        EXPECT_EQ(report.status().code(), absl::StatusCode::kUnavailable) << report.status();
        EXPECT_NE(report.status().message().find("rank 2 of the island ended"), std::string::npos) << report.status();
        EXPECT_TRUE(SameBits(before, Copy(trainer->parameters())));
        EXPECT_EQ(trainer->optimizer_steps(), 0u);
      },
      /*dying=*/true);
}

}  // namespace
}  // namespace atl
