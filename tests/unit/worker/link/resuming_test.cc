// Transfers that break and go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/unit/worker/link/link_fixture.h"

namespace atl {
namespace {

// 1234 bytes in frames of 100 and the request before them: every frame is the one before which it breaks.
constexpr int kFrames = 13;

TEST_F(LinkTest, AnUploadResumesWhereItBroke) {
  for (int frame = 1; frame <= kFrames; ++frame) {
    SCOPED_TRACE(frame);
    const uint64_t sent_before = link_.totals().uploaded_bytes;
    const SharedBytes bytes = SomeBytes(1234);
    bulk_.received.clear();
    bulk_.uploads = 0;
    events_.clear();
    cut_in_ = frame;
    link_.StartUpload(HeaderFor(bytes), BootNumber{1}, bytes);
    Settle();
    EXPECT_TRUE(Events<worker::UploadEnded>().empty());
    EXPECT_EQ(bulk_.received.size(), static_cast<size_t>(frame - 1) * 100);
    Pass(Seconds(1));
    const auto ended = Events<worker::UploadEnded>();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].result, worker::UploadResult::kAccepted);
    EXPECT_EQ(bulk_.received, *bytes);
    EXPECT_EQ(bulk_.uploads, 2);
    EXPECT_EQ(link_.totals().uploaded_bytes - sent_before, bytes->size()) << "what had arrived is not sent again";
  }
}

// However often it breaks; each try gets a frame further.
TEST_F(LinkTest, AnUploadThatBreaksAtEveryFrameSendsEachOnce) {
  const SharedBytes bytes = SomeBytes(1234);
  cut_in_ = 2;
  link_.StartUpload(HeaderFor(bytes), BootNumber{1}, bytes);
  Settle();
  for (int tries = 0; tries < 60 && Events<worker::UploadEnded>().empty(); ++tries) {
    cut_in_ = 2;
    Pass(Seconds(6));
  }
  ASSERT_EQ(Events<worker::UploadEnded>().size(), 1u);
  EXPECT_EQ(bulk_.received, *bytes);
  EXPECT_EQ(bulk_.uploads, kFrames);
  EXPECT_EQ(link_.totals().uploaded_bytes, bytes->size());
}

TEST_F(LinkTest, ADownloadResumesWhereItBroke) {
  const SharedBytes bytes = SomeBytes(1234);
  bulk_.Serve(bytes, 9);
  for (int frame = 1; frame <= kFrames; ++frame) {
    SCOPED_TRACE(frame);
    const uint64_t got_before = link_.totals().downloaded_bytes;
    bulk_.offsets.clear();
    events_.clear();
    cut_in_ = frame;
    link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, bytes->size(), Version{});
    Settle();
    Pass(Seconds(1));
    const auto fetched = Events<FetchedBytes>();
    ASSERT_EQ(fetched.size(), 1u);
    EXPECT_EQ(*fetched[0].bytes, *bytes);
    EXPECT_EQ(fetched[0].at.version.value, 9u);
    EXPECT_EQ(fetched[0].hash, (Digest{5, 6}));
    EXPECT_TRUE(fetched[0].whole);
    EXPECT_EQ(bulk_.offsets, (std::vector<uint64_t>{0, static_cast<size_t>(frame - 1) * 100}));
    EXPECT_EQ(link_.totals().downloaded_bytes - got_before, bytes->size()) << "what had arrived is not sent again";
  }
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
