// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/data/data_fixture.h"
#include "worker/data/block_cache.h"
#include "worker/data/blocks_ahead.h"
#include "worker/data/local_blocks.h"
#include "worker/data/sample_reader.h"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using Data = DataTest;

TEST_F(Data, SamplesComeInTheOrderOfTheLeases) {
  const auto source = Local();
  const auto reader = Reader(*source);
  ASSERT_TRUE(reader->AddLease(LeaseId{7}, {1000, 1010}, 1000).ok());
  ASSERT_TRUE(reader->AddLease(LeaseId{9}, {40, 60}, 45).ok());
  EXPECT_EQ(reader->Remaining(), 25u);
  std::vector<uint64_t> positions;
  for (uint64_t p = 1000; p < 1010; ++p) positions.push_back(p);
  for (uint64_t p = 45; p < 60; ++p) positions.push_back(p);
  for (size_t first = 0; first < positions.size(); first += 5) {
    const auto batch = reader->Next(5, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->tokens.size(), 5u * (kLength + 1));
    for (size_t i = 0; i < 5; ++i) {
      const auto begin = batch->tokens.begin() + static_cast<ptrdiff_t>(i * (kLength + 1));
      EXPECT_EQ(std::vector<int32_t>(begin, begin + kLength + 1), Expected(*reader, positions[first + i]));
    }
    EXPECT_EQ(batch->cursors, reader->Cursors());
  }
  EXPECT_EQ(reader->Cursors(), (std::vector<LeaseCursor>{{LeaseId{7}, 1010}, {LeaseId{9}, 60}}));
  const auto none = reader->Next(1, kLong);
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status())) << none.status();
}

TEST_F(Data, CursorCountsOnlyDeliveredSamples) {
  const auto source = Local();
  const auto reader = Reader(*source, 32);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  ASSERT_TRUE(reader->Next(3, kLong).ok());
  EXPECT_EQ(reader->Cursors(), (std::vector<LeaseCursor>{{LeaseId{1}, 3}}));
  EXPECT_EQ(reader->Remaining(), 97u);
  // Another reader continues at the cursor with the very next sample.
  const auto next = Reader(*source);
  ASSERT_TRUE(next->AddLease(LeaseId{1}, {0, 100}, 3).ok());
  EXPECT_EQ(next->Next(1, kLong)->tokens, reader->Next(1, kLong)->tokens);
}

TEST_F(Data, ALeaseTakenBackIsNotRead) {
  const auto source = Local();
  const auto reader = Reader(*source, 4);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 50}, 0).ok());
  ASSERT_TRUE(reader->AddLease(LeaseId{2}, {200, 250}, 200).ok());
  ASSERT_TRUE(reader->Next(2, kLong).ok());
  reader->RemoveLease(LeaseId{1});
  const auto batch = reader->Next(1, kLong);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->tokens, Expected(*reader, 200));
  reader->RemoveLease(LeaseId{2});
  EXPECT_EQ(reader->Remaining(), 0u);
  EXPECT_TRUE(reader->Cursors().empty());
}

TEST_F(Data, RefusesACursorOutsideItsLease) {
  const auto source = Local();
  const auto reader = Reader(*source);
  EXPECT_TRUE(absl::IsInvalidArgument(reader->AddLease(LeaseId{1}, {10, 20}, 9)));
  EXPECT_TRUE(absl::IsInvalidArgument(reader->AddLease(LeaseId{1}, {10, 20}, 21)));
  EXPECT_EQ(reader->Remaining(), 0u);
}

TEST_F(Data, ABatchLargerThanTheQueueIsReadAllTheSame) {
  const auto source = Local();
  const auto reader = Reader(*source, 1);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  EXPECT_EQ(reader->Next(40, kLong)->samples, 40u);
}

