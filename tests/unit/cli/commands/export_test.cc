// SPDX-License-Identifier: Apache-2.0
// Files uploaded at submit and downloaded by an export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/forwarded_files.h"
#include "common/format/corpus_manifest.h"
#include "common/format/huggingface.h"
#include "common/format/safetensors.h"
#include "common/plan/job_validation.h"
#include "common/plan/model_layout.h"
#include "common/wire/job_spec_proto.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;

// Records where space is queried, which files are opened for writing and which are flushed.
class NotingFiles final : public ForwardedFiles {
 public:
  NotingFiles() : ForwardedFiles(MakePosixFiles()) {}
  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    written.push_back(path);
    ATOLL_ASSIGN_OR_RETURN(auto file, inner().OpenForAppend(path));
    return std::make_unique<NotingFile>(std::move(file), path, flushed);
  }
  absl::StatusOr<Space> SpaceAt(const std::string& path) const override {
    space_at.push_back(path);
    return inner().SpaceAt(path);
  }
  std::vector<std::string> written, flushed;
  mutable std::vector<std::string> space_at;

 private:
  class NotingFile final : public File {
   public:
    NotingFile(std::unique_ptr<File> file, std::string path, std::vector<std::string>& flushed)
        : file_(std::move(file)), path_(std::move(path)), flushed_(flushed) {}
    absl::Status Append(Bytes data) override { return file_->Append(data); }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override { return file_->ReadAt(offset, out); }
    absl::Status Sync() override {
      flushed_.push_back(path_);
      return file_->Sync();
    }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    const std::unique_ptr<File> file_;
    const std::string path_;
    std::vector<std::string>& flushed_;
  };
};

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "cli_export_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    PrepareCorpus();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  void PrepareCorpus() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "Paragraph " + std::to_string(i) + " of a text about islands.\n\n";
    Write("text.txt", text);
    const RunResult result = harness_.Run(
        {"data", "prepare", "--out", Path("corpus"), Path("text.txt"), "-q", "--text-split", "paragraphs"});
    ASSERT_EQ(result.code, 0) << result.talk;
  }

  void WriteJob(const std::string& more = "", const std::string& manifest = "corpus/manifest.json") {
    Write("job.yaml",
          "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec:\n  data:\n    corpora:\n      - "
          "manifest: " +
              manifest + "\n    sequence_length: 16\n  stop: {inner_steps: 400}\n" + more);
  }

  // Offers a checkpoint of a small model in several fragments, with bytes from a seed.
  void OfferCheckpoint() {
    WriteJob(
        "  model: {hidden_size: 16, heads: 2, layers: 2, init_std: 0.5}\n  sync: {fragments: strided, "
        "layers_per_fragment: 1}\n");
    const RunResult submitted = harness_.Run({"submit", Path("job.yaml")});
    ASSERT_EQ(submitted.code, 0) << submitted.talk;
    JobSpec spec;
    ASSERT_TRUE(JobSpecFromProto(harness_.fake.submitted.back().spec(), false, spec).empty());
    ResolveDefaults(spec, 257);
    layout_ = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    values_.resize(layout_.elements);
    InitialParameters(layout_, 5, 0, values_);
    v1::GetCheckpointResponse& c = harness_.fake.checkpoint;
    c.mutable_checkpoint()->set_name("jobs/tiny/checkpoints/400");
    *c.mutable_spec() = JobSpecToProto(spec);
    for (const TensorInfo& t : layout_.tensors) {
      v1::TensorPlace& place = *c.add_tensors();
      place.set_name(t.name);
      for (const uint64_t n : t.shape) place.add_shape(n);
      place.set_fragment(t.fragment);
      place.set_offset_elements(t.offset - layout_.fragments[t.fragment].offset);
    }
    for (uint32_t f = 0; f < layout_.fragments.size(); ++f) {
      const FragmentInfo& fragment = layout_.fragments[f];
      c.mutable_checkpoint()->add_versions(f + 7);
      const std::span<const float> part(values_.data() + fragment.offset, fragment.elements);
      c.mutable_checkpoint()->add_content_hashes(ContentHash(part, f + 7, layout_.digest).Hex());
      c.add_fragment_elements(fragment.elements);
      harness_.fake.fragments[f].assign(reinterpret_cast<const char*>(values_.data() + fragment.offset),
                                        fragment.elements * sizeof(float));
    }
  }

  // Compares every tensor of the exported directory with the offered values.
  void ExpectExported(const std::string& name) {
    auto reader = SafetensorsReader::Open(*harness_.files, Path(name));
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const TensorInfo& t : layout_.tensors) {
      std::vector<float> read(t.elements);
      const absl::Status status = (*reader)->ReadTensor(t.name, read);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(std::equal(read.begin(), read.end(), values_.begin() + static_cast<std::ptrdiff_t>(t.offset)))
          << t.name;
    }
    const auto config = ParseHuggingFaceConfig(Read(name + "/config.json"));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->model.hidden_size, 16u);
    EXPECT_EQ(config->eos_id, 256u);
  }

  std::string directory_;
  Harness harness_;
  ModelLayout layout_;
  std::vector<float> values_;
};

