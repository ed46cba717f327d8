// SPDX-License-Identifier: Apache-2.0
// No client can occupy all places (S36, S39).
#include "coordinator/service/caller_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

TEST(CallerPlaces, PlacesPerIdentityAreLimited) {
  CallerPlaces places(3, "watches jobs", "end one");
  const Identity eve = {Role::kViewer, "eve", ""};
  std::vector<CallerPlaces::Place> held;
  for (uint32_t i = 0; i < 3; ++i) held.push_back(*places.Take(eve));
  const absl::Status refused = places.Take(eve).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("viewer/eve watches jobs 3 times, the limit of one identity; end one"),
            absl::string_view::npos)
      << refused;
  EXPECT_TRUE(places.Take(Identity{Role::kViewer, "bob", ""}).ok());
  EXPECT_TRUE(places.Take(Identity{Role::kAdmin, "eve", ""}).ok()) << "another identity";
  held.pop_back();
  EXPECT_TRUE(places.Take(eve).ok());
  EXPECT_TRUE(places.Take(eve).ok()) << "given back at once";
}

TEST(CallerPlaces, WithoutCertificatesNothingIsCounted) {
  CallerPlaces places(3, "watches jobs", "end one");
  std::vector<CallerPlaces::Place> held;
  for (uint32_t i = 0; i < 10 * 3; ++i) held.push_back(*places.Take(std::nullopt));
}

}  // namespace
}  // namespace atl
