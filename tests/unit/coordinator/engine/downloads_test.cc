// SPDX-License-Identifier: Apache-2.0
// The source of a download's bytes: downloads to slow receivers hold nothing in memory.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "common/format/corpus_manifest.h"
#include "common/plan/data_order.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_bulk.h"
#include "tests/support/memory_stream.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"
#include "worker/link/network_link.h"

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
  absl::StatusOr<DownloadContent> Open(DownloadKey key, const std::string& worker = "") {
    absl::StatusOr<DownloadContent> answer = absl::UnknownError("no answer");
    c_.data.OpenDownload({.key = std::move(key), .worker = WorkerId{worker}},
                         [&answer](absl::StatusOr<DownloadContent> content) { answer = std::move(content); });
    c_.work.RunAll();
    return answer;
  }
  // Deletes the file between two reads.
  void ExpectEndsWithItsFile(const absl::StatusOr<DownloadContent>& content, const std::string& path) {
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_TRUE(content->source->Read(0, 1).ok());
    EXPECT_FALSE(disk_.files.open().contains(path)) << path;
    ASSERT_TRUE(disk_.files.Remove(path).ok());
    const absl::Status ended = content->source->Read(1, 1).status();
    EXPECT_TRUE(absl::IsNotFound(ended)) << ended;
    EXPECT_NE(ended.message().find("is no longer kept"), absl::string_view::npos) << ended;
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

// An open file would occupy a whole segment's disk space for as long as a receiver likes that reads
// 1,000 bytes a second.
TEST_F(DownloadsOfUpdates, OpenDownloadEndsWithItsSegment) {
  const auto open = Update(1);
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE(c_.rounds.DropBefore(JobId{"tiny"}, record_.epoch, FragmentIndex{0}, Version{1}).ok());
  for (const std::string& path : disk_.files.open()) EXPECT_TRUE(disk_.files.Exists(path)) << path;
  const absl::Status ended = open->source->Read(0, 1).status();
  EXPECT_TRUE(absl::IsNotFound(ended)) << ended;
  const absl::Status gone = Update(1).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_NE(gone.message().find("is no longer kept; fetch the fragment"), absl::string_view::npos) << gone;
}

TEST_F(DownloadsOfUpdates, ADamagedOneIsNotServed) {
  Segment(0).back() ^= std::byte{1};
  const absl::Status damaged = Update(1).status();
  EXPECT_TRUE(absl::IsNotFound(damaged)) << damaged;
}

// A repeated check would block the coordinator's executor of files at each call of a hostile
// member.
TEST_F(DownloadsOfUpdates, CheckedUpdateIsNotReadAgain) {
  ASSERT_TRUE(Update(1).ok());
  Segment(0).back() ^= std::byte{1};  // the receiver will find this
  EXPECT_TRUE(Update(1).ok());
}

// A worker that fetches the whole fragment while rounds and snapshots proceed.
class DownloadsOfFragments : public Downloads {
 protected:
  DownloadsOfFragments() {
    JobSpec spec = TinySpec("tiny");
    spec.sync.download_codec = CodecKind::kMxfp4;  // seven and a half updates have as many bytes as the fragment
    (void)c_.Submit(spec);
    record_ = c_.View("tiny").record;
    for (const char* name : {"w", "another", "other"}) {
      WorkerRecord member;
      member.worker = WorkerId{name};
      member.job = record_.job;
      c_.data.rights().Apply({member});
    }
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
  }
  void Rounds(uint64_t count) {
    for (; count > 0; --count) {
      events_.clear();
      c_.CloseEmptyRound(record_, {FragmentIndex{0}, Version{head_++}});
      c_.RunWork();
      const RoundRecord round = Find<RoundAggregated>(events_)->record;
      hash_ = round.hash;
      c_.data.Committed(round);
      c_.RunWork();
    }
  }
  // Writes a snapshot of the committed version, through a checkpoint.
  void Snapshot() {
    c_.data.WriteCheckpoint({JobId{"tiny"}, head_ * 10, {Version{head_}}});
    c_.RunWork();
  }
  absl::StatusOr<DownloadContent> Newest(const std::string& worker = "w") {
    return Open(FragmentKey{JobId{"tiny"}, {FragmentIndex{0}, {}}, true}, worker);
  }
  absl::StatusOr<DownloadContent> Exactly(uint64_t version) {
    return Open(FragmentKey{JobId{"tiny"}, {FragmentIndex{0}, Version{version}}, false}, "w");
  }
  absl::Status Update(uint64_t reached, const std::string& worker = "w") {
    return Open(UpdateKey{JobId{"tiny"}, {FragmentIndex{0}, Version{reached}}}, worker).status();
  }
  std::vector<Version> OnDisk() { return *c_.snapshots.List(JobId{"tiny"}, record_.epoch, FragmentIndex{0}); }
  size_t KeptUpdates() {
    size_t kept = 0;
    for (const std::string& path : disk_.files.Paths()) kept += path.ends_with(".upd") ? 1 : 0;
    return kept;
  }
  std::vector<Event> events_;
  JobRecord record_;
  uint64_t head_ = 0;
  Digest hash_;  // of the newest version
};

TEST_F(DownloadsOfFragments, BrokenDownloadResumesDespiteNewerSnapshots) {
  Rounds(1);
  Snapshot();
  auto content = Newest();
  ASSERT_TRUE(content.ok()) << content.status();
  const Digest hash = content->header.hash;
  for (int i = 0; i < 2; ++i) {
    content = absl::UnknownError("it broke");
    Rounds(4);
    Snapshot();
    EXPECT_EQ(OnDisk(), (std::vector<Version>{{1}, {head_}})) << "one beside the newest";
    content = Exactly(1);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(content->header.version.value, 1u);
    EXPECT_EQ(content->header.hash, hash);
  }
  EXPECT_EQ(Newest("another")->header.version.value, head_);
  // The worker catches up, version by version.
  content = absl::UnknownError("all has arrived");
  EXPECT_EQ(KeptUpdates(), 6u) << "the log has the two newest";
  for (uint64_t reached = 2; reached <= head_; ++reached) EXPECT_EQ(Update(reached), absl::OkStatus()) << reached;
  Rounds(1);
  EXPECT_EQ(KeptUpdates(), 0u);
  Snapshot();
  EXPECT_EQ(OnDisk(), (std::vector<Version>{{head_ - 1}, {head_}})) << "the other one still fetches";
}

TEST_F(DownloadsOfFragments, NothingWaitsForLongerThanTheLimit) {
  Rounds(1);
  Snapshot();
  ASSERT_TRUE(Newest().ok());  // and the download is interrupted
  Rounds(3);
  Snapshot();
  clock_.Advance(kPinAfterBreak);
  Rounds(1);
  Snapshot();
  EXPECT_EQ(OnDisk(), (std::vector<Version>{{head_}}));
  EXPECT_EQ(KeptUpdates(), 0u);
  const absl::Status gone = Exactly(1).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_NE(gone.message().find("no longer kept; fetch the newest"), absl::string_view::npos) << gone;
}

TEST_F(DownloadsOfFragments, SnapshotOutweighedByItsUpdatesIsDropped) {
  Rounds(1);
  Snapshot();
  const auto content = Newest();
  ASSERT_TRUE(content.ok()) << content.status();
  size_t most = 0;
  for (; head_ < 12; most = std::max(most, KeptUpdates())) {
    Rounds(1);
    if (head_ % 3 == 0) Snapshot();
    EXPECT_LE(OnDisk().size(), 2u);
    EXPECT_EQ(Exactly(1).ok(), head_ <= 10) << head_;
  }
  const uint64_t update = Open(UpdateKey{JobId{"tiny"}, {FragmentIndex{0}, Version{head_}}})->header.total_bytes;
  EXPECT_LE(most * update, content->header.total_bytes);
  EXPECT_EQ(most, 7u);
  EXPECT_EQ(KeptUpdates(), 0u);
  EXPECT_EQ(OnDisk(), (std::vector<Version>{{head_}}));
  const absl::Status ended = content->source->Read(0, 1).status();
  EXPECT_TRUE(absl::IsNotFound(ended)) << ended;
}

// Otherwise downloads of a few bytes a second, begun at each new version, would keep any number of
// deleted snapshots on the disk.
TEST_F(DownloadsOfFragments, SlowOnesPinNoDeletedSnapshots) {
  std::vector<DownloadContent> slow;
  for (int i = 0; i < 4; ++i) {
    Rounds(1);
    Snapshot();
    slow.push_back(*Newest(i % 2 == 0 ? "w" : "another"));
    ASSERT_TRUE(slow.back().source->Read(0, 1).ok());
  }
  const std::vector<Version> kept = OnDisk();
  EXPECT_LE(kept.size(), 2u);
  for (const std::string& path : disk_.files.open()) EXPECT_FALSE(path.ends_with(".snap")) << path;
  for (DownloadContent& content : slow) {
    const bool there = std::find(kept.begin(), kept.end(), content.header.version) != kept.end();
    const absl::Status read = content.source->Read(1, 1).status();
    EXPECT_EQ(read.code(), there ? absl::StatusCode::kOk : absl::StatusCode::kNotFound) << content.header.version.value;
  }
}

TEST_F(DownloadsOfFragments, DownloadOfACheckpointEndsWithItsFile) {
  Rounds(1);
  Snapshot();
  ExpectEndsWithItsFile(Open(CheckpointFragmentKey{JobId{"tiny"}, 10, FragmentIndex{0}}),
                        DataDirectory("/state").CheckpointFragmentPath(JobId{"tiny"}, 10, FragmentIndex{0}));
}

TEST_F(DownloadsOfFragments, DownloadResumesAfterARestart) {
  Rounds(1);
  Snapshot();
  ASSERT_TRUE(Newest().ok());
  Rounds(4);
  Snapshot();
  c_.data.Release(JobId{"tiny"});  // pins are in memory
  c_.RunWork();
  c_.data.Prepare(record_, {{Version{head_}, hash_}});
  c_.RunWork();
  const auto content = Exactly(1);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->header.version.value, 1u);
  EXPECT_EQ(Update(2, "other"), absl::OkStatus());
}

