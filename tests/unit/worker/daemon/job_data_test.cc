// SPDX-License-Identifier: Apache-2.0
// Local files and the coordinator give the same samples of a job's corpora.
#include "worker/daemon/job_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stop_token>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/format/corpus_writer.h"
#include "common/rpc/transfer_failure.h"
#include "tests/support/memory_bulk.h"
#include "worker/daemon/remote_blocks.h"

namespace atl {
namespace {

// Serves one manifest and its shards, as a coordinator does.
class Shop final : public BulkHandler {
 public:
  explicit Shop(std::string directory) : directory_(std::move(directory)) {}
  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return nullptr; }
  void OnDownload(DownloadRequest request, DownloadReply reply) override {
    if (instead_of_answer) {
      held_.push_back(std::move(reply));
      return instead_of_answer();
    }
    if (!refusals.empty()) {
      const absl::Status refusal = refusals.front();
      refusals.pop_front();
      reply(refusal);
      if (after_refusal) after_refusal();
      return;
    }
    std::string content;
    if (std::holds_alternative<BlobKey>(request.key)) {
      content = manifest;
      if (damaged_blobs > 0) content[0] = static_cast<char>(content[0] ^ 1);
      damaged_blobs -= damaged_blobs > 0 ? 1 : 0;
    } else if (const auto* block = std::get_if<BlockKey>(&request.key)) {
      ++blocks;
      if (empty) return reply(absl::NotFoundError("not served"));
      const auto file = std::find_if(parsed.files.begin(), parsed.files.end(),
                                     [&](const CorpusFile& f) { return f.name == block->shard; });
      std::ifstream in(directory_ + "/" + block->shard, std::ios::binary);
      in.seekg(static_cast<std::streamoff>(file->bytes - file->tokens * 2 + block->block * kBlockBytes));
      content.resize(std::min<uint64_t>(kBlockBytes, file->tokens * 2 - block->block * kBlockBytes));
      in.read(content.data(), static_cast<std::streamsize>(content.size()));
      if (damage) content[0] = static_cast<char>(content[0] ^ 1);
    }
    reply(DownloadContent{{content.size(), {}, {}, CodecKind::kFp32, {}}, MakeMemorySource(content), nullptr});
  }
  void OnMissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override {
    reply(std::vector<Sha256>{});
  }
  std::string manifest;
  CorpusManifest parsed;
  int blocks = 0;
  int damaged_blobs = 0;  // of the next downloads
  bool damage = false, empty = false;
  std::function<void()> instead_of_answer, after_refusal;
  std::deque<absl::Status> refusals;  // of the next calls

 private:
  const std::string directory_;
  std::vector<DownloadReply> held_;
};

class JobDataTest : public testing::Test {
 protected:
  JobDataTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-data-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    CorpusWriterOptions options;
    options.name = "text";
    options.tokenizer = {"bytes", "", {}, 257, 256};
    options.held_out_fraction = 0.1;
    auto writer = CorpusWriter::Create(*files_, folder_ + "/text", options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    Rng draw(3);
    for (int d = 0; d < 40; ++d) {
      std::vector<uint32_t> ids(300);
      for (uint32_t& id : ids) id = static_cast<uint32_t>(draw.Below(256));
      EXPECT_TRUE((*writer)->Add(d % 10 == 0 ? CorpusSplit::kHeldOut : CorpusSplit::kTrain, ids, 300).ok());
    }
    auto manifest = (*writer)->Finish();
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    shop_ = std::make_unique<Shop>(folder_ + "/text");
    shop_->manifest = SerializeManifest(*manifest);
    shop_->parsed = *manifest;
    client_ = MakeMemoryBulkClient(*shop_, executor_, {});
    spec_.corpora = {{"text", Sha256Of(AsBytes(shop_->manifest)), 1}};
    spec_.sequence_length = 32;
    spec_.window_blocks = 1;
  }
  ~JobDataTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<JobData>> Make(const std::string& root, const std::string& cache) {
    return JobData::Create(
        {WorkerId{"w1"}, root, folder_ + "/" + cache, uint64_t{1} << 30, leave_.get_token(), pauses_}, JobId{"toy"},
        spec_, *client_, *files_, clock_, log_);
  }
  static std::vector<int32_t> Read(JobData& data) {
    EXPECT_TRUE(data.AddLease(LeaseId{1}, {0, 50}, 0).ok());
    auto batch = data.Next(50, Seconds(30));
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() ? batch->tokens : std::vector<int32_t>{};
  }

