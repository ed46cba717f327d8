// SPDX-License-Identifier: Apache-2.0
// Each operation of a replica, bit for bit against docs/design.md section 3, and every refusal.
#include "worker/replica/fragment_replica.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/worker/replica/replica_bench.h"

namespace atl {
namespace {

TEST(Install, TakesTheCopyOnlyWithItsHash) {
  std::vector<float> outer(3);
  auto replica = FragmentReplica::Create(outer, {.layout_digest = kLayout});
  ASSERT_TRUE(replica.ok());
  EXPECT_EQ(replica->state(), ReplicaState::kEmpty);
  const std::vector<float> fetched = {1, 2, 3};
  EXPECT_EQ(replica->Install(fetched, Version{9}, Digest{1, 1}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(replica->state(), ReplicaState::kEmpty);
  EXPECT_EQ(replica->Install(fetched, Version{8}, ContentHash(fetched, 9, kLayout)).code(),
            absl::StatusCode::kDataLoss);
  ASSERT_TRUE(replica->Install(fetched, Version{9}, ContentHash(fetched, 9, kLayout)).ok());
  EXPECT_EQ(replica->state(), ReplicaState::kReady);
  EXPECT_EQ(replica->version().value, 9u);
  EXPECT_EQ(outer, fetched);
  outer = {4, 5, 6};  // filled in place by a fetch
  ASSERT_TRUE(replica->Install(outer, Version{10}, ContentHash(outer, 10, kLayout)).ok());
  EXPECT_EQ(replica->version().value, 10u);
}

double Distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i] - b[i]), 2);
  return std::sqrt(squares);
}

TEST(FormContribution, EncodesOuterMinusLocal) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8}) {
    Bench bench({.upload_codec = codec});
    bench.local = Normals(2);
    const auto formed = bench.replica.FormContribution(bench.local);
    ASSERT_TRUE(formed.ok()) << formed.status();
    std::vector<float> delta(kElements);
    for (size_t i = 0; i < kElements; ++i) delta[i] = bench.base[i] - bench.local[i];
    EXPECT_EQ(*(*formed)->encoded, Encoded(codec, delta));
    EXPECT_EQ((*formed)->digest, DigestOf(*(*formed)->encoded));
    EXPECT_EQ((*formed)->version.value, 4u);
    EXPECT_EQ(bench.replica.unresolved(), *formed);
    EXPECT_NEAR((*formed)->norm, Distance(bench.outer, bench.local), 1e-9);
    std::vector<float> sent(kElements);
    Decode(codec, *(*formed)->encoded, sent);
    double lost = 0;
    for (size_t i = 0; i < kElements; ++i) lost += std::pow(static_cast<double>(delta[i] - sent[i]), 2);
    EXPECT_NEAR((*formed)->lost_norm, std::sqrt(lost), 1e-9);
    EXPECT_EQ((*formed)->lost_norm == 0, codec == CodecKind::kFp32);
    EXPECT_EQ(bench.outer, bench.base);
  }
}

TEST(ContributionSums, LossesAreCountedPerBlock) {
  constexpr uint64_t kBlocks = 2 * kLossBlocks + 1;  // so that every third counts
  ContributionSums sums(kBlocks * kCodecBlock - 5, ErrorMemory::kOff), kept(kBlocks * kCodecBlock, ErrorMemory::kLoco);
  size_t asked = 0;
  for (uint64_t b = 0; b < kBlocks; ++b) {
    EXPECT_EQ(sums.AsksForLoss(b), b % 3 == 0) << b;
    EXPECT_TRUE(kept.AsksForLoss(b));
    asked += sums.AsksForLoss(b) ? 1 : 0;
    sums.Add({{.sum_squares = 4, .max_abs = 1}, b % 3 == 0 ? 0.25 : 100});
    kept.Add({{.sum_squares = 4, .max_abs = 1}, 0.25});
  }
  EXPECT_LE(asked, kLossBlocks);
  EXPECT_EQ(sums.norm(), std::sqrt(4.0 * kBlocks));
  EXPECT_DOUBLE_EQ(sums.lost_norm(), std::sqrt(0.25 * kBlocks));
  EXPECT_EQ(kept.lost_norm(), std::sqrt(0.25 * kBlocks));
  EXPECT_TRUE(sums.finite());
  sums.Add({{.sum_squares = 0, .max_abs = 0, .finite = false}, 0});
  EXPECT_FALSE(sums.finite());
}