TEST_F(DownloadsOfFragments, ThoseOfPeopleAreNotWaitedFor) {
  Rounds(1);
  Snapshot();
  const auto content = Newest("");
  ASSERT_TRUE(content.ok()) << content.status();
  Rounds(4);
  Snapshot();
  EXPECT_EQ(OnDisk(), (std::vector<Version>{{head_}}));
  EXPECT_EQ(KeptUpdates(), 0u);
}

// A worker's link to the coordinator, which breaks.
class JoiningOverABadLink : public DownloadsOfFragments, public BulkHandler {
 protected:
  JoiningOverABadLink()
      : client_(MakeMemoryBulkClient(*this, wire_, {.frame_bytes = 4096, .cut = [this] { return Cut(); }})),
        link_(
            {WorkerId{"w"}, 1, {}, "test", [](const absl::Status&) { return std::string(); }},
            [this] { return Stream(); }, *client_, clock_, c_.log,
            [this](LinkEvent event) {
              if (auto* bytes = std::get_if<FetchedBytes>(&event)) fetched_.push_back(std::move(*bytes));
            },
            nullptr) {}
  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return nullptr; }
  void OnDownload(DownloadRequest request, DownloadReply reply) override {
    c_.data.OpenDownload(request, std::move(reply));
  }
  void OnMissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)>) override {}
  std::unique_ptr<WorkerEnd> Stream() {
    stream_ = MakeControlStreamPair(wire_);
    stream_.coordinator->Start({[](const WorkerMessage&) {}, [](absl::Status) {}});
    return std::move(stream_.worker);
  }
  bool Cut() { return frames_ == 0 || --frames_ == 0; }
  // Runs until the link has carried `frames` more frames and breaks.
  void Pass(int frames) {
    frames_ = frames + 1;
    clock_.Advance(Seconds(10));
    for (size_t ran = 1; ran > 0;) {
      (void)link_.Turn();
      ran = wire_.RunAll() + c_.RunWork();
    }
  }

  ManualExecutor wire_;
  int frames_ = 0;  // until the link breaks
  ControlStreamPair stream_;
  std::vector<FetchedBytes> fetched_;
  std::unique_ptr<BulkClient> client_;
  NetworkLink link_;
};

