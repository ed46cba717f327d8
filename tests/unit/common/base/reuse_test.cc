// SPDX-License-Identifier: Apache-2.0
// Ring, SmallFunction and ReusePool: memory that is reused instead of allocated again.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/reuse_pool.h"
#include "common/base/ring.h"
#include "common/base/small_function.h"

namespace atl {
namespace {

TEST(RingTest, KeepsTheOrderWhileItGrowsAndGoesRound) {
  Ring<std::unique_ptr<int>> ring;
  int in = 0, out = 0;
  for (int most = 1; most < 40; ++most) {
    while (ring.size() < static_cast<size_t>(most)) ring.push_back(std::make_unique<int>(in++));
    for (int i = 0; i < 3 && !ring.empty(); ++i) EXPECT_EQ(*ring.Take(), out++);
  }
  while (!ring.empty()) EXPECT_EQ(*ring.Take(), out++);
  EXPECT_EQ(in, out);
}

TEST(RingTest, KeepsNothingOfTakenItems) {
  Ring<std::shared_ptr<int>> ring;
  const auto held = std::make_shared<int>(1);
  ring.push_back(held);
  EXPECT_EQ(ring.Take().use_count(), 2);
  EXPECT_EQ(held.use_count(), 1);
}

using Small = SmallFunction<int(int), 32>;

TEST(SmallFunctionTest, CallsWhatItHoldsWhateverItsSize) {
  const auto held = std::make_shared<int>(5);
  const std::string text(1000, 'x');
  for (const Small& f : {Small([held](int more) { return *held + more; }),
                         Small([held, text](int more) { return *held + more + static_cast<int>(text.size()) - 1000; }),
                         Small(std::function<int(int)>([held](int more) { return *held + more; }))}) {
    EXPECT_TRUE(f);
    EXPECT_EQ(f(2), 7);
    const Small copy = f;
    EXPECT_EQ(copy(3), 8);
    EXPECT_EQ(f(4), 9) << "a copy takes nothing away";
  }
  EXPECT_EQ(held.use_count(), 1) << "and all of it is gone";
}

TEST(SmallFunctionTest, IsEmptyOnceMovedFromOrMadeOfNothing) {
  const auto held = std::make_shared<int>(1);
  Small f = [held](int) { return 0; };
  const Small moved = std::move(f);
  EXPECT_FALSE(f);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_TRUE(moved);
  EXPECT_EQ(held.use_count(), 2);
  f = moved;
  EXPECT_EQ(held.use_count(), 3);
  EXPECT_EQ(std::exchange(f, nullptr)(0), 0);
  EXPECT_FALSE(f);
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_FALSE(Small(std::function<int(int)>()));
  EXPECT_FALSE(Small());
}

struct Text {
  std::string text;
  void Clear() { text.clear(); }
};

TEST(ReusePoolTest, ReturnedObjectIsReusedWithItsMemory) {
  const auto pool = ReusePool<Text>::Make(1);
  std::shared_ptr<Text> first = pool->Take();
  first->text.assign(1000, 'x');
  Text* const place = first.get();
  const char* const memory = first->text.data();
  std::shared_ptr<const void> another = first;
  first.reset();
  const std::shared_ptr<Text> other = pool->Take();
  EXPECT_NE(other.get(), place) << "it has an owner still";
  another.reset();
  const std::shared_ptr<Text> second = pool->Take();
  EXPECT_EQ(second.get(), place);
  EXPECT_EQ(second->text.data(), memory);
  EXPECT_TRUE(second->text.empty());
}

TEST(ReusePoolTest, LentObjectOutlivesThePool) {
  auto pool = ReusePool<Text>::Make(2);
  const std::shared_ptr<Text> out = pool->Take();
  const std::weak_ptr<ReusePool<Text>> known = pool;
  pool.reset();
  EXPECT_FALSE(known.expired());
  out->text = "there";
  EXPECT_EQ(out->text, "there");
}

}  // namespace
}  // namespace atl