TEST(ContributionSums, ZerosLoseNothing) {
  ContributionSums sums(1000 * kCodecBlock, ErrorMemory::kOff);
  for (int b = 0; b < 1000; ++b) sums.Add({});
  EXPECT_EQ(sums.norm(), 0);
  EXPECT_EQ(sums.lost_norm(), 0);
}

TEST(FormContribution, NoneWhileOneIsUnresolvedAndTheBytesStay) {
  Bench bench;
  bench.local = Normals(2);
  ASSERT_TRUE(bench.replica.FormContribution(bench.local).ok());
  const auto bytes = bench.replica.unresolved()->encoded;
  bench.local = Normals(3);
  EXPECT_EQ(bench.replica.FormContribution(bench.local).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(bench.replica.unresolved()->encoded, bytes);
  bench.replica.DropContribution();
  EXPECT_EQ(bench.replica.unresolved(), nullptr);
  EXPECT_TRUE(bench.replica.FormContribution(bench.local).ok());
}

TEST(FormContribution, RefusesNonFiniteValues) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Bench bench({.upload_error_memory = ErrorMemory::kFeedback});
    bench.local[kElements - 1] = bad;
    EXPECT_EQ(bench.replica.FormContribution(bench.local).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(bench.replica.unresolved(), nullptr);
    EXPECT_EQ(bench.replica.state(), ReplicaState::kReady);
  }
}

TEST(Contributor, MergesByTheMix) {
  for (const double mix : {0.0, 0.25, 0.5, 1.0}) {
    Bench bench({.download_codec = CodecKind::kBf16});
    bench.local = Normals(2);
    ASSERT_TRUE(bench.replica.FormContribution(bench.local).ok());
    bench.local = Normals(3);  // trained on while the round was open
    const std::vector<float> before = bench.local, change = Normals(4, kElements, 0.01f);
    const auto verdict = bench.replica.ApplyUpdate(bench.Update(change), Standing::kContributor);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(*verdict, ApplyVerdict::kApplied);
    EXPECT_EQ(bench.local, before) << "applying does not touch local parameters";
    EXPECT_EQ(bench.replica.state(), ReplicaState::kUnsettled);
    ASSERT_TRUE(bench.replica.ResolveAsContributor(bench.local, mix).ok());
    const std::vector<float> decoded = Decoded(CodecKind::kBf16, bench.bytes, kElements);
    const float own = static_cast<float>(mix), others = static_cast<float>(1 - mix);
    for (size_t i = 0; i < kElements; ++i) {
      const float outer = bench.base[i] + decoded[i];
      ASSERT_EQ(bench.outer[i], outer);
      ASSERT_EQ(bench.local[i], mix == 0 ? outer : mix == 1 ? before[i] : own * before[i] + others * outer);
    }
    EXPECT_EQ(bench.replica.unresolved(), nullptr);
    EXPECT_EQ(bench.replica.version().value, 5u);
    EXPECT_EQ(bench.replica.state(), ReplicaState::kReady);
  }
}

TEST(NotContributor, AddsTheWayOfTheOuterCopyAndKeepsTheDrift) {
  Bench bench({.download_codec = CodecKind::kFp16});
  bench.local = Normals(2);
  const std::vector<float> before = bench.local;
  ASSERT_TRUE(bench.replica.FormContribution(bench.local).ok());
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4, kElements, 0.01f)), Standing::kNotContributor).ok());
  ASSERT_TRUE(bench.replica.ResolveAsNonContributor(bench.local).ok());
  for (size_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(bench.local[i], before[i] + (bench.outer[i] - bench.base[i]));
  }
  EXPECT_EQ(bench.replica.unresolved(), nullptr) << "a delta measured against a base left behind is never sent";
}