// At each break there is a newer snapshot.
TEST_F(JoiningOverABadLink, AFragmentIsSentOnceAndCaughtUpWith) {
  Rounds(1);
  Snapshot();
  const uint64_t whole = Newest("")->header.total_bytes;
  const int frames = static_cast<int>((whole + 4095) / 4096);
  link_.FetchFragment(JobId{"tiny"}, FragmentIndex{0}, whole, Version{});
  Pass(frames / 2);
  int breaks = 0;
  for (; fetched_.empty() && breaks < 20; ++breaks) {
    Rounds(3);
    Snapshot();
    Pass(frames / 2);
  }
  EXPECT_GE(breaks, 2);
  ASSERT_EQ(fetched_.size(), 1u);
  EXPECT_TRUE(fetched_[0].whole);
  EXPECT_EQ(fetched_[0].at.version.value, 1u) << "what it had begun with";
  EXPECT_LE(link_.totals().downloaded_bytes, whole + 4096 * static_cast<uint64_t>(breaks)) << "a frame a break";
  fetched_.clear();
  for (uint64_t reached = 2; reached <= head_; ++reached) {
    link_.FetchUpdate(JobId{"tiny"}, {FragmentIndex{0}, Version{reached}}, whole);
    Pass(1000);
    if (reached % 3 == 0) Rounds(1);  // without waiting for it
  }
  ASSERT_EQ(fetched_.size(), head_ - 1);
  for (uint64_t i = 0; i < fetched_.size(); ++i) EXPECT_EQ(fetched_[i].at.version.value, i + 2);
  EXPECT_EQ(fetched_.back().hash, hash_);
  Rounds(1);
  EXPECT_EQ(KeptUpdates(), 0u);
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
    shard_ = *shard;
    hashes_ = shard->blocks;
    manifest_ = Keep("toy", *shard);
  }
  // Stores the manifest of a corpus with only this shard as a blob.
  Sha256 Keep(const std::string& name, const TokenShardWriter::Result& shard) {
    CorpusManifest manifest;
    manifest.name = name;
    manifest.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
    manifest.files = {{.name = "train-00000.bin",
                       .split = CorpusSplit::kTrain,
                       .bytes = shard.file_bytes,
                       .sha256 = shard.sha256,
                       .tokens = shard.tokens,
                       .documents = 1,
                       .blocks = shard.blocks}};
    manifest.train = {.documents = 1, .tokens = shard.tokens, .text_bytes = shard.tokens};
    const std::string text = SerializeManifest(manifest);
    const Sha256 sha256 = Sha256Of(AsBytes(text));
    const uint64_t turn = c_.blobs.Begin(sha256, text.size())->turn;
    EXPECT_TRUE(c_.blobs.Append(sha256, turn, 0, std::array{AsBytes(text)}).ok());
    EXPECT_TRUE(*c_.blobs.FinishSome(sha256, turn));
    return sha256;
  }
  void Damage(const Sha256& blob) { disk_.files.At(DataDirectory("/state").BlobPath(blob))[0] ^= std::byte{1}; }
  absl::StatusOr<DownloadContent> Block(uint64_t block) {
    return Open(BlockKey{JobId{"tiny"}, manifest_, "train-00000.bin", block});
  }
  static constexpr char kShard[] = "/corpora/toy/train-00000.bin";
  TokenShardWriter::Result shard_;
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

