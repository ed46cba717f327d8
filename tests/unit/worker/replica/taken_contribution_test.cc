// SPDX-License-Identifier: Apache-2.0
// Contributions formed, and updates merged, outside the replica: it continues as if it had done so
// itself.
#include <algorithm>
#include <span>
#include <vector>

#include "common/vecmath/vecmath.h"
#include "tests/unit/worker/replica/replica_bench.h"

namespace atl {
namespace {

// Forms the parts of BeginForming by hand.
std::vector<FormedBlock> FormedByHand(CodecKind codec, const ContributionParts& parts, std::span<const float> local,
                                      std::vector<std::byte>& encoded) {
  std::vector<FormedBlock> blocks;
  std::vector<float> h(kCodecBlock), lost(kCodecBlock);
  encoded.resize(EncodedSize(codec, local.size()));
  for (size_t at = 0; at < local.size(); at += kCodecBlock) {
    const size_t count = std::min(kCodecBlock, local.size() - at);
    const std::span<float> sent = std::span(h).first(count), rest = std::span(lost).first(count);
    const auto residual = parts.residual.empty() ? parts.residual : parts.residual.subspan(at, count);
    FormedBlock block;
    block.sent = vecmath::PseudoGradient(parts.outer.subspan(at, count), local.subspan(at, count), residual, sent);
    const ByteRange range = EncodedRange(codec, at, count);
    Encode(codec, sent, std::span(encoded).subspan(range.offset, range.bytes));
    Decode(codec, Bytes(encoded).subspan(range.offset, range.bytes), rest);
    vecmath::Subtract(sent, rest, rest);
    block.lost_squares = vecmath::BlockSquares(rest);
    if (!parts.lost.empty()) std::copy(rest.begin(), rest.end(), parts.lost.begin() + static_cast<ptrdiff_t>(at));
    blocks.push_back(block);
  }
  return blocks;
}

// Equal contributions and residuals over several rounds, with the error memory in the caller's
// memory.
TEST(TakeFormed, IsAsIfFormedHere) {
  for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback}) {
    ReplicaOptions options{.upload_codec = CodecKind::kMxfp4, .upload_error_memory = memory};
    Bench here(options);
    std::vector<float> residual(kElements), pending(kElements);
    options.error_places = {residual, pending};
    Bench elsewhere(options);
    for (uint64_t round = 0; round < 3; ++round) {
      here.local = elsewhere.local = Normals(20 + round);
      const auto formed = here.replica.FormContribution(here.local);
      ASSERT_TRUE(formed.ok()) << formed.status();
      const auto parts = elsewhere.replica.BeginForming();
      ASSERT_TRUE(parts.ok()) << parts.status();
      EXPECT_EQ(parts->lost.data(), memory == ErrorMemory::kOff ? nullptr : pending.data());
      std::vector<std::byte> encoded;
      const auto blocks = FormedByHand(CodecKind::kMxfp4, *parts, elsewhere.local, encoded);
      const auto taken = elsewhere.replica.TakeFormed(encoded, blocks);
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(*(*taken)->encoded, *(*formed)->encoded);
      EXPECT_EQ((*taken)->digest, (*formed)->digest);
      EXPECT_EQ((*taken)->norm, (*formed)->norm);
      EXPECT_EQ((*taken)->lost_norm, (*formed)->lost_norm);
      EXPECT_EQ((*taken)->version, (*formed)->version);
      EXPECT_EQ(elsewhere.replica.BeginForming().status().code(), absl::StatusCode::kFailedPrecondition);
      for (Bench* bench : {&here, &elsewhere}) {
        const auto update = bench->Update(Normals(40 + round, kElements, 0.1f));
        ASSERT_TRUE(bench->replica.ApplyUpdate(update, Standing::kContributor).ok());
      }
      ASSERT_TRUE(here.replica.ResolveAsContributor(here.local, 0.25).ok());
      ASSERT_TRUE(elsewhere.replica.CheckMayMerge(0.25).ok());
      EXPECT_EQ(elsewhere.replica.CheckMayMerge(1.5).code(), absl::StatusCode::kInvalidArgument);
      vecmath::Merge(0.25, elsewhere.outer, elsewhere.local);
      ASSERT_TRUE(elsewhere.replica.ResolveMerged(0.25).ok());
      EXPECT_EQ(elsewhere.replica.ResolveMerged(0.25).code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(elsewhere.replica.Residual(), here.replica.Residual());
    }
    ASSERT_TRUE(elsewhere.replica.AdoptOuter(elsewhere.local).ok());
    EXPECT_EQ(residual, std::vector<float>(kElements)) << "cleared in its place";
  }
}

TEST(TakeFormed, RefusesIncompleteAndNonFiniteContributions) {
  Bench bench({.upload_codec = CodecKind::kInt8, .upload_error_memory = ErrorMemory::kFeedback});
  const auto parts = bench.replica.BeginForming();
  ASSERT_TRUE(parts.ok());
  std::vector<std::byte> encoded;
  auto blocks = FormedByHand(CodecKind::kInt8, *parts, bench.local, encoded);
  EXPECT_EQ(bench.replica.TakeFormed(Bytes(encoded).first(10), blocks).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bench.replica.TakeFormed(encoded, std::span(blocks).first(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  blocks[1].sent.finite = false;
  const absl::Status refused = bench.replica.TakeFormed(encoded, blocks).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("in the block at element 4096"), std::string::npos) << refused;
  EXPECT_EQ(bench.replica.unresolved(), nullptr);
  EXPECT_TRUE(bench.replica.PendingLoss().empty());
  Bench loco({.upload_error_memory = ErrorMemory::kLoco});
  EXPECT_EQ(loco.replica.BeginForming().status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace atl
