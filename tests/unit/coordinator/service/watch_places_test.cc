// SPDX-License-Identifier: Apache-2.0
// Limits on watchers: no client can occupy all places.
#include "coordinator/service/watch_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

TEST(WatchPlaces, WatchesPerIdentityAreLimited) {
  WatchPlaces places;
  const Identity eve = {Role::kViewer, "eve", ""};
  std::vector<WatchPlaces::Place> held;
  for (uint32_t i = 0; i < WatchPlaces::kOfOne; ++i) held.push_back(*places.Take(eve));
  const absl::Status refused = places.Take(eve).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("viewer/eve watches jobs and follows logs 32 times, the limit of one identity"),
            absl::string_view::npos)
      << refused;
  EXPECT_TRUE(places.Take(Identity{Role::kViewer, "bob", ""}).ok());
  EXPECT_TRUE(places.Take(Identity{Role::kAdmin, "eve", ""}).ok()) << "somebody else";
  held.pop_back();
  EXPECT_TRUE(places.Take(eve).ok());
  EXPECT_TRUE(places.Take(eve).ok()) << "given back at once";
}

TEST(WatchPlaces, WithoutCertificatesNothingIsCounted) {
  WatchPlaces places;
  std::vector<WatchPlaces::Place> held;
  for (uint32_t i = 0; i < 10 * WatchPlaces::kOfOne; ++i) held.push_back(*places.Take(std::nullopt));
}

}  // namespace
}  // namespace atl
