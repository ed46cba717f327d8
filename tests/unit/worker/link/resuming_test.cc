// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/unit/worker/link/link_fixture.h"

namespace atl {
namespace {

// 1234 bytes in frames of 100, plus the request: the transfer breaks before each of them in turn.
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
    link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
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

// For any number of breaks; each attempt sends one frame more.
TEST_F(LinkTest, AnUploadThatBreaksAtEveryFrameSendsEachOnce) {
  const SharedBytes bytes = SomeBytes(1234);
  cut_in_ = 2;
  link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
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

TEST_F(LinkTest, DownloadRestartsIfANewerVersionIsServed) {
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
  EXPECT_EQ(bulk_.offsets, (std::vector<uint64_t>{0, 300, 0}));
  EXPECT_TRUE(Events<worker::FragmentFetchFailed>().empty());
}

// At every break there is a newer snapshot.
TEST_F(LinkTest, ADownloadGoesOnWithTheVersionThatItBeganWith) {
  const SharedBytes begun = SomeBytes(1234);
  bulk_.Serve(begun, 9);
  cut_in_ = 4;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Settle();
  for (uint64_t version = 10; version < 30 && Events<FetchedBytes>().empty(); ++version) {
    auto other = std::make_shared<std::vector<std::byte>>(*begun);
    std::reverse(other->begin(), other->end());
    bulk_.Serve(other, version, /*keep=*/true);
    cut_in_ = 4;
    Pass(Seconds(6));
  }
  const auto fetched = Events<FetchedBytes>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(*fetched[0].bytes, *begun);
  EXPECT_EQ(fetched[0].at.version.value, 9u);
  EXPECT_EQ(bulk_.offsets, (std::vector<uint64_t>{0, 300, 600, 900, 1200}));
  EXPECT_EQ(bulk_.versions, (std::vector<uint64_t>{0, 9, 9, 9, 9}));
  EXPECT_EQ(link_.totals().downloaded_bytes, begun->size()) << "nothing is sent again";
}

// As by a worker with a new incarnation after a long outage of its link.
TEST_F(LinkTest, AFragmentThatIsAskedForAgainGoesOn) {
  const SharedBytes begun = SomeBytes(1234);
  bulk_.Serve(begun, 9);
  cut_in_ = 4;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Settle();
  link_.DropFetches(FragmentIndex{1});
  for (int i = 0; i < 5; ++i) Pass(Seconds(60));
  EXPECT_EQ(bulk_.offsets.size(), 1u) << "nobody waits for it";
  bulk_.Serve(SomeBytes(1234), 12, /*keep=*/true);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Pass(Seconds(1));
  const auto fetched = Events<FetchedBytes>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(fetched[0].at.version.value, 9u);
  EXPECT_EQ(*fetched[0].bytes, *begun);
  EXPECT_EQ(bulk_.offsets, (std::vector<uint64_t>{0, 300}));
}

// In mid-flight, and at once.
TEST_F(LinkTest, AFragmentThatIsDroppedAndAskedForAgainComesOnce) {
  bulk_.Serve(SomeBytes(1234), 9);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  (void)link_.Turn();
  for (int i = 0; i < 6; ++i) executor_.RunOne();
  link_.DropFetches(FragmentIndex{1});
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Settle();
  for (int i = 0; i < 5; ++i) Pass(Seconds(1));
  ASSERT_EQ(Events<FetchedBytes>().size(), 1u);
  EXPECT_EQ(*Events<FetchedBytes>()[0].bytes, *SomeBytes(1234));
  EXPECT_TRUE(Events<worker::FragmentFetchFailed>().empty());
}

TEST_F(LinkTest, RepeatedFetchRestartsIfTheRestIsUseless) {
  const auto begin = [this] {
    bulk_.Serve(SomeBytes(1234), 9);
    cut_in_ = 4;
    link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
    Settle();
    events_.clear();
    bulk_.offsets.clear();
    bulk_.Serve(SomeBytes(1234), 12, /*keep=*/true);
  };
  const auto again = [this](const std::string& job, uint64_t at_least) {
    link_.FetchFragment(JobId{job}, FragmentIndex{1}, 1234, Version{at_least});
    Pass(Seconds(6));
    const auto fetched = Events<FetchedBytes>();
    ASSERT_EQ(fetched.size(), 1u);
    EXPECT_EQ(fetched[0].at.version.value, 12u);
    EXPECT_EQ(bulk_.offsets, std::vector<uint64_t>{0});
  };
  begin();
  link_.DropFetches(FragmentIndex{1});
  again("toy", 10);
  begin();
  link_.DropFetches(FragmentIndex{1});
  again("another", 0);
  begin();
  link_.DropAll();
  again("toy", 0);
}

// A download that breaks before its first byte has nothing to resume.
TEST_F(LinkTest, ADownloadWithoutAByteAsksForTheNewestAgain) {
  bulk_.Serve(SomeBytes(1234), 9);
  cut_in_ = 1;
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  Settle();
  bulk_.Serve(SomeBytes(1234), 12, /*keep=*/true);
  for (int i = 0; i < 5; ++i) Pass(Seconds(1));
  const auto fetched = Events<FetchedBytes>();
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_EQ(fetched[0].at.version.value, 12u);
}

}  // namespace
}  // namespace atl