TEST(Ahead, KeepsWorkSinceTheSendAndSendsNothingTwice) {
  for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback}) {
    Bench bench({.upload_codec = CodecKind::kFp32, .upload_error_memory = memory});
    bench.local = Normals(2);
    ASSERT_TRUE(bench.replica.FormContribution(bench.local).ok());
    const std::vector<float> since = Normals(3, kElements, 0.1f);
    for (size_t i = 0; i < kElements; ++i) bench.local[i] += since[i];
    ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4, kElements, 0.01f)), Standing::kAhead).ok());
    ASSERT_TRUE(bench.replica.ResolveAhead(bench.local).ok());
    for (size_t i = 0; i < kElements; ++i) ASSERT_NEAR(bench.local[i], bench.outer[i] + since[i], 2e-6);
    EXPECT_EQ(bench.replica.unresolved(), nullptr);
  }
}

TEST(Ahead, CodecErrorIsSentOnce) {
  Bench bench({.upload_codec = CodecKind::kMxfp4, .upload_error_memory = ErrorMemory::kFeedback});
  std::vector<float> wanted(kElements), sent(kElements);  // the whole drift, and everything sent
  bench.local = Normals(2);
  for (uint64_t round = 0; round < 4; ++round) {
    if (round == 0) {
      for (size_t i = 0; i < kElements; ++i) wanted[i] = bench.outer[i] - bench.local[i];
    }
    const auto formed = bench.replica.FormContribution(bench.local);
    ASSERT_TRUE(formed.ok());
    const std::vector<float> decoded = Decoded(CodecKind::kMxfp4, *(*formed)->encoded, kElements);
    const std::vector<float> since = Normals(10 + round, kElements, 0.1f);
    for (size_t i = 0; i < kElements; ++i) {
      sent[i] += decoded[i];
      bench.local[i] += since[i];
      wanted[i] -= since[i];
    }
    ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(20 + round, kElements, 0.01f)), Standing::kAhead).ok());
    ASSERT_TRUE(bench.replica.ResolveAhead(bench.local).ok());
  }
  // The unsent part is in the next contribution, residual included.
  const std::vector<float> residual = bench.replica.Residual();
  for (size_t i = 0; i < kElements; ++i) {
    ASSERT_NEAR((bench.outer[i] - bench.local[i]) + residual[i], wanted[i] - sent[i], 1e-5);
  }
}

TEST(Ahead, NeedsAContributionAndItsUpdate) {
  Bench nothing_sent;
  EXPECT_EQ(nothing_sent.replica.ApplyUpdate(nothing_sent.Update(Normals(4)), Standing::kAhead).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Bench bench;
  bench.local = Normals(2);
  EXPECT_EQ(bench.replica.ResolveAhead(bench.local).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.replica.FormContribution(bench.local).ok());
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kContributor).ok());
  EXPECT_EQ(bench.replica.ResolveAhead(bench.local).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Residual, AContributorKeepsTheShareThatDidNotSurvive) {
  for (const double mix : {0.0, 0.5, 1.0}) {
    Bench bench({.upload_codec = CodecKind::kBf16, .upload_error_memory = ErrorMemory::kFeedback});
    bench.local = Normals(2);
    const auto formed = bench.replica.FormContribution(bench.local);
    ASSERT_TRUE(formed.ok());
    const std::vector<float> sent = Decoded(CodecKind::kBf16, *(*formed)->encoded, kElements);
    std::vector<float> pending(kElements);
    for (size_t i = 0; i < kElements; ++i) pending[i] = (bench.base[i] - bench.local[i]) - sent[i];
    for (const float r : bench.replica.Residual()) ASSERT_EQ(r, 0) << "pending is not yet the residual";
    ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kContributor).ok());
    ASSERT_TRUE(bench.replica.ResolveAsContributor(bench.local, mix).ok());
    // The next contribution carries it.
    const std::vector<float> carried = bench.replica.Residual();
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(carried[i], static_cast<float>(1 - mix) * pending[i]);
    const auto next = bench.replica.FormContribution(bench.local);
    ASSERT_TRUE(next.ok());
    std::vector<float> h(kElements);
    for (size_t i = 0; i < kElements; ++i) h[i] = (bench.outer[i] - bench.local[i]) + carried[i];
    EXPECT_EQ(*(*next)->encoded, Encoded(CodecKind::kBf16, h));
  }
}

