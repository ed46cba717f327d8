// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/round_log.h"

#include <gtest/gtest.h>

#include <array>

#include "absl/strings/escaping.h"
#include "common/base/random.h"
#include "coordinator/store/round_segment.h"
#include "coordinator/store/segment_format.h"
#include "tests/oracle/oracle.h"
#include "tests/unit/coordinator/store/round_log_fixture.h"

namespace atl {
namespace {

// A kill during the creation of a segment, a restart on the visible files, then a power cut.
TEST_F(RoundLogTest, BytesOfAKilledProcessAreDurableOnceAccepted) {
  for (int n = 0; n < 12; ++n) {
    SCOPED_TRACE(n);
    SimDisk disk;
    disk.FailAt(n, SimDisk::Fault::kFails, /*forever=*/true);
    (void)RoundLog(disk, directory_, BootNumber{1}, kSecret).Open(kKey, kLayout);
    disk.FailAt(-1, SimDisk::Fault::kNone);
    ASSERT_EQ(SyncNames(disk, directory_), absl::OkStatus());
    RoundLog log(disk, directory_, BootNumber{2}, kSecret);
    ASSERT_EQ(log.Open(kKey, kLayout), absl::OkStatus());
    ASSERT_EQ(*log.Begin(kKey, HeaderOf("a", a_)), 0u);
    ASSERT_EQ(Put(log, "a", 0, a_), absl::OkStatus());
    ASSERT_EQ(log.Accept(kKey, {"a"}, 10), absl::OkStatus());
    disk.Crash();
    RoundLog after(disk, directory_, BootNumber{3}, kSecret);
    ASSERT_EQ(after.Open(kKey, kLayout), absl::OkStatus());
    EXPECT_EQ(*after.ReadContribution(kKey, {"a"}), a_);
  }
}

TEST_F(RoundLogTest, ContributionsAreAcceptedTogetherOrNotAtAll) {
  const std::vector<WorkerId> both = {{"a"}, {"b"}};
  for (const bool fails : {true, false}) {
    disk_ = SimDisk();
    auto log = Reopen(1);
    ASSERT_EQ(*log->Begin(kKey, HeaderOf("a", a_)), 0u);
    ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
    ASSERT_EQ(*log->Begin(kKey, HeaderOf("b", b_)), 0u);
    ASSERT_EQ(Put(*log, "b", 0, b_), absl::OkStatus());
    if (fails) disk_.FailAt(2, SimDisk::Fault::kFails);  // the flush after two trailers
    EXPECT_EQ(log->Accept(kKey, both, 10).ok(), !fails);
    EXPECT_EQ(log->ReadContribution(kKey, {"a"}).ok(), !fails);
    EXPECT_EQ(log->ReadContribution(kKey, {"b"}).ok(), !fails);
    if (fails) continue;
    disk_.Crash();
    log = Reopen(2);
    EXPECT_EQ(*log->ReadContribution(kKey, {"a"}), a_);
    EXPECT_EQ(*log->ReadContribution(kKey, {"b"}), b_);
  }
}

TEST_F(RoundLogTest, InterleavedContributionsAreReadBackWholeAfterARestart) {
  auto log = Reopen(1);
  ASSERT_EQ(*log->Begin(kKey, HeaderOf("a", a_)), 0u);
  ASSERT_EQ(Put(*log, "a", 0, Bytes(a_).first(400)), absl::OkStatus());
  ASSERT_EQ(*log->Begin(kKey, HeaderOf("b", b_)), 0u);
  ASSERT_EQ(Put(*log, "b", 0, Bytes(b_)), absl::OkStatus());
  const std::array<Bytes, 2> rest = {Bytes(a_).subspan(400, 100), Bytes(a_).subspan(500)};
  ASSERT_EQ(log->Append(kKey, {"a"}, 400, rest), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"b"}, 10), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 11), absl::OkStatus());

  log = Reopen(2);
  EXPECT_EQ(*log->ReadContribution(kKey, {"a"}), a_);
  EXPECT_EQ(*log->ReadContribution(kKey, {"b"}), b_);
  std::vector<std::byte> buffer(a_.size() + 100, std::byte{9});
  const std::byte* place = buffer.data();
  const auto again = log->ReadContribution(kKey, {"a"}, std::move(buffer));
  EXPECT_EQ(*again, a_);
  EXPECT_EQ(again->data(), place) << "the buffer's memory was not used";
  const SegmentInfo info = *log->Info(kKey);
  ASSERT_EQ(info.accepted.size(), 2u);
  EXPECT_EQ(info.accepted[0].header.worker.value, "a");
  EXPECT_EQ(info.accepted[0].header.cursors, HeaderOf("a", a_).cursors);
  EXPECT_EQ(info.accepted[0].header.codec, CodecKind::kBf16);
  EXPECT_EQ(info.accepted[0].boot.value, 1u);
  EXPECT_EQ(info.accepted[1].wall_nanos, 10);
}

