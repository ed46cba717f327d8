// SPDX-License-Identifier: Apache-2.0
#include "common/plan/data_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "common/plan/shards.h"

namespace atl {
namespace {

DataSpec Spec(uint32_t sequence_length, uint32_t window = 4, uint64_t seed = 11) {
  DataSpec spec;
  spec.sequence_length = sequence_length;
  spec.window_blocks = window;
  spec.seed = seed;
  return spec;
}

CorpusShape Shape(std::string name, std::vector<uint64_t> tokens, uint32_t weight = 1, uint32_t bytes = 2) {
  return {.name = std::move(name), .weight = weight, .bytes_per_token = bytes, .shard_tokens = std::move(tokens)};
}

DataOrder Make(const DataSpec& spec, std::vector<CorpusShape> corpora) {
  auto order = DataOrder::Create(spec, std::move(corpora));
  EXPECT_TRUE(order.ok()) << order.status();
  return *std::move(order);
}

using Key = std::tuple<uint32_t, uint32_t, uint64_t>;
Key KeyOf(const SampleLocation& at) { return {at.corpus, at.shard, at.token}; }

// 5 MiB of tokens over three shards; no size is a multiple of a block or window.
std::vector<uint64_t> Shards() { return {1'500'001, 77, 1'100'003}; }

TEST(DataOrder, ReadsEverySampleOnceAnEpoch) {
  for (const uint32_t t : {100u, 1000u, 300'000u}) {
    const DataOrder order = Make(Spec(t), {Shape("a", Shards())});
    const uint64_t samples = order.SamplesPerEpoch(0);
    EXPECT_EQ(samples, 1'500'000 / t + 76 / t + 1'100'002 / t);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::set<Key> seen;
      for (uint64_t i = 0; i < samples; ++i) {
        const SampleLocation at = order.At(epoch * samples + i);
        EXPECT_EQ(at.epoch, epoch);
        ASSERT_LT(at.shard, 3u);
        EXPECT_EQ(at.token % t, 0u);
        ASSERT_LE(at.token + t + 1, Shards()[at.shard]) << "a sample reads T + 1 tokens of its shard";
        EXPECT_TRUE(seen.insert(KeyOf(at)).second);
      }
      EXPECT_EQ(seen.size(), samples);
    }
  }
}

TEST(DataOrder, IsAFunctionOfThePositionAlone) {
  const DataOrder order = Make(Spec(500), {Shape("a", Shards()), Shape("b", {900'000}, 2)});
  const DataOrder again = Make(Spec(500), {Shape("a", Shards()), Shape("b", {900'000}, 2)});
  std::vector<Key> forward;
  for (uint64_t i = 0; i < 20'000; i += 7) forward.push_back(KeyOf(order.At(i)));
  for (uint64_t n = forward.size(); n-- > 0;) EXPECT_EQ(KeyOf(again.At(n * 7)), forward[n]);
  const DataOrder copy = order;
  EXPECT_EQ(KeyOf(copy.At(70)), forward[10]);
}

// data.assignment: shards: corpus c has its own positions, in the order that it has alone.
TEST(DataOrder, PinnedCorporaKeepTheirOwnOrder) {
  DataSpec spec = Spec(500);
  const DataOrder alone = Make(spec, {Shape("b", {900'000})});
  spec.pin_shards = true;
  const DataOrder order = Make(spec, {Shape("a", Shards()), Shape("b", {900'000})});
  for (uint64_t i = 0; i < 4000; i += 13) {
    EXPECT_EQ(order.At(i).corpus, 0u);
    const SampleLocation at = order.At(kShardPositions + i), same = alone.At(i);
    EXPECT_EQ(KeyOf(at), Key(1, same.shard, same.token));
    EXPECT_EQ(at.epoch, same.epoch);
  }
  EXPECT_LT(order.At(UINT64_MAX).corpus, 2u) << "any position is valid";
}

TEST(DataOrder, SeedsAndEpochsGiveOtherOrders) {
  const DataOrder a = Make(Spec(500, 4, 1), {Shape("a", Shards())});
  const DataOrder b = Make(Spec(500, 4, 2), {Shape("a", Shards())});
  const uint64_t n = a.SamplesPerEpoch(0);
  uint64_t same_seed = 0, same_epoch = 0;
  for (uint64_t i = 0; i < n; ++i) {
    same_seed += KeyOf(a.At(i)) == KeyOf(b.At(i)) ? 1 : 0;
    same_epoch += KeyOf(a.At(i)) == KeyOf(a.At(n + i)) ? 1 : 0;
  }
  EXPECT_LT(same_seed, n / 50);
  EXPECT_LT(same_epoch, n / 50);
}

TEST(DataOrder, SharesAreExactOverAPeriodAndSpreadInIt) {
  const DataOrder order =
      Make(Spec(500), {Shape("a", {1'000'000}, 6), Shape("b", {1'000'000}, 2), Shape("c", {999'999}, 4)});
  for (uint64_t period = 0; period < 200; ++period) {  // 6 : 2 : 4 = 3 : 1 : 2, a period of 6
    std::map<uint32_t, int> counts;
    for (uint64_t i = 0; i < 6; ++i) ++counts[order.At(period * 6 + i).corpus];
    EXPECT_EQ(counts[0], 3);
    EXPECT_EQ(counts[1], 1);
    EXPECT_EQ(counts[2], 2);
  }
  int run = 0, longest = 0;
  uint32_t last = 9;
  for (uint64_t i = 0; i < 600; ++i) {
    const uint32_t corpus = order.At(i).corpus;
    run = corpus == last ? run + 1 : 1;
    longest = std::max(longest, run);
    last = corpus;
  }
  EXPECT_LE(longest, 2);
}

TEST(DataOrder, AnEpochOfEachCorpusIsItsOwn) {
  const DataOrder order = Make(Spec(500), {Shape("small", {10'001}, 3), Shape("large", {1'000'001}, 1)});
  std::map<Key, int> reads;
  for (uint64_t i = 0; i < 4 * 40; ++i) {
    const SampleLocation at = order.At(i);
    if (at.corpus == 0) ++reads[KeyOf(at)];
  }
  ASSERT_EQ(reads.size(), 20u);  // 120 reads of 20 samples: six epochs
  for (const auto& [key, count] : reads) EXPECT_EQ(count, 6);
}

TEST(DataOrder, AWindowTouchesNoMoreBlocksThanItHas) {
  const uint32_t t = 512, window = 4;
  const uint64_t block_tokens = kBlockBytes / 2;
  const DataOrder order = Make(Spec(t, window), {Shape("a", {40 * block_tokens + 1})});
  const uint64_t per_window = window * block_tokens / t;  // T divides a block: every block has as many samples
  ASSERT_EQ(order.SamplesPerEpoch(0) % per_window, 0u);
  for (uint64_t w = 0; w < order.SamplesPerEpoch(0) / per_window; ++w) {
    std::set<uint64_t> blocks;
    bool in_order = true;
    uint64_t last = 0;
    for (uint64_t i = 0; i < per_window; ++i) {
      const uint64_t token = order.At(w * per_window + i).token;
      blocks.insert(token / block_tokens);
      in_order = in_order && token >= last;
      last = token;
    }
    EXPECT_EQ(blocks.size(), window);
    EXPECT_FALSE(in_order);
  }
}

TEST(DataOrder, CountsPositionsForEpochs) {
  const DataOrder order = Make(Spec(500), {Shape("a", {10'001}, 1), Shape("b", {20'001}, 3)});
  for (const double epochs : {0.5, 1.0, 1.25, 2.0}) {
    const uint64_t n = order.PositionsForEpochs(epochs);
    std::map<uint32_t, uint64_t> counts;
    for (uint64_t i = 0; i < n; ++i) ++counts[order.At(i).corpus];
    EXPECT_GE(counts[0], static_cast<uint64_t>(20 * epochs));
    EXPECT_GE(counts[1], static_cast<uint64_t>(40 * epochs));
    const uint32_t last = order.At(n - 1).corpus;  // one position less is too few for some corpus
    EXPECT_EQ(counts[last], static_cast<uint64_t>((last == 0 ? 20 : 40) * epochs));
  }
  EXPECT_EQ(order.PositionsForEpochs(0), 0u);
}

TEST(DataOrder, RefusesCorporaWithoutASample) {
  const auto none = DataOrder::Create(Spec(100), {Shape("a", {1000}), Shape("tiny", {100, 99})});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("'tiny' has no shard of at least 101 tokens"), absl::string_view::npos);
  EXPECT_FALSE(DataOrder::Create(Spec(100), {}).ok());
  EXPECT_TRUE(DataOrder::Create(Spec(100), {Shape("exact", {101})}).ok());
}

// The example of docs/formats/data-order.md.
TEST(DataOrder, OrderOfTwoCorporaIsAsDocumented) {
  const std::vector<CorpusShape> corpora = {Shape("a", Shards(), 6), Shape("b", {400'000}, 2)};
  const DataOrder shared = Make(Spec(500, 2, 42), corpora);
  std::vector<Key> places;
  for (uint64_t i = 0; i < 6; ++i) places.push_back(KeyOf(shared.At(i * 1001)));
  EXPECT_EQ(places,
            (std::vector<Key>{
                {0, 0, 428000}, {0, 0, 261000}, {1, 0, 40000}, {0, 2, 358000}, {0, 0, 1463500}, {0, 0, 607000}}));
  DataSpec spec = Spec(500, 2, 42);
  spec.pin_shards = true;
  const DataOrder pinned = Make(spec, corpora);
  EXPECT_EQ(KeyOf(pinned.At(kShardPositions)), (Key{1, 0, 200000}));
  EXPECT_EQ(KeyOf(pinned.At(kShardPositions + 1001)), (Key{1, 0, 98500}));
}

TEST(DataOrder, OrderIsPinned) {
  // These positions are part of the meaning of a stored run: they never change.
  const DataOrder order = Make(Spec(500, 2, 42), {Shape("a", Shards())});
  std::vector<uint64_t> tokens;
  for (uint64_t i = 0; i < 6; ++i) tokens.push_back(order.At(i * 1000).token);
  EXPECT_EQ(tokens, (std::vector<uint64_t>{428000, 13500, 343500, 444500, 847500, 841500}));
}

}  // namespace
}  // namespace atl
