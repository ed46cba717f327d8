// Where the bytes of a download come from: of what receivers take at their own time nothing is in memory.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "common/format/corpus_manifest.h"
#include "common/plan/data_order.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

std::vector<std::byte> ReadAll(BulkSource& source) {
  constexpr uint64_t kPiece = 1000;
  std::vector<std::byte> all;
  while (all.size() < source.size_bytes()) {
    const auto read = source.Read(all.size(), std::min(kPiece, source.size_bytes() - all.size()));
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return all;
    for (const Bytes& piece : read->pieces) all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

class Downloads : public testing::Test {
 protected:
  absl::StatusOr<DownloadContent> Open(DownloadKey key) {
    absl::StatusOr<DownloadContent> answer = absl::UnknownError("no answer");
    c_.data.OpenDownload({.key = std::move(key)},
                         [&answer](absl::StatusOr<DownloadContent> content) { answer = std::move(content); });
    c_.work.RunAll();
    return answer;
  }
  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_, "/corpora"};
};

class DownloadsOfUpdates : public Downloads {
 protected:
  DownloadsOfUpdates() {
    (void)c_.Submit(TinySpec("tiny"));
    record_ = c_.View("tiny").record;
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
    for (const uint64_t version : {0u, 1u}) {
      events_.clear();
      c_.CloseEmptyRound(record_, {FragmentIndex{0}, Version{version}});
      c_.RunWork();
      const RoundRecord round = Find<RoundAggregated>(events_)->record;
      digests_.push_back(round.update_digest);
      c_.data.Committed(round);
      c_.RunWork();
    }
  }
  absl::StatusOr<DownloadContent> Update(uint64_t version) {
    return Open(UpdateKey{JobId{"tiny"}, {FragmentIndex{0}, Version{version}}});
  }
  SimDisk::Content& Segment(uint64_t version) {
    return disk_.files.At(
        DataDirectory("/state").SegmentPath({JobId{"tiny"}, record_.epoch, {FragmentIndex{0}, Version{version}}}));
  }

  JobRecord record_;
  std::vector<Event> events_;
  std::vector<Digest> digests_;  // of the updates to versions 1 and 2
};

TEST_F(DownloadsOfUpdates, OlderOnesAreReadFromTheRoundLog) {
  const auto newest = Update(2);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_TRUE(newest->source->in_memory()) << "one copy for all";
  const auto one = Update(1), two = Update(1);
  for (const auto& older : {one, two}) {
    ASSERT_TRUE(older.ok()) << older.status();
    EXPECT_FALSE(older->source->in_memory());
    EXPECT_EQ(older->header.version.value, 1u);
    EXPECT_EQ(older->header.digest, digests_[0]);
    const std::vector<std::byte> bytes = ReadAll(*older->source);
    EXPECT_EQ(bytes.size(), older->header.total_bytes);
    EXPECT_EQ(DigestOf(bytes), digests_[0]);
  }
}

TEST_F(DownloadsOfUpdates, OneThatIsOpenOutlivesItsSegment) {
  const auto open = Update(1);
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE(c_.rounds.DropBefore(JobId{"tiny"}, record_.epoch, FragmentIndex{0}, Version{1}).ok());
  EXPECT_EQ(DigestOf(ReadAll(*open->source)), digests_[0]);
  const absl::Status gone = Update(1).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_NE(gone.message().find("is no longer kept; fetch the fragment"), absl::string_view::npos) << gone;
}

TEST_F(DownloadsOfUpdates, ADamagedOneIsNotServed) {
  Segment(0).back() ^= std::byte{1};
  const absl::Status damaged = Update(1).status();
  EXPECT_TRUE(absl::IsNotFound(damaged)) << damaged;
}

// What the coordinator's executor of files would wait for at each of a hostile member's calls.
TEST_F(DownloadsOfUpdates, OneThatWasLookedAtIsNotReadWholeAgain) {
  ASSERT_TRUE(Update(1).ok());
  Segment(0).back() ^= std::byte{1};  // which the receiver will find
  EXPECT_TRUE(Update(1).ok());
}

class DownloadsOfBlocks : public Downloads {
 protected:
  DownloadsOfBlocks() {
    SimDisk& files = disk_.files;
    EXPECT_TRUE(files.MakeDirectory("/corpora/toy").ok());
    const auto writer = TokenShardWriter::Create(files, kShard, TokenType::kUint16);
    EXPECT_TRUE(writer.ok()) << writer.status();
    std::vector<uint32_t> tokens(700'000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint32_t>(i % 251);
    EXPECT_TRUE((*writer)->Append(tokens).ok());
    const auto shard = (*writer)->Finish();
    EXPECT_TRUE(shard.ok()) << shard.status();
    CorpusManifest manifest;
    manifest.name = "toy";
    manifest.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
    manifest.files = {{.name = "train-00000.bin",
                       .split = CorpusSplit::kTrain,
                       .bytes = shard->file_bytes,
                       .sha256 = shard->sha256,
                       .tokens = shard->tokens,
                       .documents = 1,
                       .blocks = shard->blocks}};
    manifest.train = {.documents = 1, .tokens = shard->tokens, .text_bytes = shard->tokens};
    const std::string text = SerializeManifest(manifest);
    hashes_ = shard->blocks;
    manifest_ = Sha256Of(AsBytes(text));
    const uint64_t turn = c_.blobs.Begin(manifest_, text.size())->turn;
    EXPECT_TRUE(c_.blobs.Append(manifest_, turn, 0, std::array{AsBytes(text)}).ok());
    EXPECT_TRUE(c_.blobs.Finish(manifest_, turn).ok());
  }
  absl::StatusOr<DownloadContent> Block(uint64_t block) {
    return Open(BlockKey{JobId{"tiny"}, manifest_, "train-00000.bin", block});
  }
  static constexpr char kShard[] = "/corpora/toy/train-00000.bin";
  Sha256 manifest_;
  std::vector<Sha256> hashes_;
};

TEST_F(DownloadsOfBlocks, AreReadFromTheirShard) {
  ASSERT_EQ(hashes_.size(), 2u);
  for (const uint64_t block : {0u, 1u}) {
    const auto content = Block(block);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_FALSE(content->source->in_memory());
    const std::vector<std::byte> bytes = ReadAll(*content->source);
    EXPECT_EQ(bytes.size(), block == 0 ? kBlockBytes : 1'400'000 - kBlockBytes);
    EXPECT_EQ(Sha256Of(bytes), hashes_[block]);
  }
}

TEST_F(DownloadsOfBlocks, ADamagedOneIsRefused) {
  disk_.files.At(kShard)[kShardHeaderBytes + kBlockBytes + 5] ^= std::byte{1};
  EXPECT_TRUE(Block(0).ok());
  const absl::Status damaged = Block(1).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_NE(damaged.message().find("block 1 of /corpora/toy/train-00000.bin does not have the hash"),
            absl::string_view::npos)
      << damaged;
}

}  // namespace
}  // namespace atl