// One worker; its contribution is the whole update. outer - local plus the residual is the codec's
// loss, for any share of its own parameters kept at each merge (docs/adr/0024).
TEST(Residual, ResidualEqualsTheCodecErrorForEachShare) {
  for (const CodecKind codec : {CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0}) {
    Bench bench({.upload_codec = codec, .upload_error_memory = ErrorMemory::kFeedback});
    std::vector<float> trained(kElements), merged(kElements);
    for (uint64_t sync = 0; sync < 30; ++sync) {
      const std::vector<float> step = Normals(100 + sync, kElements, 0.1f);
      for (size_t i = 0; i < kElements; ++i) bench.local[i] -= step[i], trained[i] += step[i];
      const auto formed = bench.replica.FormContribution(bench.local);
      ASSERT_TRUE(formed.ok());
      std::vector<float> change = Decoded(codec, *(*formed)->encoded, kElements);
      for (size_t i = 0; i < kElements; ++i) merged[i] += change[i], change[i] = -change[i];
      ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(change), Standing::kContributor).ok());
      const double mix = sync % 3 == 0 ? 0 : sync % 3 == 1 ? 0.5 : 1;
      ASSERT_TRUE(bench.replica.ResolveAsContributor(bench.local, mix).ok());
      const std::vector<float> residual = bench.replica.Residual();
      for (size_t i = 0; i < kElements; ++i) {
        ASSERT_NEAR(bench.outer[i] - bench.local[i] + residual[i], trained[i] - merged[i], 1e-4f) << sync << " " << i;
      }
    }
  }
}

// One merged round, so that the residual is not zero.
Bench WithResidual() {
  Bench bench({.upload_codec = CodecKind::kBf16, .upload_error_memory = ErrorMemory::kFeedback});
  bench.local = Normals(2);
  EXPECT_TRUE(bench.replica.FormContribution(bench.local).ok());
  EXPECT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kContributor).ok());
  EXPECT_TRUE(bench.replica.ResolveAsContributor(bench.local, 0).ok());
  return bench;
}

TEST(Residual, ANonContributorDiscardsPendingAndKeepsTheOldOne) {
  Bench bench = WithResidual();
  const std::vector<float> old = bench.replica.Residual();
  ASSERT_NE(old, std::vector<float>(kElements));
  ASSERT_TRUE(bench.replica.FormContribution(Normals(7)).ok());
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(8)), Standing::kNotContributor).ok());
  ASSERT_TRUE(bench.replica.ResolveAsNonContributor(bench.local).ok());
  EXPECT_EQ(bench.replica.Residual(), old);
  ASSERT_TRUE(bench.replica.FormContribution(Normals(9)).ok());
  bench.replica.DropContribution();
  EXPECT_EQ(bench.replica.Residual(), old);
}

TEST(Residual, IsClearedByAdoptAndInstall) {
  const std::vector<float> zeros(kElements);
  Bench adopting = WithResidual();
  ASSERT_TRUE(adopting.replica.FormContribution(Normals(7)).ok());
  ASSERT_TRUE(adopting.replica.AdoptOuter(adopting.local).ok());
  EXPECT_EQ(adopting.local, adopting.outer);
  EXPECT_EQ(adopting.replica.Residual(), zeros);
  EXPECT_EQ(adopting.replica.unresolved(), nullptr);

  Bench installing = WithResidual();
  ASSERT_TRUE(installing.replica.FormContribution(Normals(7)).ok());
  const std::vector<float> fetched = Normals(11);
  ASSERT_TRUE(installing.replica.Install(fetched, Version{20}, ContentHash(fetched, 20, kLayout)).ok());
  EXPECT_EQ(installing.replica.Residual(), zeros);
  EXPECT_EQ(installing.replica.unresolved(), nullptr);
}

// DiLoCo's dropped communication: the worker continues from its own parameters, and its next delta
// is relative to the outer copy that the others have moved.
TEST(Dropped, KeepsTheOwnParametersAndMeasuresFromTheNewOuterCopy) {
  Bench bench;
  bench.local = Normals(2);
  const std::vector<float> before = bench.local;
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4, kElements, 0.01f)), Standing::kNotContributor).ok());
  ASSERT_TRUE(bench.replica.KeepLocal().ok());
  EXPECT_EQ(bench.local, before);
  EXPECT_EQ(bench.replica.version(), Version{5});
  EXPECT_NE(bench.outer, bench.base);
  const auto formed = bench.replica.FormContribution(bench.local);
  ASSERT_TRUE(formed.ok());
  const std::vector<float> delta = Decoded(CodecKind::kFp32, *(*formed)->encoded, kElements);
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(delta[i], bench.outer[i] - before[i]);
}