TEST_F(ExportTest, SubmitStoresTheFilesAndSendsTheirHashes) {
  WriteJob();
  harness_.fake.broken_uploads = 2;
  const RunResult result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_EQ(harness_.pauses, 2) << "broken uploads are tried again";
  const v1::DataSpec& data = harness_.fake.submitted.at(0).spec().data();
  EXPECT_EQ(data.corpora(0).name(), "corpus");
  EXPECT_EQ(data.corpora(0).manifest(), "");
  EXPECT_EQ(data.corpora(0).manifest_sha256(), Sha256Of(AsBytes(Read("corpus/manifest.json"))).Hex());
  EXPECT_GT(data.tokenizer_file_names_size(), 0);
  EXPECT_EQ(harness_.fake.blobs.size(), 1u + static_cast<size_t>(data.tokenizer_sha256_size()));

  harness_.fake.broken_uploads = 1000;  // a second submit uploads nothing
  EXPECT_EQ(harness_.Run({"submit", Path("job.yaml"), "--name", "again"}).code, 0);
}

// As when another command uploads the same file: the stored part grows each time.
TEST_F(ExportTest, AnUploadIsTriedAgainWhileMoreOfItGetsThere) {
  WriteJob();
  harness_.fake.cut_uploads_every_bytes = 100;
  EXPECT_EQ(harness_.Run({"submit", Path("job.yaml")}).code, 0);
  EXPECT_GT(harness_.pauses, 40) << "more than are made where nothing gets there";
  harness_.fake.blobs.clear();
  harness_.fake.cut_uploads_every_bytes = 0;
  harness_.fake.broken_uploads = 1000;
  harness_.pauses = 0;
  const Instant begun = harness_.clock.Now();
  const RunResult given_up = harness_.Run({"submit", Path("job.yaml"), "--name", "again"});
  EXPECT_NE(given_up.code, 0);
  EXPECT_THAT(given_up.talk, testing::HasSubstr("storing "));
  EXPECT_EQ(harness_.pauses, 4);
  EXPECT_EQ(harness_.clock.Now() - begun, Seconds(1 + 2 + 4 + 8));
}

TEST_F(ExportTest, TheTimeoutEndsTransfersToo) {
  const auto expect_given_up = [this](const std::vector<std::string>& arguments) {
    const RunResult result = harness_.Run(arguments);
    EXPECT_EQ(result.code, 124) << result.talk;
    EXPECT_THAT(result.talk, testing::EndsWith("atoll: --timeout expired\n"));
  };
  WriteJob();
  // Each file takes less than the timeout, all files together more.
  harness_.fake.before_transfer = [this] { harness_.clock.Advance(Seconds(2)); };
  expect_given_up({"submit", Path("job.yaml"), "--timeout", "1s"});
  EXPECT_EQ(harness_.fake.blobs.size(), 1u);
  EXPECT_TRUE(harness_.fake.submitted.empty());
  harness_.fake.broken_uploads = 1000;
  const Instant begin = harness_.clock.Now();
  expect_given_up({"submit", Path("job.yaml"), "--timeout", "6s"});
  EXPECT_EQ(harness_.pauses, 2);  // after 2 s and 5 s; the second pause, of 2 s, is cut
  EXPECT_EQ((harness_.clock.Now() - begin).ns, Seconds(6).ns);

  harness_.fake.broken_uploads = 0;
  OfferCheckpoint();
  expect_given_up({"checkpoint", "download", "tiny", Path("out"), "--timeout", "3s"});
  harness_.fake.cut_every_bytes = 100;  // every attempt makes progress
  expect_given_up({"checkpoint", "download", "tiny", Path("out"), "--timeout", "7s"});
}