TEST_F(DownloadsOfBlocks, EndWithTheirFile) {
  ExpectEndsWithItsFile(Block(0), kShard);
  ExpectEndsWithItsFile(Open(BlobKey{manifest_}), DataDirectory("/state").BlobPath(manifest_));
}

// For any number of blocks.
TEST_F(DownloadsOfBlocks, ReadTheirManifestOnce) {
  ASSERT_TRUE(Block(0).ok());
  Damage(manifest_);
  EXPECT_TRUE(Block(1).ok());
}

TEST_F(DownloadsOfBlocks, KeepTheManifestsThatWereAskedForLast) {
  const Sha256 others[] = {Keep("second", shard_), Keep("third", shard_)};
  ServedManifests manifests(c_.blobs, 2 * hashes_.size());
  for (const Sha256& sha256 : {manifest_, others[0], manifest_, others[1]}) {
    const auto manifest = manifests.Get(sha256);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
  }
  for (const Sha256& sha256 : {manifest_, others[0], others[1]}) Damage(sha256);
  EXPECT_EQ((*manifests.Get(manifest_))->name, "toy");
  EXPECT_EQ((*manifests.Get(others[1]))->name, "third");
  EXPECT_TRUE(absl::IsDataLoss(manifests.Get(others[0]).status())) << "it went for the third";
  ServedManifests alone(c_.blobs, 0);
  Damage(manifest_);
  Damage(others[1]);  // all have their original bytes again
  for (const Sha256& sha256 : {manifest_, manifest_, others[1], others[1]}) EXPECT_TRUE(alone.Get(sha256).ok());
  Damage(manifest_);
  EXPECT_TRUE(absl::IsDataLoss(alone.Get(manifest_).status())) << "the newest alone is kept";
}

}  // namespace
}  // namespace atl
