// SPDX-License-Identifier: Apache-2.0
// Operations with several threads give the same results as with one.
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/replica/replica_bench.h"

namespace atl {
namespace {

// Two chunks of blocks, a chunk of one whole block and a block of 500.
constexpr size_t kMany = (2 * 16 + 1) * kCodecBlock + 500;

TEST(SharedLoops, ContributionsUpdatesAndMergesAreThoseOfOneThread) {
  const std::vector<float> start = Normals(1, kMany), steps = Normals(2, kMany, 0.01f),
                           change = Normals(3, kMany, 0.1f);
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kInt8, CodecKind::kMxfp4}) {
    for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco}) {
      const ReplicaOptions options{.upload_codec = codec, .download_codec = codec, .upload_error_memory = memory};
      Bench one(options, start), shared(options, start);
      for (int round = 0; round < 2; ++round) {  // the second with the loss of the first one's codec
        for (Bench* bench : {&one, &shared}) {
          const unsigned threads = bench == &one ? 1 : 3;
          for (size_t i = 0; i < kMany; ++i) bench->local[i] -= steps[i];
          ASSERT_TRUE(bench->replica.FormContribution(bench->local, threads).ok());
        }
        const StoredContribution &alone = *one.replica.unresolved(), &together = *shared.replica.unresolved();
        EXPECT_EQ(alone.digest, together.digest);
        EXPECT_EQ(*alone.encoded, *together.encoded);
        EXPECT_EQ(alone.norm, together.norm);
        EXPECT_EQ(alone.lost_norm, together.lost_norm);
        for (Bench* bench : {&one, &shared}) {
          const unsigned threads = bench == &one ? 1 : 3;
          const OuterUpdate update = bench->Update(change);
          const auto verdict = bench->replica.ApplyUpdate(update, Standing::kContributor, threads);
          ASSERT_TRUE(verdict.ok()) << verdict.status();
          EXPECT_EQ(*verdict, ApplyVerdict::kApplied);
          EXPECT_TRUE(bench->replica.ResolveAsContributor(bench->local, 0.3, threads).ok());
        }
        EXPECT_EQ(one.outer, shared.outer);
        EXPECT_EQ(one.local, shared.local);
        EXPECT_EQ(one.replica.Residual(), shared.replica.Residual());
      }
    }
  }
}

TEST(SharedLoops, ADeviantUpdateIsSeen) {
  Bench bench({}, Normals(1, kMany));
  ASSERT_TRUE(bench.replica.FormContribution(bench.local, 3).ok());
  OuterUpdate update = bench.Update(Normals(3, kMany, 0.1f));
  ++update.hash.low;
  EXPECT_EQ(*bench.replica.ApplyUpdate(update, Standing::kContributor, 3), ApplyVerdict::kDeviant);
  EXPECT_EQ(bench.replica.state(), ReplicaState::kDeviant);
}

TEST(SharedLoops, TheFirstBlockThatIsNotFiniteIsNamed) {
  Bench bench({}, Normals(1, kMany));
  for (const size_t at : {17 * kCodecBlock + 3, 20 * kCodecBlock, kMany - 1}) bench.local[at] = NAN;
  for (const unsigned threads : {1u, 3u}) {
    const absl::Status refused = bench.replica.FormContribution(bench.local, threads).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_NE(refused.message().find(absl::StrCat("the block at element ", 17 * kCodecBlock, " ")), std::string::npos)
        << refused;
    EXPECT_EQ(bench.replica.unresolved(), nullptr);
  }
}

}  // namespace
}  // namespace atl