TEST_F(ExportTest, AShardThatIsMissingOrHasAnotherLengthIsAFaultOfTheJobFile) {
  WriteJob();
  const std::string shard = Path("corpus/train-00000.bin"), whole = Read("corpus/train-00000.bin");
  const auto refused = [&](const std::string& problem) {
    for (const char* command : {"submit", "validate"}) {
      const RunResult result = harness_.Run({"job", command, Path("job.yaml")});
      EXPECT_EQ(result.code, 2) << result.talk;
      EXPECT_THAT(result.talk,
                  AllOf(HasSubstr("job.yaml:7:9: data.corpora[0].manifest belongs to a corpus that is incomplete in " +
                                  Path("corpus") + ": shard train-00000.bin " + problem),
                        HasSubstr("to list all problems run: atoll data verify " + Path("corpus")),
                        HasSubstr("has 1 fault\n")));
    }
  };
  Write("corpus/train-00000.bin", whole + "xx");
  refused(absl::StrCat("has ", whole.size() + 2, " bytes, but its manifest has ", whole.size(), ";"));
  Write("corpus/train-00000.bin", whole.substr(0, whole.size() - 2));
  refused(absl::StrCat("has ", whole.size() - 2, " bytes, but its manifest has ", whole.size(), ";"));
  std::filesystem::remove(shard);
  refused("is missing;");
  EXPECT_TRUE(harness_.fake.submitted.empty());

  // A user with only the manifest may submit; the output names the files that the workers need.
  std::filesystem::remove(Path("corpus/held_out-00000.bin"));
  const RunResult result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.talk, HasSubstr("corpus corpus: none of its shards is in " + Path("corpus") +
                                     "; the coordinator or each worker must have the shards below its --data-root\n"));
}

TEST_F(ExportTest, FilesThatCannotBeUsedAreFaultsAtTheirLines) {
  WriteJob("", "nowhere/manifest.json");
  RunResult result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("job.yaml:7:9: data.corpora[0].manifest cannot be read: "));
  Write("bad.json", "{\"format_revision\": 99}");
  WriteJob("", "bad.json");
  result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("job.yaml:7:9: data.corpora[0].manifest is not a corpus manifest: "));
  WriteJob("  model: {init: {directory: nothing}}\n");
  result = harness_.Run({"job", "validate", Path("job.yaml")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("job.yaml:10:18: model.init.directory names "));
}

TEST_F(ExportTest, WritesTheCoordinatorsParameters) {
  OfferCheckpoint();
  const RunResult result = harness_.Run({"checkpoint", "export", "--format", "hf", "tiny", Path("out")});
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_EQ(result.out, Path("out") + "\n");
  ExpectExported("out");
  EXPECT_FALSE(std::filesystem::exists(Path("out/.fragment")));
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("out")}).code, 3) << "never over something";
}

TEST_F(ExportTest, WritesIntoAnExistingDirectory) {
  OfferCheckpoint();
  Write("out.fragment", "the user's");
  std::filesystem::create_directory(Path("out"));
  auto noting = std::make_unique<NotingFiles>();
  const NotingFiles& files = *noting;
  harness_.files = std::move(noting);
  ASSERT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("out")}).code, 0);
  ExpectExported("out");
  EXPECT_EQ(files.space_at, std::vector<std::string>{Path("out")}) << "it may be a mount point";
  for (const std::string& path : files.written) EXPECT_THAT(path, testing::StartsWith(Path("out") + "/"));
  EXPECT_FALSE(std::filesystem::exists(Path("out/.fragment")));
  EXPECT_EQ(Read("out.fragment"), "the user's");
}

