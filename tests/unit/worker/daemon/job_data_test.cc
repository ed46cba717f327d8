// Corpora of a job from local files and from the coordinator give the same samples.
#include "worker/daemon/job_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stop_token>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/format/corpus_writer.h"
#include "common/rpc/memory_bulk.h"

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
    if (refusals > 0) {
      --refusals;
      return reply(absl::ResourceExhaustedError("too many calls in this second"));
    }
    std::string content;
    if (std::holds_alternative<BlobKey>(request.key)) {
      content = manifest;
    } else if (const auto* block = std::get_if<BlockKey>(&request.key)) {
      ++blocks;
      if (empty) return reply(absl::NotFoundError("not served here"));
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
  bool damage = false, empty = false;
  std::function<void()> instead_of_answer;
  int refusals = 0;  // of the next calls

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
    return JobData::Create({WorkerId{"w1"}, root, folder_ + "/" + cache, uint64_t{1} << 30, leave_.get_token()},
                           JobId{"toy"}, spec_, *client_, *files_, clock_, log_);
  }
  static std::vector<int32_t> Read(JobData& data) {
    EXPECT_TRUE(data.AddLease(LeaseId{1}, {0, 50}, 0).ok());
    auto batch = data.Next(50, Seconds(30));
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() ? batch->tokens : std::vector<int32_t>{};
  }

  std::string folder_;
  std::stop_source leave_;
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

TEST_F(JobDataTest, ADamagedBlockIsNeverTrainedOn) {
  shop_->damage = true;
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_TRUE((*data)->AddLease(LeaseId{1}, {0, 50}, 0).ok());
  const auto batch = (*data)->Next(50, Seconds(30));
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(batch.status().message()).find("the coordinator"), std::string::npos) << batch.status();
}

TEST_F(JobDataTest, ABlockThatNobodyHasIsSoughtAtBothPlaces) {
  std::filesystem::remove(folder_ + "/text/train-00000.bin");
  shop_->empty = true;
  auto data = Make(folder_, "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_TRUE((*data)->AddLease(LeaseId{1}, {0, 50}, 0).ok());
  const auto batch = (*data)->Next(50, Seconds(30));
  ASSERT_EQ(batch.status().code(), absl::StatusCode::kNotFound) << batch.status();
  const std::string said(batch.status().message());
  EXPECT_NE(said.find("not served here; nor is it at this worker: "), std::string::npos) << said;
  EXPECT_NE(said.find(folder_ + "/text/train-00000.bin"), std::string::npos) << said;
}

TEST_F(JobDataTest, ACallThatTheCoordinatorPutsOffIsTriedAgain) {
  shop_->refusals = 1;
  const auto delayed = Make("", "cache");
  ASSERT_TRUE(absl::IsUnavailable(delayed.status())) << delayed.status();
  EXPECT_NE(delayed.status().message().find("too many calls in this second"), std::string::npos);
  auto data = Make("", "cache");
  ASSERT_TRUE(data.ok()) << data.status();
  shop_->refusals = 1;
  EXPECT_FALSE(Read(**data).empty());
  EXPECT_EQ(shop_->refusals, 0);
}

TEST_F(JobDataTest, AnotherManifestThanTheJobNamesIsRefused) {
  spec_.corpora[0].manifest = Sha256Of(AsBytes(std::string("something else")));
  const auto data = Make("", "cache");
  ASSERT_FALSE(data.ok());
  EXPECT_NE(std::string(data.status().message()).find("manifest of corpus text"), std::string::npos);
}

}  // namespace
}  // namespace atl