TEST_F(RoundLogTest, AnInterruptedContributionResumesAtItsVerifiedPrefix) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  ASSERT_EQ(Put(*log, "a", 0, Bytes(a_).first(400)), absl::OkStatus());
  log = Reopen(2);
  EXPECT_EQ(log->VerifiedPrefix(kKey, {"a"}, DigestOf(a_)), 400u);
  EXPECT_EQ(log->VerifiedPrefix(kKey, {"a"}, DigestOf(b_)), 0u);
  ContributionHeader later = HeaderOf("a", a_);
  later.incarnation = {5};
  EXPECT_EQ(*log->Begin(kKey, later), 400u);
  EXPECT_EQ(Put(*log, "a", 300, Bytes(a_).subspan(300)).code(), absl::StatusCode::kOutOfRange);
  ASSERT_EQ(Put(*log, "a", 400, Bytes(a_).subspan(400)), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  EXPECT_EQ(log->Info(kKey)->accepted[0].header.incarnation.value, 5u);
  EXPECT_EQ(*log->Begin(kKey, later), 1000u) << "accepted already: nothing is left to send";
}

TEST_F(RoundLogTest, SecondContributionOfAWorkerIsRefused) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  ASSERT_EQ(Put(*log, "a", 0, Bytes(a_).first(400)), absl::OkStatus());
  // Not accepted yet: another contribution replaces it.
  EXPECT_EQ(*log->Begin(kKey, HeaderOf("a", b_)), 0u);
  ASSERT_EQ(Put(*log, "a", 0, b_), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  EXPECT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  EXPECT_EQ(log->Begin(kKey, HeaderOf("a", a_)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*Reopen(2)->ReadContribution(kKey, {"a"}), b_);
}

// A member that restarts uploads endlessly, also after a restart, or sends byte by byte, cannot
// fill the disk.
TEST_F(RoundLogTest, WorkersShareOfARoundIsLimited) {
  const std::vector<std::byte> large = Payload(4 << 20, 3);
  const uint64_t most = kTakenFactor * large.size() + kTakenSlack;
  auto log = Reopen(1);
  absl::Status refused;
  int begun = 0;
  for (; begun < 100 && refused.ok(); ++begun) {
    if (begun == 5) log = Reopen(2);
    ContributionHeader header = HeaderOf("a", large);
    header.digest = Digest{1, static_cast<uint64_t>(begun)};
    refused = log->Begin(kKey, header).status();
    for (size_t at = 0; refused.ok() && at < large.size() - (1 << 20); at += 1 << 20)
      refused = Put(*log, "a", at, Bytes(large).subspan(at, 1 << 20));
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find("include this work in the next version"), absl::string_view::npos) << refused;
  EXPECT_GT(begun, 12);
  EXPECT_LE(disk_.At(Path()).size(), most + 1000);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("b", b_)).ok()) << "others are not held back";
  ASSERT_EQ(Put(*log, "b", 0, b_), absl::OkStatus());
  EXPECT_EQ(log->Accept(kKey, {"b"}, 1), absl::OkStatus());
}