TEST_F(Data, NamesAMissingShard) {
  const std::string name = fs::path(TrainShard()).filename();
  fs::remove(TrainShard());
  const auto source = Local();
  const absl::Status check = source->CheckCorpus(0);
  EXPECT_TRUE(absl::IsNotFound(check));
  EXPECT_THAT(std::string(check.message()), HasSubstr("shard " + name + " of corpus 'one' is neither at "));
  EXPECT_THAT(std::string(check.message()), HasSubstr("--data-root"));
  EXPECT_TRUE(source->CheckCorpus(1).ok());
  const auto reader = Reader(*source);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  EXPECT_TRUE(absl::IsNotFound(reader->Next(8, kLong).status()));
}

TEST_F(Data, NamesADamagedBlock) {
  Damage(1);
  const auto source = Local();
  EXPECT_TRUE(source->FetchBlock({0, 0, 0}).ok());
  const auto bytes = source->FetchBlock({0, 0, 1});
  ASSERT_TRUE(absl::IsDataLoss(bytes.status())) << bytes.status();
  EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("block 1"));
  EXPECT_THAT(std::string(bytes.status().message()), HasSubstr((*manifests_)[0].files[0].blocks[1].Hex()));
  EXPECT_TRUE(absl::IsInvalidArgument(source->FetchBlock({0, 0, 99}).status()));
}

TEST_F(Data, NamesAShardOfAnotherLength) {
  fs::resize_file(TrainShard(), 5000);
  const auto source = Local();
  EXPECT_TRUE(absl::IsInvalidArgument(source->CheckCorpus(0)));
  EXPECT_TRUE(absl::IsInvalidArgument(source->FetchBlock({0, 0, 0}).status()));
}

// S21.
TEST_F(Data, NeverLeavesTheDataRoot) {
  for (const char* bad : {"/etc", "../elsewhere", "one/../../x"}) {
    const auto source = LocalBlockSource::Create(*files_, root_, manifests_, {bad, "two"});
    EXPECT_TRUE(absl::IsPermissionDenied(source.status())) << bad;
  }
  EXPECT_TRUE(absl::IsNotFound(LocalBlockSource::Create(*files_, root_ + "/none", manifests_, {"a", "b"}).status()));
  // A link to outside, in place of the shard.
  const std::string outside = root_ + "_outside";
  fs::rename(TrainShard(), outside);
  fs::create_symlink(outside, TrainShard());
  const auto source = Local();
  EXPECT_TRUE(absl::IsPermissionDenied(source->FetchBlock({0, 0, 0}).status()));
  fs::remove(outside);
}

TEST_F(Data, FindsShardsInTheRootItself) {
  const auto source = LocalBlockSource::Create(*files_, root_ + "/one", manifests_, {"elsewhere", "two"});
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE((*source)->CheckCorpus(0).ok());
  EXPECT_TRUE((*source)->FetchBlock({0, 0, 0}).ok());
}

TEST_F(Data, ErrorIsReportedOnceAndTheSampleRetried) {
  const auto local = Local();
  Fetcher source(*local);
  source.FailNext(1, absl::DataLossError("damaged"));
  const auto reader = Reader(source);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  EXPECT_TRUE(absl::IsDataLoss(reader->Next(4, kLong).status()));
  const auto batch = reader->Next(1, kLong);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->tokens, Expected(*reader, 0));
}

TEST_F(Data, AFileThatMayNotBeReadIsNotTakenForFewerSamplesLeased) {
  const auto local = Local();
  Fetcher source(*local);
  source.FailNext(1, absl::FailedPreconditionError("open /data/one/train: Permission denied"));
  const auto reader = Reader(source);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  const absl::Status refused = reader->Next(4, kLong).status();
  EXPECT_TRUE(absl::IsInternal(refused)) << refused;
  EXPECT_EQ(refused.message(), "open /data/one/train: Permission denied");
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->Next(101, kLong).status())) << "fewer are leased";
}

TEST_F(Data, ATroubledSourceIsTriedAgainUntilTheLimit) {
  const auto local = Local();
  Fetcher source(*local);
  source.FailNext(1, absl::UnavailableError("coordinator away"));
  const auto reader = Reader(source);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  EXPECT_TRUE(reader->Next(4, kLong).ok());
  EXPECT_GT(reader->waited().ns, 0);

  Fetcher away(*local);
  away.FailNext(1'000'000, absl::UnavailableError("coordinator away"));
  const auto waiting = Reader(away);
  ASSERT_TRUE(waiting->AddLease(LeaseId{1}, {0, 100}, 0).ok());
  const auto late = waiting->Next(4, Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status()));
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("no data within 0.1 s"));
  EXPECT_EQ(waiting->Remaining(), 100u);
}

