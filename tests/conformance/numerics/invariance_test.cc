// SPDX-License-Identifier: Apache-2.0
// Results do not depend on the order of arrival or the number of threads, and replicas stay equal
// bit for bit with lossy codecs.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "tests/conformance/numerics/loop.h"

namespace atl::numerics {
namespace {

constexpr size_t kWorkers = 5;
const std::vector<uint64_t> kFragments = {2 * kCodecBlock + 33, kCodecBlock, 777};
constexpr size_t kElements = 3 * kCodecBlock + 810;

std::vector<float> Start() {
  std::vector<float> start(kElements);
  for (size_t i = 0; i < start.size(); ++i) start[i] = NormalAt(1, i);
  return start;
}

void Train(size_t worker, uint64_t step, std::span<float> local) {
  const uint64_t key = StreamKey(worker, "steps");
  for (size_t i = 0; i < local.size(); ++i) {
    const double noise = static_cast<double>(Philox(key, step * kElements + i)[0]) * 0x1p-32 - 0.5;
    local[i] = local[i] * 0.999f + static_cast<float>(noise) * 0.01f;
  }
}

LoopOptions Lossy(CodecKind upload, CodecKind download) {
  return {.inner_steps = 6,
          .overlap_steps = 2,
          .mix = 0.5,
          .upload_codec = upload,
          .upload_error_memory = ErrorMemory::kFeedback,
          .outer = {.kind = OuterKind::kNesterov, .learning_rate = 0.7, .momentum = 0.9, .download_codec = download}};
}

std::vector<Digest> HashesOf(size_t rotation, unsigned threads, CodecKind codec) {
  LoopOptions options = Lossy(codec, codec);
  options.threads = threads;
  Loop loop(LayoutOf(kFragments), options, Start(), kWorkers);
  for (uint64_t step = 1; step <= 14; ++step) {
    loop.set_rotation(rotation * step);
    loop.Step(Train);
  }
  std::vector<Digest> hashes;
  for (const RoundResult& round : loop.rounds()) {
    hashes.push_back(round.hash);
    hashes.push_back(round.update_digest);
  }
  return hashes;
}

TEST(CloseRound, NeitherArrivalNorThreadsMatter) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kMxfp4}) {
    const std::vector<Digest> wanted = HashesOf(0, 1, codec);
    ASSERT_GE(wanted.size(), 12u);
    for (const size_t rotation : {1u, 2u, 4u}) EXPECT_EQ(HashesOf(rotation, 1, codec), wanted) << CodecName(codec);
    for (const unsigned threads : {2u, 3u, 16u}) EXPECT_EQ(HashesOf(3, threads, codec), wanted) << CodecName(codec);
  }
}

