// SPDX-License-Identifier: Apache-2.0
#include "common/base/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace atl {
namespace {

size_t PagesInMemory(std::span<std::byte> room) {
  std::vector<unsigned char> there(room.size() / static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(::mincore(room.data(), room.size(), there.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(there, [](unsigned char page) { return (page & 1u) != 0; }));
}

TEST(PagesTest, OnlyTouchedPagesUseMemory) {
  Pages pages;
  const std::span<std::byte> room = pages.Room(8 << 20);
  ASSERT_EQ(room.size(), 8u << 20);
  const size_t before = PagesInMemory(room);
  room[5 << 20] = std::byte{7};
  EXPECT_LE(before, 1u);
  EXPECT_LE(PagesInMemory(room), 512u);  // one large page at most
  EXPECT_EQ(room[0], std::byte{0});
}

TEST(PagesTest, TheSameRoomIsUsedAgainWhereItIsLargeEnough) {
  Pages pages;
  const std::span<std::byte> first = pages.Room(10000);
  first[9999] = std::byte{7};
  pages.Clear();
  const std::span<std::byte> second = pages.Room(9000);
  EXPECT_EQ(second.data(), first.data());
  EXPECT_EQ(second.size(), 9000u);
  EXPECT_EQ(pages.Room(10000)[9999], std::byte{7});
  EXPECT_EQ(pages.Room(1 << 20)[9999], std::byte{0});
}

}  // namespace
}  // namespace atl