TEST_F(Data, WithoutItsSourceTheReaderGoesAsFarAsTheBlocksThatItHas) {
  data_.corpora.pop_back();
  manifests_->pop_back();
  data_.window_blocks = 1;
  const auto local = LocalBlockSource::Create(*files_, root_, manifests_, {"one"});
  ASSERT_TRUE(local.ok()) << local.status();
  Fetcher source(**local);
  const auto reader = Reader(source, 1);
  const auto blocks_of = [&reader](uint64_t position) {
    const uint64_t token = reader->order().At(position).token, per_block = kBlockBytes / sizeof(uint16_t);
    return std::set<uint64_t>{token / per_block, (token + kLength) / per_block};
  };
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, 20'000}, 0).ok());
  ASSERT_TRUE(reader->Next(8, kLong).ok());
  source.FailNext(1'000'000, absl::UnavailableError("coordinator away"));
  uint64_t end = 8;
  while (blocks_of(end) == blocks_of(0)) ++end;
  ASSERT_GT(end, 10u) << "what is read ahead";
  for (uint64_t read = 8; read < end; ++read) ASSERT_TRUE(reader->Next(1, kLong).ok()) << read;
  EXPECT_TRUE(absl::IsDeadlineExceeded(reader->Next(1, Milliseconds(100)).status()));
  EXPECT_EQ(reader->Cursors(), (std::vector<LeaseCursor>{{LeaseId{1}, end}}));
  source.FailNext(0, absl::OkStatus());
  EXPECT_EQ(reader->Next(1, kLong)->tokens, Expected(*reader, end));
}

TEST_F(Data, BlocksOfLeasesComeInTheOrderOfReading) {
  const auto source = Local();
  const auto reader = Reader(*source);
  const DataOrder& order = reader->order();
  const std::vector<SampleRange> ranges = {{500, 900}, {0, 300}};
  std::vector<BlockId> expected;
  for (const SampleRange& range : ranges) {
    for (uint64_t position = range.begin; position < range.end; ++position) {
      const SampleLocation at = order.At(position);
      for (const uint64_t token : {at.token, at.token + kLength}) {
        const BlockId id{at.corpus, at.corpus == 0 ? TrainingFiles(*manifests_)[0][at.shard] : 0,
                         static_cast<uint32_t>(token / (kBlockBytes / sizeof(uint16_t)))};
        if (std::find(expected.begin(), expected.end(), id) == expected.end()) expected.push_back(id);
      }
    }
  }
  ASSERT_GT(expected.size(), 2u);
  EXPECT_EQ(BlocksOf(ranges, 100, order, *manifests_), expected);
  EXPECT_EQ(BlocksOf(ranges, 2, order, *manifests_), std::vector<BlockId>(expected.begin(), expected.begin() + 2));
  EXPECT_TRUE(BlocksOf(ranges, 0, order, *manifests_).empty());
}

// I28: a worker that streams its corpus continues for as long as its leases last.
TEST_F(Data, LeasesCarryAReaderOverAnOutage) {
  data_.window_blocks = 1;
  const auto local = Local();
  Fetcher source(*local);
  const auto cache = CachedBlockSource::Create(*files_, root_ + "/cache", 64 << 20, manifests_, source);
  ASSERT_TRUE(cache.ok()) << cache.status();
  const auto reader = Reader(**cache, 1, 32);
  const uint64_t all = reader->order().SamplesPerEpoch(0);
  const auto blocks = static_cast<int>(BlocksOf({{0, all}}, 100, reader->order(), *manifests_).size());
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, all / 2}, 0).ok());
  ASSERT_TRUE(reader->AddLease(LeaseId{2}, {all / 2, all}, all / 2).ok());
  ASSERT_TRUE(reader->Next(8, kLong).ok());
  source.WaitFor(blocks);  // each once, whichever of the two threads requests it first
  source.FailNext(1'000'000, absl::UnavailableError("coordinator away"));
  for (uint64_t read = 8; read + 64 <= all; read += 64) ASSERT_TRUE(reader->Next(64, kLong).ok()) << read;
  EXPECT_EQ(source.fetched(), blocks);
}