// Stands for another type of CPU: every instruction set of this CPU gives the same hashes.
TEST(CloseRound, TheInstructionSetDoesNotMatter) {
  for (const CodecKind codec : {CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8}) {
    const std::vector<Digest> wanted = HashesOf(0, 1, codec);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      EXPECT_EQ(HashesOf(0, 1, codec), wanted) << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// Norms and directions are the same to the last bit, too.
TEST(CloseRound, SumsDoNotDependOnThreads) {
  const auto report = [](unsigned threads) {
    LoopOptions options = Lossy(CodecKind::kFp16, CodecKind::kFp16);
    options.threads = threads;
    Loop loop(LayoutOf(kFragments), options, Start(), kWorkers);
    for (uint64_t step = 1; step <= 6; ++step) loop.Step(Train);
    std::vector<double> sums;
    for (const RoundResult& round : loop.rounds()) {
      sums.insert(sums.end(), {round.merged_norm, round.outer_step_norm, round.download_error,
                               round.step_alignment.value_or(9), round.momentum_alignment.value_or(9)});
      for (const ContributionReport& c : round.contributions)
        sums.insert(sums.end(), {c.norm, c.cosine_to_merged, c.weight});
    }
    return sums;
  };
  EXPECT_EQ(report(1), report(4));
}

// The loop itself stops the test when a hash differs. This test compares the copies, with workers
// left out at times.
TEST(Replicas, StayEqualBitForBitOverManyRounds) {
  const std::vector<std::pair<CodecKind, CodecKind>> pairs = {
      {CodecKind::kBf16, CodecKind::kBf16},   {CodecKind::kFp16, CodecKind::kBf16},
      {CodecKind::kBf16, CodecKind::kFp16},   {CodecKind::kInt8, CodecKind::kInt8},
      {CodecKind::kMxfp4, CodecKind::kMxfp4}, {CodecKind::kE3m0, CodecKind::kFp32}};
  for (const auto& [upload, download] : pairs) {
    SCOPED_TRACE(std::string(CodecName(upload)) + " up, " + CodecName(download) + " down");
    Loop loop(LayoutOf(kFragments), Lossy(upload, download), Start(), 3);
    loop.set_arrives([](size_t worker, FragmentIndex fragment, uint64_t step) {
      return worker == 0 || (step + worker + fragment.value) % 4 != 0;
    });
    for (uint64_t step = 1; step <= 60; ++step) loop.Step(Train);
    ASSERT_GE(loop.rounds().size(), 27u);
    for (uint32_t f = 0; f < kFragments.size(); ++f) {
      const FragmentStateView state = loop.aggregator().State(FragmentIndex{f});
      for (size_t w = 0; w < 3; ++w) {
        EXPECT_EQ(loop.replica(w, f).version().value + (loop.replica(w, f).unresolved() != nullptr ? 1 : 0),
                  state.version.value);
        if (loop.replica(w, f).version() == state.version) {
          EXPECT_TRUE(std::ranges::equal(loop.replica(w, f).outer(), state.public_copy));
        }
      }
      EXPECT_TRUE(std::ranges::equal(loop.replica(0, f).outer(), loop.replica(2, f).outer()));
    }
  }
}

// With feedback on the download leg, public + residual is the virtual master: the result of a
// lossless download, up to fp32 rounding. Without feedback the error of each update is lost.
TEST(DownloadResidual, KeepsTheVirtualMaster) {
  const auto master = [](CodecKind download, ErrorMemory memory) {
    LoopOptions options = {
        .inner_steps = 1,
        .outer = {
            .kind = OuterKind::kSgd, .learning_rate = 1, .download_codec = download, .download_error_memory = memory}};
    std::vector<float> start(512, 1.0f);
    Loop loop(LayoutOf({512}), options, start, 1);
    for (uint64_t step = 1; step <= 200; ++step) {
      loop.Step([](size_t, uint64_t, std::span<float> local) {
        for (size_t i = 0; i < local.size(); ++i) local[i] -= 1e-4f * (1.0f + static_cast<float>(i) / 700.0f);
      });
    }
    const FragmentStateView state = loop.aggregator().State(FragmentIndex{0});
    std::vector<double> sum(512);
    for (size_t i = 0; i < 512; ++i) {
      sum[i] = static_cast<double>(state.public_copy[i]) + static_cast<double>(state.residual[i]);
    }
    return sum;
  };
  const std::vector<double> exact = master(CodecKind::kFp32, ErrorMemory::kOff);
  const std::vector<double> with = master(CodecKind::kMxfp4, ErrorMemory::kFeedback);
  const std::vector<double> without = master(CodecKind::kMxfp4, ErrorMemory::kOff);
  double worst_with = 0, worst_without = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    worst_with = std::max(worst_with, std::fabs(with[i] - exact[i]));
    worst_without = std::max(worst_without, std::fabs(without[i] - exact[i]));
  }
  EXPECT_LT(worst_with, 200 * 0x1p-23);
  EXPECT_GT(worst_without, 50 * worst_with);
}

// LoCo on the download leg: the memory holds 8-bit values, does not grow, and is zero after every
// reset. Replicas stay equal to the public copy whatever the memory is.
TEST(DownloadResidual, LocoAveragesInEightBitsAndIsCleared) {
  LoopOptions options = {.inner_steps = 1,
                         .outer = {.kind = OuterKind::kSgd,
                                   .learning_rate = 1,
                                   .download_codec = CodecKind::kMxfp4,
                                   .download_error_memory = ErrorMemory::kLoco,
                                   .loco = {.beta = 0.8, .reset_syncs = 5}}};
  std::vector<float> start(5000, 1.0f);
  Loop loop(LayoutOf({5000}), options, start, 2);
  for (uint64_t step = 1; step <= 23; ++step) {
    loop.Step([](size_t worker, uint64_t at, std::span<float> local) {
      for (size_t i = 0; i < local.size(); ++i) {
        local[i] -= 1e-4f * (1.0f + static_cast<float>((i * 7 + at + worker) % 101) / 50.0f);
      }
    });
    const FragmentStateView state = loop.aggregator().State(FragmentIndex{0});
    EXPECT_TRUE(std::ranges::equal(loop.outer(0), state.public_copy));
    const bool zero = std::ranges::all_of(state.residual, [](float r) { return r == 0; });
    EXPECT_EQ(zero, state.version.value % 5 == 0) << "version " << state.version.value;
    EXPECT_LT(vecmath::MaxAbs(state.residual), 3e-4f);
  }
}

}  // namespace
}  // namespace atl::numerics