TEST(Dropped, KeepsTheOldResidual) {
  Bench bench = WithResidual();
  const std::vector<float> old = bench.replica.Residual();
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(8)), Standing::kNotContributor).ok());
  ASSERT_TRUE(bench.replica.KeepLocal().ok());
  EXPECT_EQ(bench.replica.Residual(), old);
}

TEST(Dropped, NeedsAnUpdateWithoutThisWorker) {
  Bench bench;
  EXPECT_EQ(bench.replica.KeepLocal().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.replica.FormContribution(Normals(2)).ok());
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kContributor).ok());
  EXPECT_EQ(bench.replica.KeepLocal().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ErrorMemory, OffKeepsNothing) {
  Bench bench({.upload_codec = CodecKind::kBf16});
  ASSERT_TRUE(bench.replica.FormContribution(Normals(2)).ok());
  EXPECT_TRUE(bench.replica.Residual().empty());
}

TEST(Deviant, WithdrawsAndTakesPartAgainAfterAFetch) {
  for (const Standing standing : {Standing::kContributor, Standing::kNotContributor}) {
    Bench bench({.upload_codec = CodecKind::kBf16, .upload_error_memory = ErrorMemory::kFeedback});
    ASSERT_TRUE(bench.replica.FormContribution(Normals(2)).ok());
    OuterUpdate update = bench.Update(Normals(4));
    update.hash.low ^= 1;
    const auto verdict = bench.replica.ApplyUpdate(update, standing);
    ASSERT_TRUE(verdict.ok());
    EXPECT_EQ(*verdict, ApplyVerdict::kDeviant);
    EXPECT_EQ(bench.replica.state(), ReplicaState::kDeviant);
    EXPECT_EQ(bench.replica.unresolved(), nullptr);
    EXPECT_FALSE(bench.replica.FormContribution(bench.local).ok());
    EXPECT_FALSE(bench.replica.AdoptOuter(bench.local).ok());
    EXPECT_FALSE(bench.replica.ResolveAsContributor(bench.local, 0).ok());
    EXPECT_FALSE(bench.replica.ResolveAsNonContributor(bench.local).ok());
    const std::vector<float> fetched = Normals(5);
    ASSERT_TRUE(bench.replica.Install(fetched, Version{5}, ContentHash(fetched, 5, kLayout)).ok());
    ASSERT_TRUE(bench.replica.AdoptOuter(bench.local).ok());
    EXPECT_EQ(bench.local, fetched);
    EXPECT_TRUE(bench.replica.FormContribution(bench.local).ok());
  }
}

// A leap to a whole fragment equals the skipped updates: to the bit if these are exact.
TEST(Leap, EndsWhereTheUpdatesInBetweenWouldAndKeepsDriftAndResidual) {
  Bench by_updates = WithResidual(), leaping = WithResidual();
  by_updates.local = leaping.local = Normals(3);
  const std::vector<float> residual = leaping.replica.Residual();
  const std::vector<float> before = leaping.outer;
  const double drift = Distance(leaping.outer, leaping.local);
  for (const uint64_t seed : {4u, 5u, 6u}) {
    const std::vector<float> change = Normals(seed, kElements, 0.25f);
    ASSERT_TRUE(by_updates.replica.ApplyUpdate(by_updates.Update(change), Standing::kNotContributor).ok());
    ASSERT_TRUE(by_updates.replica.ResolveAsNonContributor(by_updates.local).ok());
  }
  const Version reached = by_updates.replica.version();
  const Bytes whole = std::as_bytes(std::span<const float>(by_updates.outer));
  ASSERT_TRUE(leaping.replica.Leap(whole, reached, ContentHash(by_updates.outer, reached.value, kLayout)).ok());
  EXPECT_EQ(leaping.replica.state(), ReplicaState::kUnsettled);
  EXPECT_EQ(leaping.local, Normals(3)) << "not before the step boundary";
  ASSERT_TRUE(leaping.replica.ResolveAsNonContributor(leaping.local).ok());
  EXPECT_EQ(leaping.outer, by_updates.outer);
  EXPECT_EQ(leaping.replica.version(), reached);
  EXPECT_EQ(leaping.replica.Residual(), residual);
  for (size_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(leaping.local[i], Normals(3)[i] + (leaping.outer[i] - before[i])) << i;
    ASSERT_NEAR(leaping.local[i], by_updates.local[i], 1e-5) << "rounded three times there";
  }
  EXPECT_NEAR(Distance(leaping.outer, leaping.local), drift, 1e-4 * drift);
}