  std::string folder_;
  std::stop_source leave_;
  BackoffOptions pauses_{Nanoseconds(1), Nanoseconds(1)};
  const std::unique_ptr<Files> files_ = MakePosixFiles();
  const SystemClock clock_;
  Log log_{[] {
    LogOptions options;
    options.to_stderr = false;
    return options;
  }()};
  std::unique_ptr<Shop> shop_;
  ThreadExecutor executor_{1};
  std::unique_ptr<BulkClient> client_;
  DataSpec spec_;
};

TEST_F(JobDataTest, AManifestGoesOnWhereItsLinkBroke) {
  int frames = 0, breaks = 0;
  const auto cut = [&] { return ++frames % 4 == 0 && ++breaks > 0; };
  client_ = MakeMemoryBulkClient(*shop_, executor_, {.frame_bytes = 32, .cut = cut});
  const std::string text = shop_->manifest;
  const auto fetched =
      DownloadBlob(*client_, Sha256Of(AsBytes(text)), WorkerId{"w1"}, text.size(), leave_.get_token(), pauses_);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*fetched, text);
  EXPECT_GT(breaks, 3);
  EXPECT_LE(static_cast<size_t>(frames), text.size() / 32 + 3 * static_cast<size_t>(breaks)) << "nothing comes again";
}

TEST_F(JobDataTest, LocalFilesAndStreamedBlocksAreTheSameSamples) {
  auto local = Make(folder_, "cache-a");
  ASSERT_TRUE(local.ok()) << local.status();
  const std::vector<int32_t> here = Read(**local);
  EXPECT_EQ(shop_->blocks, 0);
  auto remote = Make("", "cache-b");
  ASSERT_TRUE(remote.ok()) << remote.status();
  EXPECT_EQ(Read(**remote), here);
  EXPECT_GT(shop_->blocks, 0);
  EXPECT_EQ((*remote)->end_of_text(), std::optional<uint32_t>(256));
}

TEST_F(JobDataTest, AWorkerThatIsToLeaveWaitsForNoManifest) {
  shop_->instead_of_answer = [this] { leave_.request_stop(); };
  EXPECT_EQ(Make("", "cache").status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Make("", "cache").status().code(), absl::StatusCode::kCancelled) << "asked to leave before";
}

TEST_F(JobDataTest, ACorpusLiesWhereItsManifestIsNamedWhateverTheJobCallsIt) {
  spec_.corpora[0].name = "renamed";
  auto local = Make(folder_, "cache");
  ASSERT_TRUE(local.ok()) << local.status();
  Read(**local);
  EXPECT_EQ(shop_->blocks, 0);
}

TEST_F(JobDataTest, ASecondRunFetchesNothingTwice) {
  {
    auto first = Make("", "cache");
    ASSERT_TRUE(first.ok()) << first.status();
    Read(**first);
  }
  const int before = shop_->blocks;
  auto second = Make("", "cache");
  ASSERT_TRUE(second.ok());
  Read(**second);
  EXPECT_EQ(shop_->blocks, before);
}

// The first of the training split.
constexpr BlockId kBlock{0, 0, 0};

TEST_F(JobDataTest, ADamagedBlockIsNeverTrainedOn) {
  shop_->damage = true;
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  for (int i = 0; i < kDownloadAttempts; ++i) {
    const absl::Status why = (*data)->blocks().FetchBlock(kBlock).status();
    const bool last = i + 1 == kDownloadAttempts;
    EXPECT_EQ(why.code(), last ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnavailable) << i;
    EXPECT_NE(std::string(why.message()).find("the coordinator"), std::string::npos) << why;
  }
  shop_->damage = false;
  EXPECT_TRUE((*data)->blocks().FetchBlock(kBlock).ok());
}

// A broken connection, or a single disk failure, is no reason to leave the job.
TEST_F(JobDataTest, ABlockIsAskedForAgain) {
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  BlockSource& blocks = (*data)->blocks();
  for (const absl::Status& outage :
       {absl::CancelledError("CANCELLED"), absl::UnavailableError("Socket closed"),
        absl::DeadlineExceededError("nothing came"), absl::ResourceExhaustedError("too many calls in this second")}) {
    for (int i = 0; i < 2 * kDownloadAttempts; ++i) {
      shop_->refusals = {outage};
      const absl::Status why = blocks.FetchBlock(kBlock).status();
      EXPECT_TRUE(absl::IsUnavailable(why)) << why;
      EXPECT_NE(why.message().find(outage.message()), std::string::npos) << why;
    }
  }
  for (const absl::Status& broken :
       {absl::InternalError("read train-00000.bin: Input/output error"), absl::UnknownError("Stream removed"),
        absl::AbortedError("aborted"), absl::DataLossError("a frame has another CRC-32C")}) {
    for (int i = 0; i + 1 < kDownloadAttempts; ++i) {
      shop_->refusals = {broken};
      EXPECT_TRUE(absl::IsUnavailable(blocks.FetchBlock(kBlock).status())) << i;
    }
    EXPECT_TRUE(blocks.FetchBlock(kBlock).ok()) << "and its failures are forgotten";
    std::filesystem::remove_all(folder_ + "/cache");
    std::filesystem::create_directory(folder_ + "/cache");
  }
  shop_->refusals = {absl::NotFoundError("not served")};
  EXPECT_TRUE(absl::IsNotFound(blocks.FetchBlock(kBlock).status()));
}

