// SPDX-License-Identifier: Apache-2.0
#include "worker/link/network_link.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/worker/link/link_fixture.h"

namespace atl {
namespace {

TEST_F(LinkTest, HeartbeatsBeginWithTheWelcomeAndKeepTime) {
  Settle();
  EXPECT_EQ(Events<worker::StreamUp>().size(), 1u);
  EXPECT_TRUE(Beats().empty());
  Heartbeat says;
  says.step = 12;
  link_.SetHeartbeat(says);
  Welcome();
  ASSERT_EQ(Beats().size(), 1u);
  EXPECT_EQ(Beats()[0].step, 12u);
  for (int i = 0; i < 5; ++i) Pass(Seconds(2));
  ASSERT_EQ(Beats().size(), 6u);
  EXPECT_EQ(Beats()[5].sequence, Beats()[0].sequence + 5);
  Pass(Seconds(30));
  EXPECT_EQ(Beats().size(), 7u) << "missed beats are not made up for";
}

TEST_F(LinkTest, NewWaitIsReportedSoonButNotTooOften) {
  Settle();
  Heartbeat trains, waits;
  trains.activity = WorkerActivity::kTraining;
  waits.activity = WorkerActivity::kWaiting;
  link_.SetHeartbeat(trains);
  Welcome();
  Pass(Milliseconds(700));
  ASSERT_EQ(Beats().size(), 1u);
  link_.SetHeartbeat(waits);
  Pass({});
  ASSERT_EQ(Beats().size(), 2u);
  EXPECT_EQ(Beats()[1].activity, WorkerActivity::kWaiting);
  for (int i = 0; i < 20; ++i) {
    link_.SetHeartbeat(trains);
    link_.SetHeartbeat(waits);
    Pass(Milliseconds(50));
  }
  EXPECT_EQ(Beats().size(), 4u) << "at most four in an interval of 2 s";
  for (int i = 0; i < 40; ++i) Pass(Milliseconds(100));
  EXPECT_EQ(Beats().size(), 6u) << "a wait that goes on is told at the usual pace";
}

TEST_F(LinkTest, NoAnswerToHelloEndsTheAttempt) {
  Settle();
  SayHello();
  Pass(limits::kControlDeadline);
  const auto downs = Events<worker::StreamDown>();
  ASSERT_EQ(downs.size(), 1u);
  EXPECT_NE(downs[0].reason.find("no answer to Hello within 10 s"), std::string::npos);
  Pass(Seconds(1));
  EXPECT_EQ(opened_, 2);
}

TEST_F(LinkTest, ABrokenStreamIsOpenedAgainWithGrowingWaits) {
  Settle();
  Welcome();
  EXPECT_TRUE(link_.connected());
  Instant last = clock_.Now();
  Duration longest{};
  for (int i = 1; i <= 6; ++i) {
    pair_.break_connection();
    Settle();
    EXPECT_FALSE(link_.connected());
    const int before = opened_;
    while (opened_ == before) Pass(Milliseconds(10));
    longest = std::max(longest, clock_.Now() - last);
    last = clock_.Now();
  }
  EXPECT_GT(longest, Seconds(1));
  EXPECT_LE(longest, Seconds(7));
  EXPECT_EQ(Events<worker::StreamUp>().size(), 7u);
}

// As from a coordinator on an older state: its Welcome is not a success and must not shorten the
// next wait.
TEST_F(LinkTest, AWelcomeThatIsNotFollowedLeavesTheWaitsGrowing) {
  Settle();
  Duration longest{};
  for (int i = 1; i <= 7; ++i) {
    Welcome();
    const Instant closed = clock_.Now();
    const int before = opened_;
    link_.CloseStream("an older state");
    Settle();
    while (opened_ == before) Pass(Milliseconds(10));
    longest = std::max(longest, clock_.Now() - closed);
  }
  EXPECT_GT(longest, Seconds(3));
  EXPECT_LE(longest, Seconds(7));
  Welcome();
  const Instant broken = clock_.Now();
  const int before = opened_;
  pair_.break_connection();
  Settle();
  while (opened_ == before) Pass(Milliseconds(10));
  EXPECT_LT(clock_.Now() - broken, Milliseconds(200)) << "one that is followed is a success";
}

TEST_F(LinkTest, ErrorContainsTheAdvice) {
  advice_ = "start it with --identity";
  Settle();
  pair_.break_connection();
  Settle();
  const auto downs = Events<worker::StreamDown>();
  ASSERT_EQ(downs.size(), 1u);
  EXPECT_NE(downs[0].reason.find("): start it with --identity; retrying in "), std::string::npos) << downs[0].reason;
}

TEST_F(LinkTest, SayIsInOrderAndDroppedWhileDown) {
  Settle();
  SayHello();
  link_.Say(Leaving{"one"});
  link_.Say(Leaving{"two"});
  Settle();
  ASSERT_EQ(heard_.size(), 3u);
  EXPECT_EQ(std::get<Leaving>(heard_[2]).reason, "two");
  pair_.break_connection();
  Settle();
  link_.Say(Leaving{"three"});
  Settle();
  EXPECT_EQ(heard_.size(), 3u);
}

// The core is in a step of half a minute, while streams open and break.
TEST_F(LinkTest, AWorkerThatHearsLateOfItsStreamsGreetsTheOneThatStandsOnce) {
  Settle();
  for (int i = 0; i < 2; ++i) {
    pair_.break_connection();
    Settle();
    Pass(Seconds(1));
  }
  Pass(Seconds(25));
  EXPECT_EQ(opened_, 3) << "it waits for the Hello of a core that is busy";
  for (size_t up = 0; up < Events<worker::StreamUp>().size(); ++up) link_.Say(Hello{});
  Settle();
  ASSERT_EQ(heard_.size(), 1u);
  Pass(limits::kControlDeadline - Seconds(1));
  Welcome();
  EXPECT_TRUE(link_.connected());
  EXPECT_EQ(opened_, 3);
  EXPECT_EQ(Events<worker::StreamDown>().size(), 2u);
}

TEST_F(LinkTest, WordsForAnOlderStreamDoNotComeBeforeHello) {
  Settle();
  Welcome();
  pair_.break_connection();
  Settle();
  Pass(Seconds(1));
  heard_.clear();
  link_.Say(EvaluationDone{});
  Settle();
  EXPECT_TRUE(heard_.empty());
  SayHello();
  link_.Say(EvaluationDone{});
  Settle();
  ASSERT_EQ(heard_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Hello>(heard_[0]));
}

TEST_F(LinkTest, AStreamThatIsNeverGreetedIsOpenedAgain) {
  Settle();
  Pass(kHelloPatience - Seconds(1));
  EXPECT_TRUE(Events<worker::StreamDown>().empty());
  Pass(Seconds(1));
  ASSERT_EQ(Events<worker::StreamDown>().size(), 1u);
  EXPECT_NE(Events<worker::StreamDown>()[0].reason.find("too busy to send Hello within 60 s"), std::string::npos);
}

TEST_F(LinkTest, FinishSendsPendingMessagesFirst) {
  Settle();
  Welcome();
  link_.Say(Leaving{"bye"});
  link_.Finish();
  Settle();
  pair_.coordinator->Close(absl::OkStatus());
  Settle();
  EXPECT_TRUE(link_.finished());
  EXPECT_EQ(std::get<Leaving>(heard_.back()).reason, "bye");
  Pass(Seconds(60));
  EXPECT_EQ(opened_, 1) << "no new attempt";
}

// Durations run from request to end; the test moves the clock while the bytes are in flight.
TEST_F(LinkTest, UploadsGoOneAfterTheOtherAndWaitForNoAnswer) {
  bulk_.holds_ends = true;
  const SharedBytes bytes = SomeBytes(1234);
  for (const uint32_t fragment : {2u, 0u, 1u}) {
    ContributionHeader header = HeaderFor(bytes);
    header.target.fragment = FragmentIndex{fragment};
    link_.StartUpload({header, BootNumber{1}}, bytes);
  }
  Settle();
  EXPECT_EQ(bulk_.order, (std::vector<uint32_t>{2, 0, 1})) << "as they were asked for";
  EXPECT_EQ(bulk_.left_at_begin, (std::vector<uint64_t>{0, 0})) << "each has the line to itself";
  EXPECT_EQ(bulk_.ends.size(), 3u) << "all are sent before one is accepted";
  EXPECT_TRUE(Events<worker::UploadEnded>().empty());
  for (const StatusReply& accept : bulk_.ends) accept(absl::OkStatus());
  Settle();
  EXPECT_EQ(Events<worker::UploadEnded>().size(), 3u);
}

TEST_F(LinkTest, ABrokenUploadLetsTheNextOneGo) {
  const SharedBytes bytes = SomeBytes(1234);
  ContributionHeader other = HeaderFor(bytes);
  other.target.fragment = FragmentIndex{0};
  cut_in_ = 5;
  link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
  link_.StartUpload({other, BootNumber{1}}, bytes);
  Settle();
  ASSERT_EQ(Events<worker::UploadEnded>().size(), 1u);
  EXPECT_EQ(Events<worker::UploadEnded>().front().target.fragment.value, 0u);
  Pass(Seconds(1));
  EXPECT_EQ(Events<worker::UploadEnded>().size(), 2u);
}

TEST_F(LinkTest, DownloadsRunInTurnButUpdatesBeforeWholeFragments) {
  bulk_.Serve(SomeBytes(1234), 9);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{0}, 1234, Version{});
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{});
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{2}, Version{9}}, 1234);
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{3}, Version{9}}, 1234);
  link_.Turn();
  executor_.RunAll();
  EXPECT_EQ(bulk_.offsets.size(), 2u) << "one of each kind";
  Settle();
  EXPECT_EQ(bulk_.offsets.size(), 4u);
  EXPECT_EQ(bulk_.most_running, 1);
  EXPECT_EQ(Events<FetchedBytes>().size(), 4u);
}