TEST_F(ExportTest, BrokenConnectionsGoOnWhereTheyWere) {
  OfferCheckpoint();
  harness_.fake.cut_every_bytes = 4'000;
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny/400", Path("out")}).code, 0);
  ExpectExported("out");
  EXPECT_GT(harness_.pauses, 0);
  // A stall, or a server busy with other clients, must not end the download either.
  harness_.fake.cut = absl::DeadlineExceededError("a download made no progress for 30 s");
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny/400", Path("stalled")}).code, 0);
  ExpectExported("stalled");
  harness_.fake.cut = absl::ResourceExhaustedError("this connection has 16 downloads already");
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny/400", Path("waited")}).code, 0);
  ExpectExported("waited");
}

TEST_F(ExportTest, DamagedBytesAreNotExported) {
  OfferCheckpoint();
  harness_.fake.fragments[0][100] ^= 1;
  const RunResult result = harness_.Run({"checkpoint", "export", "tiny", Path("out")});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.talk, HasSubstr("the coordinator's file of fragment 0 of checkpoint jobs/tiny/checkpoints/400 is "
                                     "damaged"));
  EXPECT_THAT(result.talk, HasSubstr("run atoll-coordinator verify --state DIR at the coordinator, or choose another"));
  EXPECT_FALSE(std::filesystem::exists(Path("out"))) << "nothing is left";
  std::filesystem::create_directory(Path("there"));
  EXPECT_EQ(harness_.Run({"checkpoint", "download", "tiny", Path("there")}).code, 3);
  EXPECT_TRUE(std::filesystem::is_empty(Path("there")));
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("there")}).code, 3);
  EXPECT_TRUE(std::filesystem::is_empty(Path("there"))) << "a directory of the user stays, empty as it was";
}

// After a rollback the job reaches its step again, with other parameters.
TEST_F(ExportTest, ACheckpointThatIsWrittenAgainMeanwhileIsNotMixed) {
  OfferCheckpoint();
  harness_.fake.cut_every_bytes = 4'000;
  harness_.fake.written_again = true;
  for (const char* verb : {"export", "download"}) {
    const RunResult result = harness_.Run({"checkpoint", verb, "tiny/400", Path("out")});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.talk,
                HasSubstr("checkpoint jobs/tiny/checkpoints/400 was written again, after a rollback, since this "
                          "command began: run the command again"));
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
  }
  harness_.fake.written_again = false;
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny/400", Path("out")}).code, 0);
  ExpectExported("out");
}

TEST_F(ExportTest, BytesDamagedInTransitAreFetchedAgain) {
  OfferCheckpoint();
  harness_.fake.damaged_downloads = 1;
  const RunResult result = harness_.Run({"checkpoint", "export", "tiny", Path("out")});
  EXPECT_EQ(result.code, 0) << result.talk;
  ExpectExported("out");
}

TEST_F(ExportTest, TheFormatAskedForIsPrinted) {
  OfferCheckpoint();
  RunResult result = harness_.Run({"checkpoint", "export", "tiny", Path("out"), "-o", "jsonl"});
  EXPECT_EQ(result.out, "{\"checkpoint\":\"jobs/tiny/checkpoints/400\",\"directory\":\"" + Path("out") + "\"}\n");
  result = harness_.Run({"checkpoint", "download", "tiny", Path("raw"), "-o", "yaml"});
  EXPECT_EQ(result.out, "checkpoint: jobs/tiny/checkpoints/400\ndirectory: \"" + Path("raw") + "\"\n");
  result = harness_.Run({"data", "inspect", Path("corpus"), "-o", "yaml"});
  EXPECT_THAT(result.out, HasSubstr("tokenizer:\n  kind: bytes\n  vocab_size: 257\n"));
  const std::string json = harness_.Run({"data", "inspect", Path("corpus"), "-o", "json"}).out;
  EXPECT_THAT(json, HasSubstr("\n    \"kind\": \"bytes\""));
  result = harness_.Run({"data", "verify", Path("corpus"), "-q", "-o", "jsonl"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
  result = harness_.Run({"data", "inspect", Path("corpus"), "-o", "name"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.talk, "atoll: -o is name; this command takes table, json, jsonl or yaml\n");
}

TEST_F(ExportTest, ADigestMayBeAbsent) {
  OfferCheckpoint();
  harness_.fake.no_digest = true;
  EXPECT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("out")}).code, 0);
}