TEST_F(Data, NothingIsKeptAheadWhereNothingCanBeWritten) {
  const auto local = Local();
  Fetcher source(*local);
  const std::string directory = root_ + "/cache";
  const auto cache = CachedBlockSource::Create(*files_, directory, 64 << 20, manifests_, source);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 0}).ok());
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 0}).ok());
  EXPECT_EQ(source.fetched(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument((*cache)->KeepBlock({0, 0, 77})));

  fs::remove_all(directory);
  std::ofstream(directory) << "no directory";
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 1}).ok()) << "fetched, and not written";
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 2}).ok());
  EXPECT_EQ(source.fetched(), 2);
  const auto small = CachedBlockSource::Create(*files_, root_ + "/small", kBlockBytes - 1, manifests_, source);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_TRUE((*small)->KeepBlock({0, 0, 1}).ok());
  EXPECT_EQ(source.fetched(), 2);
}

TEST_F(Data, EveryTrainingSampleOfAnEpochComesOnce) {
  data_.corpora.pop_back();
  manifests_->pop_back();
  const auto source = LocalBlockSource::Create(*files_, root_, manifests_, {"one"});
  ASSERT_TRUE(source.ok());
  const auto reader = Reader(**source, 64);
  const uint64_t all = reader->order().SamplesPerEpoch(0);
  ASSERT_TRUE(reader->AddLease(LeaseId{1}, {0, all}, 0).ok());
  std::set<std::vector<int32_t>> seen;
  for (uint64_t i = 0; i < all; ++i) seen.insert(reader->Next(1, kLong)->tokens);
  EXPECT_EQ(seen.size(), all);
}

TEST_F(Data, HeldOutSamplesTakeTurnsAndEndTogether) {
  const auto source = Local();
  const auto reader = HeldOutReader::Create(kLength, manifests_, *source);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const uint64_t one = ((*manifests_)[0].held_out.tokens - 1) / kLength;
  const uint64_t two = ((*manifests_)[1].held_out.tokens - 1) / kLength;
  ASSERT_EQ((*reader)->samples(), one + two);
  const auto batch = (*reader)->Read(0, static_cast<uint32_t>(one + two));
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::set<std::vector<int32_t>> seen;
  for (uint64_t i = 0; i < one + two; ++i) {
    const auto begin = batch->tokens.begin() + static_cast<ptrdiff_t>(i * (kLength + 1));
    seen.insert({begin, begin + kLength + 1});
  }
  EXPECT_EQ(seen.size(), one + two);
  const std::string second = root_ + "/two/" + (*manifests_)[1].FilesOf(CorpusSplit::kHeldOut)[0]->name;
  std::vector<uint32_t> ids(kLength + 1);
  ASSERT_TRUE((*TokenShard::Open(*files_, second))->Read(0, ids).ok());
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), batch->tokens.begin() + kLength + 1));
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->Read(one + two, 1).status()));
  EXPECT_NEAR((*reader)->BytesPerToken(0, 2), 2.0 * 300 / 301, 1e-6);  // 600 bytes a document of 301 tokens in both
  EXPECT_NEAR((*reader)->BytesPerToken(1, one + two), 2.0 * 300 / 301, 1e-6);
  EXPECT_EQ((*reader)->BytesPerToken(one + two, 1), 0);
}

TEST_F(Data, SaysWhenManifestsAndCorporaDiffer) {
  data_.corpora.pop_back();
  const auto source = Local();
  EXPECT_TRUE(absl::IsInvalidArgument(SampleReader::Create(data_, manifests_, *source, clock_).status()));
}

}  // namespace
}  // namespace atl
