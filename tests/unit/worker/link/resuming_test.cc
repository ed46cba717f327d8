// Transfers that break and go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/unit/worker/link/link_test.h"

namespace atl {
namespace {

TEST_F(LinkTest, AnUploadResumesWhereItBroke) {
  const SharedBytes bytes = SomeBytes(1234);
  cut_in_ = 5;
  link_.StartUpload(HeaderFor(bytes), BootNumber{1}, bytes);
  Settle();
  EXPECT_TRUE(Events<worker::UploadEnded>().empty());
  const size_t there = bulk_.received.size();
  EXPECT_GT(there, 0u);
  Pass(Seconds(1));
  const auto ended = Events<worker::UploadEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].result, worker::UploadResult::kAccepted);
  EXPECT_EQ(bulk_.received, *bytes);
  EXPECT_EQ(bulk_.uploads, 2);
  EXPECT_GE(link_.totals().uploaded_bytes, bytes->size());
}

TEST_F(LinkTest, ADownloadResumesWhereItBroke) {
  const SharedBytes bytes = SomeBytes(1234);
  bulk_.Serve(bytes, 9);
  cut_in_ = 4;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, bytes->size(), Version{});
  Settle();
  Pass(Seconds(1));
  const auto fetched = Events<FetchedBytes>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(*fetched[0].bytes, *bytes);
  EXPECT_EQ(fetched[0].at.version.value, 9u);
  EXPECT_EQ(fetched[0].hash, (Digest{5, 6}));
  EXPECT_TRUE(fetched[0].whole);
  ASSERT_EQ(bulk_.offsets.size(), 2u);
  EXPECT_GT(bulk_.offsets[1], 0u);
}

TEST_F(LinkTest, ADownloadBeginsAnewWhenANewerVersionIsServed) {
  bulk_.Serve(SomeBytes(1234), 9);
  cut_in_ = 4;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Settle();
  auto other = std::make_shared<std::vector<std::byte>>(*SomeBytes(1234));
  std::reverse(other->begin(), other->end());
  bulk_.Serve(other, 10);
  for (int i = 0; i < 5; ++i) Pass(Seconds(1));
  const auto fetched = Events<FetchedBytes>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(*fetched[0].bytes, *other);
  EXPECT_EQ(fetched[0].at.version.value, 10u);
}

}  // namespace
}  // namespace atl