TEST_F(ExportTest, ALyingLayoutIsRefused) {
  OfferCheckpoint();
  const v1::GetCheckpointResponse good = harness_.fake.checkpoint;
  const auto refused = [&](const std::function<void(v1::GetCheckpointResponse&)>& change) {
    harness_.fake.checkpoint = good;
    change(harness_.fake.checkpoint);
    const RunResult result = harness_.Run({"checkpoint", "export", "tiny", Path("out")});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.talk, HasSubstr("describes the checkpoint wrongly"));
  };
  refused([](auto& c) { c.mutable_tensors(1)->set_offset_elements(3); });
  refused([](auto& c) { c.mutable_tensors(1)->set_fragment(99); });
  refused([](auto& c) { c.mutable_tensors(1)->add_shape(2); });
  refused([](auto& c) { c.mutable_tensors()->RemoveLast(); });
  refused([](auto& c) { c.mutable_checkpoint()->clear_versions(); });
  refused([](auto& c) { c.mutable_checkpoint()->set_content_hashes(0, "x"); });
  refused([](auto& c) { c.mutable_spec()->mutable_model()->set_hidden_size(1 << 20); });
  refused([](auto& c) { c.mutable_spec()->mutable_model()->set_vocab_size(0); });
}

TEST_F(ExportTest, AnExportIsAStartForANewJob) {
  OfferCheckpoint();
  ASSERT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("out")}).code, 0);
  WriteJob("  model: {init: {directory: out}}\n");
  RunResult result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 0) << result.talk;
  const v1::ModelSpec& model = harness_.fake.submitted.back().spec().model();
  EXPECT_EQ(model.hidden_size(), 16u) << "sizes come from config.json";
  EXPECT_EQ(model.init().safetensors_sha256_size(), 1);
  EXPECT_EQ(model.init().directory(), "");
  WriteJob("  model: {layers: 9, init: {directory: out}}\n");
  result = harness_.Run({"submit", Path("job.yaml")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("job.yaml:10:11: model.layers does not fit "));
}

TEST_F(ExportTest, TheDefaultedFileCanBeSubmitted) {
  OfferCheckpoint();
  ASSERT_EQ(harness_.Run({"checkpoint", "export", "tiny", Path("out")}).code, 0);
  Write("pairs.jsonl", "{\"sentence_good\": \"a cat\", \"sentence_bad\": \"a cats\"}\n");
  WriteJob("  model: {init: {directory: out}}\n  evaluation: {tasks: [{file: pairs.jsonl}]}\n");
  const RunResult validated = harness_.Run({"job", "validate", Path("job.yaml"), "-o", "yaml"});
  ASSERT_EQ(validated.code, 0) << validated.talk;
  EXPECT_THAT(validated.out, HasSubstr("hidden_size: 16\n")) << "sizes come from config.json";
  EXPECT_THAT(validated.out, HasSubstr("directory: out\n"));
  EXPECT_THAT(validated.out, HasSubstr("file: pairs.jsonl\n"));
  Write("again.yaml", validated.out);
  const RunResult submitted = harness_.Run({"submit", Path("again.yaml")});
  EXPECT_EQ(submitted.code, 0) << submitted.talk;
  EXPECT_EQ(harness_.fake.submitted.back().spec().evaluation().tasks(0).name(), "pairs");
}

TEST_F(ExportTest, DownloadKeepsTheRawFragments) {
  OfferCheckpoint();
  auto noting = std::make_unique<NotingFiles>();
  const NotingFiles& files = *noting;
  harness_.files = std::move(noting);
  EXPECT_EQ(harness_.Run({"checkpoint", "download", "tiny", Path("raw")}).code, 0);
  EXPECT_EQ(Read("raw/fragment-00001.f32"), harness_.fake.fragments[1]);
  EXPECT_THAT(Read("raw/checkpoint.json"), HasSubstr("jobs/tiny/checkpoints/400"));
  EXPECT_EQ(files.flushed, files.written) << "checkpoint.json marks what is on the disk";
  EXPECT_THAT(files.written, testing::SizeIs(harness_.fake.fragments.size() + 1));
}

}  // namespace
}  // namespace atl::cli