TEST_F(LinkTest, RatesAreMeasuredOfLargeFinishedTransfers) {
  const auto transfer = [&](size_t size, Duration took) {
    const SharedBytes bytes = SomeBytes(size);
    bulk_.received.clear();
    link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
    link_.Turn();
    clock_.Advance(took);
    Settle();
  };
  transfer(kRateBytes - 1, Seconds(2));
  EXPECT_EQ(link_.totals().upload_bytes_per_second, 0) << "too small for a rate";
  transfer(2 * kRateBytes, Seconds(2));
  EXPECT_DOUBLE_EQ(link_.totals().upload_bytes_per_second, kRateBytes);
  transfer(2 * kRateBytes, Seconds(1));
  EXPECT_DOUBLE_EQ(link_.totals().upload_bytes_per_second, 1.25 * kRateBytes) << "a moving mean";
  EXPECT_EQ(link_.totals().download_bytes_per_second, 0);
  cut_in_ = 5000;
  transfer(2 * kRateBytes, Seconds(1));
  EXPECT_DOUBLE_EQ(link_.totals().upload_bytes_per_second, 1.25 * kRateBytes) << "a broken one is no measurement";
}

TEST_F(LinkTest, HeartbeatsReportTheLinksRates) {
  Settle();
  Welcome();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Beats().back().upload_bytes_per_second, 0u) << "too few transfers yet";
    const SharedBytes bytes = SomeBytes(2 * kRateBytes);
    bulk_.received.clear();
    link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
    link_.Turn();
    clock_.Advance(Seconds(2));
    Settle();
  }
  Pass(Seconds(2));
  EXPECT_EQ(Beats().back().upload_bytes_per_second, kRateBytes);
  EXPECT_EQ(Beats().back().download_bytes_per_second, 0u);
}