TEST_F(JobDataTest, ABlockThatCannotBeReadOnceIsTrainedOn) {
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  shop_->refusals = {absl::InternalError("read train-00000.bin: Stale file handle")};
  EXPECT_FALSE(Read(**data).empty());
  EXPECT_TRUE(shop_->refusals.empty());
}

TEST_F(JobDataTest, UnreadableManifestIsRetriedALimitedNumberOfTimes) {
  const absl::Status broken = absl::InternalError("read blob: Input/output error");
  shop_->refusals.assign(kDownloadAttempts - 1, broken);
  EXPECT_TRUE(Make("", "cache").ok());
  EXPECT_TRUE(shop_->refusals.empty());
  shop_->refusals.assign(kDownloadAttempts + 1, broken);
  EXPECT_EQ(Make("", "cache").status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(shop_->refusals.size(), 1u);
  shop_->refusals = {absl::CancelledError("CANCELLED")};
  EXPECT_TRUE(absl::IsUnavailable(Make("", "cache").status())) << "nobody has asked to leave: it is prepared again";
}

// A single wrong read of a disk is no reason to leave the job.
TEST_F(JobDataTest, AManifestThatCameDamagedIsTriedAsOften) {
  shop_->damaged_blobs = kDownloadAttempts - 1;
  EXPECT_TRUE(Make("", "cache").ok());
  shop_->damaged_blobs = kDownloadAttempts + 1;
  const absl::Status why = Make("", "cache").status();
  EXPECT_TRUE(absl::IsDataLoss(why)) << why;
  EXPECT_NE(why.message().find("the manifest of corpus text: has another SHA-256"), std::string::npos) << why;
  EXPECT_EQ(shop_->damaged_blobs, 1);
}

TEST_F(JobDataTest, AWorkerThatIsToLeaveWaitsForNoTry) {
  pauses_ = {Seconds(3600), Seconds(3600)};
  shop_->refusals.assign(kDownloadAttempts, absl::InternalError("read blob: Input/output error"));
  shop_->after_refusal = [this] { leave_.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(Make("", "cache").status()));
}

TEST_F(JobDataTest, MissingBlockIsSoughtInBothPlaces) {
  std::filesystem::remove(folder_ + "/text/train-00000.bin");
  shop_->empty = true;
  auto data = Make(folder_, "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_TRUE((*data)->AddLease(LeaseId{1}, {0, 50}, 0).ok());
  const auto batch = (*data)->Next(50, Seconds(30));
  ASSERT_EQ(batch.status().code(), absl::StatusCode::kNotFound) << batch.status();
  const std::string said(batch.status().message());
  EXPECT_NE(said.find("not served; it is also missing at this worker: "), std::string::npos) << said;
  EXPECT_NE(said.find(folder_ + "/text/train-00000.bin"), std::string::npos) << said;
}

TEST_F(JobDataTest, ACallThatTheCoordinatorPutsOffIsTriedAgain) {
  shop_->refusals = {absl::ResourceExhaustedError("too many calls in this second")};
  const auto delayed = Make("", "cache");
  ASSERT_TRUE(absl::IsUnavailable(delayed.status())) << delayed.status();
  EXPECT_NE(delayed.status().message().find("too many calls in this second"), std::string::npos);
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  shop_->refusals = {absl::ResourceExhaustedError("too many calls in this second")};
  EXPECT_FALSE(Read(**data).empty());
  EXPECT_TRUE(shop_->refusals.empty());
}

TEST_F(JobDataTest, AnotherManifestThanTheJobNamesIsRefused) {
  spec_.corpora[0].manifest = Sha256Of(AsBytes(std::string("something else")));
  const auto data = Make("", "cache");
  ASSERT_FALSE(data.ok());
  EXPECT_NE(std::string(data.status().message()).find("manifest of corpus text"), std::string::npos);
}

}  // namespace
}  // namespace atl