TEST_F(RoundLogTest, BytesOfAnotherDigestAreDiscarded) {
  auto log = Reopen(1);
  std::vector<std::byte> bad = a_;
  bad[5] ^= std::byte{1};
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  EXPECT_EQ(log->CheckComplete(kKey, {"a"}).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(Put(*log, "a", 0, bad), absl::OkStatus());
  EXPECT_EQ(log->Accept(kKey, {"a"}, 1).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*log->Begin(kKey, HeaderOf("a", a_)), 0u);
  EXPECT_EQ(Reopen(2)->VerifiedPrefix(kKey, {"a"}, DigestOf(a_)), 0u);
}

TEST_F(RoundLogTest, KeepsTheEncodedUpdateAndReplacesAnUncommittedOne) {
  auto log = Reopen(1);
  EXPECT_EQ(Update(*log).status().code(), absl::StatusCode::kNotFound);
  UpdateInfo info{{{1}, {8}}, {5, 6}, DigestOf(b_), b_.size(), CodecKind::kFp16, 1};
  ASSERT_EQ(log->WriteUpdate(kKey, info, b_), absl::OkStatus());
  info.digest = DigestOf(a_);
  info.encoded_bytes = a_.size();
  ASSERT_EQ(log->WriteUpdate(kKey, info, a_), absl::OkStatus());
  EXPECT_EQ(log->WriteUpdate(kKey, info, b_).code(), absl::StatusCode::kInternal);
  log = Reopen(2);
  EXPECT_EQ(*Update(*log), a_);
  ASSERT_EQ(log->WriteUpdate(kKey, info, Payload(a_.size(), 3)), absl::OkStatus()) << "damaged since it was made";
  EXPECT_EQ(Update(*log).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(log->WriteUpdate(kKey, info, a_), absl::OkStatus());
  EXPECT_EQ(log->FindUpdate(kKey)->hash, (Digest{5, 6}));
  EXPECT_EQ(log->FindUpdate(kKey)->codec, CodecKind::kFp16);
}

// The story of every crash test below: one contribution accepted, a second in progress, an update.
absl::Status Story(RoundLog& log, const std::vector<std::byte>& a, const std::vector<std::byte>& b, bool& accepted,
                   bool& updated) {
  ATOLL_RETURN_IF_ERROR(log.Open(kKey, kLayout));
  ATOLL_RETURN_IF_ERROR(log.Begin(kKey, HeaderOf("a", a)).status());
  ATOLL_RETURN_IF_ERROR(log.Append(kKey, {"a"}, 0, std::array{Bytes(a).first(400)}));
  ATOLL_RETURN_IF_ERROR(log.Append(kKey, {"a"}, 400, std::array{Bytes(a).subspan(400)}));
  ATOLL_RETURN_IF_ERROR(log.Accept(kKey, {"a"}, 1));
  accepted = true;
  ATOLL_RETURN_IF_ERROR(log.Begin(kKey, HeaderOf("b", b)).status());
  ATOLL_RETURN_IF_ERROR(log.Append(kKey, {"b"}, 0, std::array{Bytes(b).first(300)}));
  ATOLL_RETURN_IF_ERROR(log.WriteUpdate(kKey, {{{1}, {8}}, {5, 6}, DigestOf(b), b.size(), CodecKind::kFp32, 1}, b));
  updated = true;
  return log.Append(kKey, {"b"}, 300, std::array{Bytes(b).subspan(300, 100)});
}

class RoundLogCrashTest : public RoundLogTest, public testing::WithParamInterface<SimDisk::Fault> {};

TEST_P(RoundLogCrashTest, NothingAcknowledgedIsLostAtAnyFailingCall) {
  const int calls = [this] {
    SimDisk disk;
    RoundLog log(disk, directory_, BootNumber{1}, kSecret);
    bool accepted = false, updated = false;
    EXPECT_EQ(Story(log, a_, b_, accepted, updated), absl::OkStatus());
    return disk.calls();
  }();
  ASSERT_GT(calls, 20);
  for (int n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    SimDisk disk;
    bool accepted = false, updated = false;
    {
      RoundLog log(disk, directory_, BootNumber{1}, kSecret);
      disk.FailAt(n, GetParam(), true);
      EXPECT_FALSE(Story(log, a_, b_, accepted, updated).ok());
    }
    disk.Crash();
    for (uint64_t boot = 2; boot < 4; ++boot) {  // twice: recovery is idempotent
      RoundLog log(disk, directory_, BootNumber{boot}, kSecret);
      ASSERT_EQ(log.Open(kKey, kLayout), absl::OkStatus());
      if (accepted) {
        EXPECT_EQ(*log.ReadContribution(kKey, {"a"}), a_);
      }
      if (updated) {
        EXPECT_EQ(*Update(log), b_);
      }
    }
    // And the story can continue to its end.
    RoundLog log(disk, directory_, BootNumber{4}, kSecret);
    ASSERT_EQ(log.Open(kKey, kLayout), absl::OkStatus());
    const uint64_t at = *log.Begin(kKey, HeaderOf("b", b_));
    if (at < b_.size()) {
      ASSERT_EQ(log.Append(kKey, {"b"}, at, std::array{Bytes(b_).subspan(at)}), absl::OkStatus());
    }
    EXPECT_EQ(log.Accept(kKey, {"b"}, 1), absl::OkStatus());
    EXPECT_EQ(*log.ReadContribution(kKey, {"b"}), b_);
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, RoundLogCrashTest,
                         testing::Values(SimDisk::Fault::kFull, SimDisk::Fault::kFails, SimDisk::Fault::kShortWrite));

// Nothing of a new segment was reported as durable: it is deleted, and the next attempt creates it.
TEST_F(RoundLogTest, FailedFlushOfAnExistingSegmentIsReported) {
  ASSERT_TRUE(Reopen(1)->Begin(kKey, HeaderOf("a", a_)).ok());
  const RoundKey fresh{kKey.job, kKey.epoch, {kKey.target.fragment, Version{kKey.target.version.value + 1}}};
  for (const auto& [key, times] : {std::pair(kKey, 1), std::pair(fresh, 0)}) {
    int told = 0;
    absl::Status opened = absl::UnknownError("not tried");
    for (int n = 0; !opened.ok(); ++n, disk_.FailAt(-1, SimDisk::Fault::kNone)) {
      RoundLog log(disk_, directory_, BootNumber{2}, kSecret);
      disk_.FailAt(n, SimDisk::Fault::kFails);
      opened = log.Open(key, kLayout);
      told += IsFailedFlush(opened) ? 1 : 0;
    }
    EXPECT_EQ(told, times);
  }
}

TEST_F(RoundLogTest, AFullDiskRefusesOneAppendAndLosesNothing) {
  for (const SimDisk::Fault fault : {SimDisk::Fault::kFull, SimDisk::Fault::kShortWrite}) {
    for (int n = 0; n < 3; ++n) {
      disk_ = SimDisk();
      auto log = Reopen(1);
      ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
      ASSERT_EQ(Put(*log, "a", 0, Bytes(a_).first(400)), absl::OkStatus());
      const size_t before = disk_.At(Path()).size();
      disk_.FailAt(n, fault);
      EXPECT_EQ(Put(*log, "a", 400, Bytes(a_).subspan(400)).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(disk_.At(Path()).size(), before);
      ASSERT_EQ(Put(*log, "a", 400, Bytes(a_).subspan(400)), absl::OkStatus());
      ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
      EXPECT_EQ(*Reopen(2)->ReadContribution(kKey, {"a"}), a_);
      if (n == 2) break;
    }
  }
}

TEST_F(RoundLogTest, AFailedFlushIsNotTriedAgain) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
  // Two appends (head and trailer of the record are three pieces), then the flush.
  disk_.FailAt(3, SimDisk::Fault::kFails);
  EXPECT_EQ(log->Accept(kKey, {"a"}, 1).code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(log->Accept(kKey, {"a"}, 1).ok());
  EXPECT_FALSE(log->Begin(kKey, HeaderOf("b", b_)).ok());
}

TEST_F(RoundLogTest, EveryCutOfTheTailLeavesAValidPrefix) {
  auto log = Reopen(1);
  bool accepted = false, updated = false;
  ASSERT_EQ(Story(*log, a_, b_, accepted, updated), absl::OkStatus());
  const SimDisk::Content whole = disk_.At(Path());
  for (size_t cut = 0; cut <= whole.size(); cut += 7) {
    disk_.At(Path()).assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
    RoundLog again(disk_, directory_, BootNumber{2}, kSecret);
    ASSERT_EQ(again.Open(kKey, kLayout), absl::OkStatus()) << cut;
    EXPECT_LE(again.VerifiedPrefix(kKey, {"b"}, DigestOf(b_)), 400u);
    EXPECT_EQ(again.ReadContribution(kKey, {"b"}).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(RoundLogTest, DamageInFlushedBytesIsRefusedWithItsOffset) {
  auto log = Reopen(1);
  bool accepted = false, updated = false;
  ASSERT_EQ(Story(*log, a_, b_, accepted, updated), absl::OkStatus());
  const SimDisk::Content whole = disk_.At(Path());
  const size_t at = 700;  // inside the second chunk of "a", long before the update that followed a flush
  disk_.At(Path())[at] ^= std::byte{4};
  RoundLog again(disk_, directory_, BootNumber{2}, kSecret);
  const absl::Status status = again.Open(kKey, kLayout);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("damaged at offset"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(Path()), absl::string_view::npos);
  EXPECT_EQ(disk_.At(Path()).size(), whole.size()) << "nothing is cut off a damaged file";
}

TEST_F(RoundLogTest, HoleAfterTheLastFlushIsATornTail) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  for (size_t at = 0; at < 1000; at += 100) ASSERT_EQ(Put(*log, "a", at, Bytes(a_).subspan(at, 100)), absl::OkStatus());
  // Pages are written out of order: an early page is missing while later ones exist.
  disk_.At(Path())[600] ^= std::byte{1};
  RoundLog again(disk_, directory_, BootNumber{2}, kSecret);
  ASSERT_EQ(again.Open(kKey, kLayout), absl::OkStatus());
  const uint64_t prefix = again.VerifiedPrefix(kKey, {"a"}, DigestOf(a_));
  EXPECT_GT(prefix, 0u);
  EXPECT_LT(prefix, 1000u);
}

// A payload full of bytes that look like records, which claim that all earlier bytes are flushed,
// in the tail torn by a power cut: a sender's bytes prove nothing.
TEST_F(RoundLogTest, ARecordInAPayloadProvesNoDamage) {
  std::vector<std::byte> forged;
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{2}, uint64_t{3}, StreamKey(0, Path()), UINT64_MAX}) {
    const RecordHeaderBytes record = EncodeRecordHeader(
        {.type = RecordType::kAbandon, .sequence = sequence, .boot = 1, .flushed_bytes = uint64_t{1} << 40});
    forged.insert(forged.end(), record.begin(), record.end());
  }
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", forged)).ok());
  const size_t torn = disk_.At(Path()).size();
  ASSERT_EQ(Put(*log, "a", 0, forged), absl::OkStatus());
  disk_.At(Path())[torn + 8] ^= std::byte{1};
  const oracle::Scan scan = oracle::ScanSegment(disk_.TextAt(Path()));
  EXPECT_TRUE(scan.torn);
  EXPECT_EQ(scan.valid_bytes, torn);
  EXPECT_EQ(Reopen(2)->VerifiedPrefix(kKey, {"a"}, DigestOf(forged)), 0u);
}

// The same bytes as a record of the segment itself: damage.
TEST_F(RoundLogTest, ARecordOfTheSegmentProvesDamage) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  const size_t damaged = disk_.At(Path()).size();
  ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("b", b_)).ok());
  disk_.At(Path())[damaged + 8] ^= std::byte{1};
  EXPECT_TRUE(oracle::ScanSegment(disk_.TextAt(Path())).damaged);
  RoundLog again(disk_, directory_, BootNumber{2}, kSecret);
  EXPECT_EQ(again.Open(kKey, kLayout).code(), absl::StatusCode::kDataLoss);
}

// Revision 1: sequences start at 0. The segment is read and continued in the same form.
TEST_F(RoundLogTest, ASegmentOfRevisionOneGoesOn) {
  SegmentHeader header{1, kKey.job, kKey.epoch, kKey.target, kLayout, BootNumber{1}};
  const std::string payload = SerializeSegmentHeader(header);
  const RecordHeaderBytes record = EncodeRecordHeader({.type = RecordType::kSegmentHeader,
                                                       .payload_bytes = payload.size(),
                                                       .boot = 1,
                                                       .payload_crc32c = Crc32c(0, AsBytes(payload))});
  ASSERT_TRUE(disk_.MakeDirectory(directory_.SegmentDirectory(kKey.job, kKey.epoch, kKey.target.fragment)).ok());
  {
    const auto file = disk_.OpenForAppend(Path());
    ASSERT_TRUE(file.ok());
    ASSERT_EQ((*file)->AppendPieces(std::array{Bytes(record), AsBytes(payload)}), absl::OkStatus());
  }
  auto log = Reopen(2);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
  ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  EXPECT_EQ(*Reopen(3)->ReadContribution(kKey, {"a"}), a_);
  const oracle::Scan scan = oracle::ScanSegment(disk_.TextAt(Path()));
  EXPECT_FALSE(scan.torn || scan.damaged);
  EXPECT_EQ(scan.records, 4u);
}

TEST_F(RoundLogTest, RefusesAnotherLayoutAndAnOlderLedger) {
  Reopen(5);
  RoundLog other(disk_, directory_, BootNumber{6}, kSecret);
  EXPECT_EQ(other.Open(kKey, Digest{9, 9}).code(), absl::StatusCode::kFailedPrecondition);
  RoundLog older(disk_, directory_, BootNumber{4}, kSecret);
  EXPECT_EQ(older.Open(kKey, kLayout).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RoundLogTest, DropsByUnlinking) {
  RoundLog log(disk_, directory_, BootNumber{1}, kSecret);
  for (uint64_t v = 0; v < 5; ++v) {
    RoundKey key = kKey;
    key.target.version = {v};
    ASSERT_EQ(log.Open(key, kLayout), absl::OkStatus());
  }
  EXPECT_GT(*log.DropBefore(kKey.job, kKey.epoch, kKey.target.fragment, Version{3}), 0u);
  EXPECT_EQ(*log.List(kKey.job, kKey.epoch, kKey.target.fragment), (std::vector<Version>{{3}, {4}}));
}

TEST_F(RoundLogTest, AddAcceptedFindsOpenRounds) {
  {
    auto log = Reopen(1);
    for (const auto& [worker, bytes] : {std::pair("b", &b_), {"a", &a_}}) {
      ASSERT_TRUE(log->Begin(kKey, HeaderOf(worker, *bytes)).ok());
      ASSERT_EQ(Put(*log, worker, 0, *bytes), absl::OkStatus());
      ASSERT_EQ(log->Accept(kKey, {worker}, 1), absl::OkStatus());
    }
  }
  RecoveredState state;
  RecoveredJob& job = state.jobs.emplace_back();
  job.job.job = kKey.job;
  job.job.epoch = kKey.epoch;
  job.heads = {{{4}, {}}, {{7}, {}}};
  RoundLog log(disk_, directory_, BootNumber{2}, kSecret);
  ASSERT_TRUE(AddAccepted(log, {{kKey.job, kLayout}}, state).empty());
  ASSERT_EQ(job.accepted.size(), 2u);
  EXPECT_EQ(job.accepted[0].worker.value, "a");
  EXPECT_EQ(job.accepted[1].worker.value, "b");
  EXPECT_EQ(log.List(kKey.job, kKey.epoch, {0})->size(), 0u) << "no segment is made for a fragment that has none";
}

TEST_F(RoundLogTest, AStrangeSegmentIsOfOneJobOnly) {
  const RoundKey other{JobId{"other"}, 0, {{0}, {2}}};
  {
    auto log = Reopen(1);
    ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", a_)).ok());
    ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
    ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  }
  ASSERT_TRUE(disk_.MakeDirectory(directory_.SegmentDirectory(other.job, other.epoch, other.target.fragment)).ok());
  ASSERT_TRUE(disk_.HardLink(directory_.SegmentPath(kKey), directory_.SegmentPath(other)).ok());
  RecoveredState state;
  for (const RoundKey& key : {other, kKey}) {
    RecoveredJob& job = state.jobs.emplace_back();
    job.job.job = key.job;
    job.job.epoch = key.epoch;
    job.heads.resize(key.target.fragment.value + 1);
    job.heads[key.target.fragment.value].version = key.target.version;
  }
  RoundLog log(disk_, directory_, BootNumber{2}, kSecret);
  const std::map<JobId, std::string> damaged = AddAccepted(log, {{kKey.job, kLayout}, {other.job, kLayout}}, state);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged.begin()->first, other.job);
  EXPECT_NE(damaged.begin()->second.find("the round log of job other cannot be used"), std::string::npos);
  EXPECT_NE(damaged.begin()->second.find(directory_.SegmentPath(other)), std::string::npos) << damaged.begin()->second;
  EXPECT_TRUE(state.jobs[0].accepted.empty());
  EXPECT_EQ(state.jobs[1].accepted.size(), 1u);
}

TEST_F(RoundLogTest, GoldenBytes) {
  const RecordHeader header{RecordType::kChunk, 3, 5, 2, 1024, 0x1122334455667788, 0xAABBCCDD};
  const RecordHeaderBytes bytes = EncodeRecordHeader(header);
  EXPECT_EQ(absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())),
            "41544c52"          // magic
            "03000000"          // type
            "0300000000000000"  // payload bytes
            "0500000000000000"  // sequence
            "0200000000000000"  // boot
            "0004000000000000"  // flushed bytes
            "8877665544332211"  // previous
            "ddccbbaa"          // payload CRC
            "6a8c04ea");        // CRC of the 52 bytes before
  RecordHeader back;
  ASSERT_TRUE(DecodeRecordHeader(bytes, back));
  EXPECT_EQ(back.flushed_bytes, 1024u);
  EXPECT_EQ(back.previous, header.previous);
}

}  // namespace
}  // namespace atl