TEST_F(LinkTest, ADownloadIsMeasuredToo) {
  bulk_.Serve(SomeBytes(4 * kRateBytes), 7);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{0}, 4 * kRateBytes, Version{});
  link_.Turn();
  clock_.Advance(Seconds(2));
  Settle();
  ASSERT_EQ(Events<FetchedBytes>().size(), 1u);
  EXPECT_DOUBLE_EQ(link_.totals().download_bytes_per_second, 2 * kRateBytes);
}

TEST_F(LinkTest, ARefusedUploadIsNotTriedAgain) {
  bulk_.refusal = absl::FailedPreconditionError("version 5 is the newest");
  const SharedBytes bytes = SomeBytes(10);
  link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
  Settle();
  Pass(Seconds(60));
  const auto ended = Events<worker::UploadEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].result, worker::UploadResult::kRefused);
  EXPECT_EQ(ended[0].reason, "version 5 is the newest");
  EXPECT_EQ(bulk_.uploads, 1);
}

TEST_F(LinkTest, AnUnavailableCoordinatorIsAskedUntilCancelled) {
  bulk_.refusal = absl::UnavailableError("starting");
  const SharedBytes bytes = SomeBytes(10);
  link_.StartUpload({HeaderFor(bytes), BootNumber{1}}, bytes);
  Settle();
  for (int i = 0; i < 20; ++i) Pass(Seconds(6));
  EXPECT_GT(bulk_.uploads, 10);
  EXPECT_TRUE(Events<worker::UploadEnded>().empty());
  link_.CancelUpload(FragmentIndex{2});
  Settle();
  const int before = bulk_.uploads;
  for (int i = 0; i < 5; ++i) Pass(Seconds(6));
  EXPECT_EQ(bulk_.uploads, before);
}

