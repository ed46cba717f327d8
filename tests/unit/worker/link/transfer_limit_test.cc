// SPDX-License-Identifier: Apache-2.0
#include "worker/link/transfer_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/link/link_fixture.h"

namespace atl {
namespace {

TEST_F(LinkTest, TransferTimeoutNamesSubjectDurationAndReason) {
  const SharedBytes first = SomeBytes(2'000'000);
  link_.StartUpload({HeaderFor(first), BootNumber{1}}, first);
  link_.Turn();
  clock_.Advance(Seconds(4));
  Settle();
  ASSERT_EQ(Events<worker::UploadEnded>().size(), 1u);
  bulk_.received.clear();
  bulk_.takes_bytes = 1'000'000;
  const SharedBytes second = SomeBytes(3'000'000);
  link_.StartUpload({HeaderFor(second), BootNumber{1}}, second);
  Settle();
  Pass(Seconds(107));
  EXPECT_EQ(WhyBroken(), "") << "60 s, and eight times the 6 s that half a megabyte a second promises";
  Pass(Seconds(1));
  EXPECT_EQ(WhyBroken(),
            "waited 108.0 s: 1.00 of 3.00 MB have arrived; the limit is 108 s, which is 60 s and 8 times "
            "the time of 3.00 MB at the measured 0.50 MB/s");
  bulk_.takes_bytes = std::numeric_limits<uint64_t>::max();
  bulk_.holds_ends = true;
  Pass(Seconds(2));
  Pass(Seconds(1000));
  EXPECT_THAT(WhyBroken(), testing::HasSubstr("all 3.00 MB were sent, and no answer has arrived"));
}

TEST_F(LinkTest, DownloadTimeoutGivesItsReasonAndResumes) {
  bulk_.holds_downloads = true;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 655'360, Version{});
  Settle();
  Pass(Seconds(139));
  EXPECT_EQ(WhyBroken(), "");
  for (int i = 0; i < 2 * kDownloadAttempts; ++i) Pass(Seconds(140));
  EXPECT_THAT(WhyBroken(), testing::HasSubstr(": 0.00 of 0.66 MB have arrived; the limit is 140 s, which is 60 s and "
                                              "8 times the time of 0.66 MB at the assumed 0.07 MB/s"));
  EXPECT_TRUE(Events<worker::FragmentFetchFailed>().empty());
}

}  // namespace
}  // namespace atl
