// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/fetching.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(Fetching, HasATimeByWhatThereIsToFetchAndTheMeasuredRate) {
  JobSpec spec;
  spec.model = {.vocab_size = 50'000, .hidden_size = 500, .intermediate_size = 2'000, .layers = 10};
  // 65 million parameters of 4 bytes.
  EXPECT_EQ(FetchTimeOf(spec, 26'000'000).allowed, Seconds(120 + 2 * 10));
  EXPECT_EQ(FetchTimeOf(spec, 26'000'000).reason, "260 MB at 26.0 MB/s, as measured");
  EXPECT_EQ(FetchTimeOf(spec, 0).allowed, Seconds(120 + 2 * 208));
  EXPECT_EQ(FetchTimeOf(spec, 0).reason, "260 MB at 1.2 MB/s, as assumed");
  spec.model.layers = 1'000'000;
  EXPECT_EQ(FetchTimeOf(spec, 1).allowed, Seconds(120 + 2 * 86'400)) << "nothing runs over";
}

TEST(Fetching, EachDeadlineIsTwiceAsLongAsTheOneBefore) {
  EXPECT_EQ(FetchDeadline(Seconds(100), 0), Seconds(100));
  EXPECT_EQ(FetchDeadline(Seconds(100), 1), Seconds(300));
  EXPECT_EQ(FetchDeadline(Seconds(100), 2), Seconds(700));
  EXPECT_EQ(FetchDeadline(Seconds(100), 1'000'000), FetchDeadline(Seconds(100), kFetchDeadlines));
}

}  // namespace
}  // namespace atl
