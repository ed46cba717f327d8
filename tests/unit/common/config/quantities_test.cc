// SPDX-License-Identifier: Apache-2.0
#include "common/config/quantities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(Quantities, Durations) {
  EXPECT_EQ(ParseDuration("90s")->ns, Seconds(90).ns);
  EXPECT_EQ(ParseDuration("250ms")->ns, Milliseconds(250).ns);
  EXPECT_EQ(ParseDuration("1.5h")->ns, Seconds(5400).ns);
  EXPECT_EQ(ParseDuration("2m")->ns, Seconds(120).ns);
  EXPECT_EQ(ParseDuration("30d")->ns, Seconds(30 * 86'400).ns);
  EXPECT_EQ(ParseDuration("0s")->ns, 0);
  for (const char* bad : {"", "90", "s", "-1s", "1e3s", "1 s", "1w", "1..5s", "99999999h", "nans"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseDuration("90").status().message(), "is '90'; it must be a time such as 90s, 250ms or 1.5h");
}

TEST(Quantities, DurationsRoundTrip) {
  for (const char* text : {"0s", "90s", "250ms", "17us", "3ns"}) EXPECT_EQ(FormatDuration(*ParseDuration(text)), text);
}

TEST(Quantities, BytesAndRates) {
  EXPECT_EQ(*ParseBytes("4096"), 4096u);
  EXPECT_EQ(*ParseBytes("10MB"), 10'000'000u);
  EXPECT_EQ(*ParseBytes("512MiB"), 536'870'912u);
  EXPECT_EQ(*ParseBytes("1.5GiB"), 1'610'612'736u);
  EXPECT_FALSE(ParseBytes("10Mbit").ok());
  EXPECT_FALSE(ParseBytes("99999999999TiB").ok());
  EXPECT_EQ(*ParseRate("10Mbit"), 1'250'000u);
  EXPECT_EQ(*ParseRate("1Gbit/s"), 125'000'000u);
  EXPECT_EQ(*ParseRate("1Gbps"), 125'000'000u);
  EXPECT_EQ(*ParseRate("200Mbps"), *ParseRate("25MB/s"));
  EXPECT_EQ(*ParseRate("0.5Tbit/s"), 62'500'000'000u);
  EXPECT_EQ(*ParseRate("2MiB"), 2'097'152u);
  EXPECT_EQ(*ParseRate("0"), 0u);
  EXPECT_THAT(std::string(ParseRate("100").status().message()),
              testing::AllOf(testing::StartsWith("is '100'; it must be a rate with its unit"),
                             testing::HasSubstr("as 100Mbit or 12.5MB/s")));
  EXPECT_FALSE(ParseRate("-1Gbps").ok());
  EXPECT_FALSE(ParseRate("nan").ok());
  EXPECT_FALSE(ParseRate("1e9bps").ok());
  EXPECT_FALSE(ParseRate("fast").ok());
  EXPECT_FALSE(ParseRate("/s").ok());
}

TEST(Quantities, Numbers) {
  EXPECT_EQ(*ParseUnsigned("18446744073709551615", UINT64_MAX), UINT64_MAX);
  EXPECT_FALSE(ParseUnsigned("18446744073709551616", UINT64_MAX).ok());
  EXPECT_FALSE(ParseUnsigned("-1", 10).ok());
  EXPECT_FALSE(ParseUnsigned("11", 10).ok());
  EXPECT_FALSE(ParseUnsigned("1.5", 10).ok());
  EXPECT_DOUBLE_EQ(*ParseReal("4e-4"), 4e-4);
  EXPECT_FALSE(ParseReal("inf").ok());
  EXPECT_FALSE(ParseReal("nan").ok());
  EXPECT_TRUE(*ParseBool("yes"));
  EXPECT_FALSE(*ParseBool("off"));
  EXPECT_FALSE(ParseBool("maybe").ok());
}

}  // namespace
}  // namespace atl