TEST_F(LinkTest, AFragmentBelowTheVersionWantedIsRefusedBeforeItsBytes) {
  bulk_.Serve(SomeBytes(1234), 9);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{10});
  Settle();
  const auto failed = Events<worker::FragmentFetchFailed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].reason.find("newest snapshot is of version 9"), std::string::npos) << failed[0].reason;
  EXPECT_EQ(link_.totals().downloaded_bytes, 0u);
  link_.FetchFragment(JobId{"toy"}, FragmentIndex{1}, 1234, Version{9});
  Settle();
  EXPECT_EQ(Events<FetchedBytes>().size(), 1u);
}

TEST_F(LinkTest, BytesWithAnotherDigestAreNeverHandedOn) {
  bulk_.Serve(SomeBytes(1234), 9);
  bulk_.header.digest = Digest{1, 1};
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{9}}, 1234);
  Settle();
  for (int i = 0; i < 60; ++i) Pass(Seconds(1));
  EXPECT_TRUE(Events<FetchedBytes>().empty());
  const auto failed = Events<worker::UpdateFetchFailed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].reason.find("digest"), std::string::npos);
  EXPECT_EQ(bulk_.offsets.size(), static_cast<size_t>(kDownloadAttempts));
}

TEST_F(LinkTest, OversizedDownloadIsRefusedAtItsHeader) {
  bulk_.Serve(SomeBytes(1234), 9);
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{9}}, 1000);
  Settle();
  const auto failed = Events<worker::UpdateFetchFailed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].reason.find("announces 1234 bytes, but at most 1000"), std::string::npos);
}

TEST_F(LinkTest, AnUpdateThatIsNotKeptAnyMoreFailsAtOnce) {
  bulk_.refusal = absl::NotFoundError("version 3 is not kept any more");
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{3}}, 1000);
  Settle();
  ASSERT_EQ(Events<worker::UpdateFetchFailed>().size(), 1u);
  EXPECT_EQ(bulk_.offsets.size(), 1u);
}

TEST_F(LinkTest, ADownloadOutlastsACoordinatorThatIsAwayOrNotReady) {
  const std::vector<absl::Status> refusals = {absl::UnavailableError("no connection"),
                                              absl::DeadlineExceededError("nothing came"),
                                              absl::ResourceExhaustedError("too many calls in this second")};
  for (const absl::Status& refusal : refusals) {
    SCOPED_TRACE(refusal);
    events_.clear();
    bulk_.offsets.clear();
    bulk_.refusal = refusal;
    link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{9}}, 1234);
    link_.FetchFragment(JobId{"toy"}, FragmentIndex{2}, 1234, Version{});
    Settle();
    for (int i = 0; i < 120; ++i) Pass(Seconds(1));
    EXPECT_TRUE(Events<worker::UpdateFetchFailed>().empty());
    EXPECT_TRUE(Events<worker::FragmentFetchFailed>().empty());
    EXPECT_GT(bulk_.offsets.size(), size_t{2} * kDownloadAttempts);
    EXPECT_LT(bulk_.offsets.size(), 120u) << "the waits grow";
    bulk_.refusal = absl::OkStatus();
    bulk_.Serve(SomeBytes(1234), 9);
    for (int i = 0; i < 10; ++i) Pass(Seconds(1));
    EXPECT_EQ(Events<FetchedBytes>().size(), 2u);
  }
}

TEST_F(LinkTest, UnreadableDownloadFails) {
  bulk_.refusal = absl::InternalError("read /state/log: Input/output error");
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{9}}, 1234);
  Settle();
  for (int i = 0; i < 60; ++i) Pass(Seconds(1));
  ASSERT_EQ(Events<worker::UpdateFetchFailed>().size(), 1u);
  EXPECT_EQ(bulk_.offsets.size(), static_cast<size_t>(kDownloadAttempts));
}

TEST_F(LinkTest, DroppedFetchesSayNothing) {
  bulk_.refusal = absl::UnavailableError("starting");
  link_.FetchUpdate(JobId{"toy"}, {FragmentIndex{1}, Version{3}}, 1000);
  Settle();
  link_.DropFetches(FragmentIndex{1});
  for (int i = 0; i < 60; ++i) Pass(Seconds(1));
  EXPECT_TRUE(Events<worker::UpdateFetchFailed>().empty());
}

}  // namespace
}  // namespace atl
