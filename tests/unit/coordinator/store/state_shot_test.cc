// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/state_shot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace atl {
namespace {

struct Live {
  explicit Live(size_t elements, float from = 0) : public_copy(elements), momentum(elements), residual(elements) {
    Set(from);
  }
  void Set(float from) {
    for (std::vector<float>* values : {&public_copy, &momentum, &residual}) {
      std::iota(values->begin(), values->end(), from);
      from += 1000;
    }
  }
  FragmentArrays view() const { return {public_copy, momentum, residual}; }
  std::vector<float> Joined() const {
    std::vector<float> all = public_copy;
    all.insert(all.end(), momentum.begin(), momentum.end());
    all.insert(all.end(), residual.begin(), residual.end());
    return all;
  }
  std::vector<float> public_copy, momentum, residual;
};

// Reads in pieces that end inside elements and arrays; `done` receives each end.
std::vector<float> ReadAll(
    const StateShot& shot, size_t piece, const std::function<void(size_t)>& done = [](size_t) {}) {
  std::vector<float> all(3 * shot.elements());
  const auto bytes = std::as_writable_bytes(std::span(all));
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const size_t end = std::min(at + piece, bytes.size());
    shot.Read(at, bytes.subspan(at, end - at));
    done(end);
  }
  return all;
}

TEST(StateShotTest, ReadsTheArraysConcatenated) {
  const Live live(7);
  const StateShot shot(live.view());
  for (const size_t piece : {1u, 5u, 28u, 30u, 84u}) EXPECT_EQ(ReadAll(shot, piece), live.Joined()) << piece;
}

TEST(StateShotTest, ArraysThatAreNotThereAreZeros) {
  const Live live(3, 1);
  StateShot shot({live.public_copy, {}, {}});
  const std::vector<float> wanted{1, 2, 3, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(ReadAll(shot, 5), wanted);
  shot.Detach();
  EXPECT_EQ(ReadAll(shot, 5), wanted);
}

TEST(StateShotTest, StaysAsItWasOnceDetached) {
  Live live(7);
  const std::vector<float> was = live.Joined();
  StateShot shot(live.view());
  shot.Detach();
  live.Set(5000);
  shot.Detach();  // a second call must not copy the current values
  EXPECT_EQ(ReadAll(shot, 9), was);
}

// A writer has passed a part, and will not read that part again.
TEST(StateShotTest, OnlyUnreadBytesAreCopied) {
  for (size_t passed = 0; passed <= 84; ++passed) {
    Live live(7);
    const std::vector<float> was = live.Joined();
    StateShot shot(live.view(), nullptr, 10);
    shot.Passed(passed);
    shot.Detach();
    live.Set(5000);
    std::vector<std::byte> rest(84 - passed);
    shot.Read(passed, rest);
    EXPECT_TRUE(std::ranges::equal(rest, std::as_bytes(std::span(was)).subspan(passed))) << passed;
  }
}

TEST(StateShotTest, PassedBytesCannotBeRead) {
  const Live live(7);
  StateShot shot(live.view());
  shot.Passed(40);
  shot.Passed(20);
  std::vector<std::byte> some(1);
  EXPECT_DEATH(shot.Read(39, some), "what was passed is not read");
}

// The copies of one shot reuse the memory of the previous shot, at any position of its writer.
TEST(StateShotTest, CopiesUseTheirRoomAgain) {
  const auto copies = ShotCopies::Make(1);
  const std::byte* const room = copies->Take()->Room(88).data();
  for (const size_t passed : {20u, 5u}) {
    Live live(7, static_cast<float>(passed));
    const std::vector<float> was = live.Joined();
    StateShot shot(live.view(), copies, 8);
    shot.Passed(passed);
    shot.Detach();
    live.Set(5000);
    EXPECT_EQ(shot.copied_bytes(), 84 - passed);
    // Backwards, in parts of eight bytes.
    for (size_t part = 0; 84 - part * 8 > passed + 8; ++part) {
      const auto wanted = std::as_bytes(std::span(was)).subspan(84 - (part + 1) * 8, 8);
      EXPECT_TRUE(std::ranges::equal(std::span(room + part * 8, 8), wanted)) << part;
    }
  }
}

// After each part of a copy: a read begins in the arrays and ends in the copy.
TEST(StateShotTest, IsTheSameAtEachPartOfACopy) {
  const Live live(7);
  StateShot shot({live.public_copy, live.momentum, {}}, nullptr, 10);
  std::vector<float> wanted = live.Joined();
  std::fill(wanted.begin() + 14, wanted.end(), 0.0f);
  size_t parts = 0;
  do {
    EXPECT_EQ(shot.copied_bytes(), std::min<size_t>(56, parts * 10));
    for (const size_t piece : {84u, 30u, 7u}) EXPECT_EQ(ReadAll(shot, piece), wanted) << parts;
    ++parts;
  } while (shot.DetachSome());
  EXPECT_EQ(parts, 7u);
}

TEST(StateShotTest, NothingIsCopiedAfterTheLastRead) {
  const Live live(7);
  StateShot shot({live.public_copy, live.momentum, {}});
  shot.Passed(56);
  shot.Detach();
  EXPECT_EQ(shot.copied_bytes(), 0u);
  std::vector<std::byte> zeros(28, std::byte{1});
  shot.Read(56, zeros);
  EXPECT_TRUE(std::ranges::all_of(zeros, [](std::byte b) { return b == std::byte{0}; }));
}

// A writer is in the middle when the state is about to change.
TEST(StateShotTest, MayBeDetachedWhileItIsRead) {
  Live live(50'000);
  const std::vector<float> was = live.Joined();
  StateShot shot(live.view(), nullptr, 1009);
  std::vector<float> read;
  std::thread writer([&] { read = ReadAll(shot, 997, [&](size_t end) { shot.Passed(end); }); });
  shot.Detach();
  live.Set(5000);
  writer.join();
  EXPECT_TRUE(read == was);
}

}  // namespace
}  // namespace atl
