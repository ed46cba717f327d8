// SPDX-License-Identifier: Apache-2.0
#include "common/base/buffer_shelf.h"

#include <gtest/gtest.h>

#include <utility>

namespace atl {
namespace {

TEST(BufferShelfTest, ABufferThatCameBackIsTakenAgain) {
  BufferShelf shelf(1);
  std::vector<std::byte> first = shelf.Take(1000);
  EXPECT_TRUE(first.empty());
  ASSERT_GE(first.capacity(), 1000u);
  first.resize(1000, std::byte{7});
  const std::byte* place = first.data();
  shelf.GiveBack(std::move(first));
  const std::vector<std::byte> second = shelf.Take(900);
  EXPECT_EQ(second.data(), place);
  EXPECT_EQ(second, std::vector<std::byte>(1000, std::byte{7}));
  EXPECT_NE(shelf.Take(900).data(), place);  // the buffer is stored only once
}

TEST(BufferShelfTest, TheSmallestThatIsLargeEnoughIsTaken) {
  BufferShelf shelf(3);
  std::vector<std::byte> small = shelf.Take(10), middle = shelf.Take(100), large = shelf.Take(1000);
  const std::byte *of_small = small.data(), *of_middle = middle.data(), *of_large = large.data();
  shelf.GiveBack(std::move(large));
  shelf.GiveBack(std::move(small));
  shelf.GiveBack(std::move(middle));
  EXPECT_EQ(shelf.Take(50).data(), of_middle);
  EXPECT_EQ(shelf.Take(50).data(), of_large);
  EXPECT_GE(shelf.Take(50).capacity(), 50u);  // only the small buffer is left
  EXPECT_EQ(shelf.Take(5).data(), of_small);
}

TEST(BufferShelfTest, KeepsTheLargestOfThoseThatCameBack) {
  BufferShelf shelf(1);
  std::vector<std::byte> small = shelf.Take(10), large = shelf.Take(1000);
  const std::byte* of_large = large.data();
  shelf.GiveBack(std::move(large));
  shelf.GiveBack(std::move(small));
  EXPECT_EQ(shelf.Take(5).data(), of_large);
}

TEST(BufferShelfTest, SharedBufferReturnsFromItsLastOwner) {
  const auto shelf = std::make_shared<BufferShelf>(1);
  std::vector<std::byte> bytes = shelf->Take(100);
  bytes.resize(100, std::byte{9});
  const std::byte* place = bytes.data();
  auto owner = ShareFrom(shelf, std::move(bytes));
  auto other = owner;
  EXPECT_EQ(owner->size(), 100u);
  EXPECT_EQ((*owner)[99], std::byte{9});
  owner.reset();
  EXPECT_NE(shelf->Take(100).data(), place);
  other.reset();
  EXPECT_EQ(shelf->Take(100).data(), place);
}

TEST(BufferShelfTest, SharedBufferOutlivesTheShelf) {
  auto shelf = std::make_shared<BufferShelf>(1);
  const auto owner = ShareFrom(shelf, std::vector<std::byte>(100, std::byte{9}));
  shelf.reset();
  EXPECT_EQ(owner->size(), 100u);
  EXPECT_EQ((*owner)[0], std::byte{9});
}

}  // namespace
}  // namespace atl