TEST(Leap, RefusalsChangeNothing) {
  Bench bench;
  const std::vector<float> fetched = Normals(5);
  const Bytes whole = std::as_bytes(std::span<const float>(fetched));
  const auto refused = [&](Bytes bytes, uint64_t version, uint64_t hashed_as) {
    const absl::Status status = bench.replica.Leap(bytes, Version{version}, ContentHash(fetched, hashed_as, kLayout));
    EXPECT_EQ(bench.outer, bench.base);
    EXPECT_EQ(bench.replica.version().value, 4u);
    EXPECT_EQ(bench.replica.state(), ReplicaState::kReady);
    return status.code();
  };
  EXPECT_EQ(refused(whole, 4, 4), absl::StatusCode::kFailedPrecondition) << "not newer";
  EXPECT_EQ(refused(whole.first(whole.size() - 4), 9, 9), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(whole, 9, 8), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(bench.replica.FormContribution(Normals(2)).ok());
  EXPECT_EQ(refused(whole, 9, 9), absl::StatusCode::kFailedPrecondition) << "it may be in a version leapt over";
  EXPECT_NE(bench.replica.unresolved(), nullptr);
}

TEST(ApplyUpdate, RefusalsChangeNothing) {
  Bench bench;
  const std::vector<float> change = Normals(4);
  const auto refused = [&](const OuterUpdate& update, Standing standing) {
    const auto verdict = bench.replica.ApplyUpdate(update, standing);
    EXPECT_EQ(bench.outer, bench.base);
    EXPECT_EQ(bench.replica.version().value, 4u);
    EXPECT_EQ(bench.replica.state(), ReplicaState::kReady);
    return verdict.status().code();
  };
  OuterUpdate update = bench.Update(change);
  EXPECT_EQ(refused(update, Standing::kContributor), absl::StatusCode::kFailedPrecondition)
      << "nothing was contributed";
  update.reached = Version{6};
  EXPECT_EQ(refused(update, Standing::kNotContributor), absl::StatusCode::kFailedPrecondition);
  update.reached = Version{4};
  EXPECT_EQ(refused(update, Standing::kNotContributor), absl::StatusCode::kFailedPrecondition);
  update = bench.Update(change);
  update.encoded = update.encoded.first(update.encoded.size() - 1);
  EXPECT_EQ(refused(update, Standing::kNotContributor), absl::StatusCode::kInvalidArgument);
}

TEST(Resolving, NeedsTheStandingOfTheUpdate) {
  Bench bench;
  ASSERT_TRUE(bench.replica.FormContribution(Normals(2)).ok());
  EXPECT_EQ(bench.replica.ResolveAsContributor(bench.local, 0).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kContributor).ok());
  const std::vector<float> before = bench.local;
  EXPECT_EQ(bench.replica.ResolveAsNonContributor(bench.local).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(bench.replica.ResolveAsContributor(bench.local, 1.5).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bench.replica.ResolveAsContributor(std::span(bench.local).first(3), 0).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(bench.replica.FormContribution(bench.local).ok());
  EXPECT_FALSE(bench.replica.ApplyUpdate(bench.Update(Normals(4)), Standing::kNotContributor).ok());
  EXPECT_EQ(bench.local, before);
  ASSERT_TRUE(bench.replica.AdoptOuter(bench.local).ok()) << "max_missed or revoked leases settle it too";
  EXPECT_EQ(bench.local, bench.outer);
  EXPECT_EQ(bench.replica.state(), ReplicaState::kReady);
}

}  // namespace
}  // namespace atl
