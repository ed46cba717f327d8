// SPDX-License-Identifier: Apache-2.0
// The error memory of uploads, in each kind: its contents after a commit, a drop, a reset and a
// clear.
#include "worker/replica/error_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "common/base/random.h"
#include "common/codec/codec.h"

namespace atl {
namespace {

constexpr size_t kElements = 2 * kCodecBlock + 77;

std::vector<float> Normals(uint64_t seed) {
  std::vector<float> out(kElements);
  for (size_t i = 0; i < kElements; ++i) out[i] = 1e-3f * NormalAt(seed, i);
  return out;
}

void Keep(ErrorStore& store, const std::vector<float>& lost) {
  store.Begin();
  for (size_t at = 0; at < kElements; at += kCodecBlock) {
    store.Keep(at, std::span(lost).subspan(at, std::min(kCodecBlock, kElements - at)));
  }
}

std::vector<float> AsStored(std::span<const float> values) {
  std::vector<std::byte> bytes(EncodedSize(CodecKind::kInt8, values.size()));
  std::vector<float> out(values.size());
  Encode(CodecKind::kInt8, values, bytes);
  Decode(CodecKind::kInt8, bytes, out);
  return out;
}

TEST(ErrorStore, LocoAveragesAndStoresEightBits) {
  ErrorStore store(ErrorMemory::kLoco, {.beta = 0.75, .reset_syncs = 100}, kElements);
  EXPECT_EQ(store.Values(), std::vector<float>(kElements));
  std::vector<float> expected(kElements);
  for (uint32_t sync = 1; sync <= 5; ++sync) {
    const std::vector<float> lost = Normals(sync);
    Keep(store, lost);
    store.Commit(1);
    for (size_t i = 0; i < kElements; ++i) expected[i] = 0.75f * expected[i] + 0.25f * lost[i];
    expected = AsStored(expected);
    EXPECT_EQ(store.Values(), expected) << "sync " << sync;
  }
  std::array<float, kCodecBlock> scratch;
  for (size_t at = 0; at < kElements; at += kCodecBlock) {
    const auto held = store.MemoryAt(at, std::span(scratch).first(std::min(kCodecBlock, kElements - at)));
    for (size_t i = 0; i < held.size(); ++i) ASSERT_EQ(held[i], expected[at + i]);
  }
}

TEST(ErrorStore, LocoWithBetaZeroIsFeedbackInEightBits) {
  ErrorStore store(ErrorMemory::kLoco, {.beta = 0, .reset_syncs = 100}, kElements);
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    Keep(store, Normals(seed));
    store.Commit(1);
    EXPECT_EQ(store.Values(), AsStored(Normals(seed)));
  }
}

TEST(ErrorStore, LocoIsClearedAfterTheSyncsThatCounted) {
  ErrorStore store(ErrorMemory::kLoco, {.beta = 0.5, .reset_syncs = 3}, kElements);
  const std::vector<float> zeros(kElements);
  for (uint32_t sync = 1; sync <= 7; ++sync) {
    Keep(store, Normals(100 + sync));
    store.Discard();  // a contribution that was not merged
    Keep(store, Normals(sync));
    store.Commit(1);
    EXPECT_EQ(store.Values() == zeros, sync % 3 == 0) << "sync " << sync;
  }
}

TEST(ErrorStore, CommitKeepsTheShareAndADropKeepsTheOld) {
  for (const ErrorMemory kind : {ErrorMemory::kFeedback, ErrorMemory::kLoco}) {
    ErrorStore store(kind, {.beta = 0.5, .reset_syncs = 100}, kElements);
    Keep(store, Normals(1));
    store.Commit(1);
    const std::vector<float> old = store.Values();
    ASSERT_NE(old, std::vector<float>(kElements));
    Keep(store, Normals(2));
    EXPECT_EQ(store.Values(), old) << "pending is not yet the memory";
    store.Discard();
    EXPECT_EQ(store.Values(), old);

    Keep(store, Normals(3));
    store.Commit(0);
    for (size_t i = 0; i < 300; ++i) ASSERT_NEAR(store.Values()[i], old[i], 1e-6f) << "nothing of it survived";

    ErrorStore whole(kind, {.beta = 0.5, .reset_syncs = 100}, kElements);
    ErrorStore half(kind, {.beta = 0.5, .reset_syncs = 100}, kElements);
    Keep(whole, Normals(4));
    Keep(half, Normals(4));
    whole.Commit(1);
    half.Commit(0.5);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_NEAR(half.Values()[i], 0.5f * whole.Values()[i], 2e-5f);
      if (i == 300) break;
    }
    const std::vector<float> before = half.Values();
    Keep(whole, Normals(5));
    Keep(half, Normals(5));
    const std::vector<float> lost = kind == ErrorMemory::kFeedback ? Normals(5) : std::vector<float>();
    half.Commit(0.25);
    for (size_t i = 0; i < lost.size(); ++i) ASSERT_FLOAT_EQ(half.Values()[i], 0.75f * before[i] + 0.25f * lost[i]);
    whole.Clear();
    EXPECT_EQ(whole.Values(), std::vector<float>(kElements));
  }
}

TEST(ErrorStore, AWholeCommitCopiesNothing) {
  std::vector<float> first(kElements), second(kElements);
  for (const ErrorPlaces& places : {ErrorPlaces{}, ErrorPlaces{first, second}}) {
    ErrorStore store(ErrorMemory::kFeedback, {}, kElements, places);
    for (uint64_t sync = 1; sync <= 3; ++sync) {
      const std::vector<float> lost = Normals(sync);
      Keep(store, lost);
      const float* const pending = store.Pending().data();
      store.Commit(1);
      EXPECT_EQ(store.Memory().data(), pending);
      EXPECT_EQ(store.Values(), lost);
      EXPECT_TRUE(store.Pending().empty());
      // Writes dropped and partially kept losses elsewhere.
      Keep(store, Normals(100 + sync));
      EXPECT_NE(store.Pending().data(), pending);
      store.Discard();
      EXPECT_EQ(store.Values(), lost);
    }
    store.Clear();
    EXPECT_EQ(store.Values(), std::vector<float>(kElements));
  }
}

TEST(ErrorStore, OffRemembersNothing) {
  ErrorStore store(ErrorMemory::kOff, {}, kElements);
  EXPECT_FALSE(store.Remembers());
  Keep(store, Normals(1));
  store.Commit(1);
  std::array<float, kCodecBlock> scratch;
  EXPECT_TRUE(store.MemoryAt(0, scratch).empty());
  EXPECT_TRUE(store.Values().empty());
}

}  // namespace
}  // namespace atl
