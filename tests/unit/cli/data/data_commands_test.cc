// SPDX-License-Identifier: Apache-2.0
#include "cli/data_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/progress_line.h"
#include "common/base/descriptor.h"
#include "common/base/forwarded_files.h"
#include "common/base/random.h"
#include "common/format/corpus_verify.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Forwards everything; the disk accepts only a limited number of further bytes.
class SmallDisk final : public ForwardedFiles {
 public:
  explicit SmallDisk(uint64_t free_bytes) : ForwardedFiles(MakePosixFiles()), free_bytes_(free_bytes) {}
  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    ATOLL_ASSIGN_OR_RETURN(auto file, inner().OpenForAppend(path));
    return std::make_unique<Limited>(std::move(file), path, free_bytes_);
  }

 private:
  class Limited final : public File {
   public:
    Limited(std::unique_ptr<File> file, std::string path, uint64_t& free_bytes)
        : file_(std::move(file)), path_(std::move(path)), free_bytes_(free_bytes) {}
    absl::Status Append(Bytes data) override {
      if (data.size() > free_bytes_) {
        return absl::ResourceExhaustedError(absl::StrCat("write ", path_, ": No space left on device"));
      }
      free_bytes_ -= data.size();
      return file_->Append(data);
    }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override { return file_->ReadAt(offset, out); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    std::unique_ptr<File> file_;
    std::string path_;
    uint64_t& free_bytes_;
  };
  uint64_t free_bytes_;
};

std::string ManyDocuments(int count) {
  Rng rng(1);
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text = absl::StrCat("Document ", i, " tells of");
    for (uint64_t n = 3 + rng.Below(10); n > 0; --n) {
      text += " ";
      for (uint64_t m = 1 + rng.Below(3); m > 0; --m) {
        text += "bdfgklmnprst"[rng.Below(12)];
        text += "aeiou"[rng.Below(5)];
      }
    }
    lines += nlohmann::json({{"text", text + "."}}).dump() + "\n";
  }
  return lines;
}

class DataCommands : public ::testing::Test {
 protected:
  DataPrepareOptions Prepare(std::vector<std::string> inputs) {
    DataPrepareOptions options;
    options.inputs = std::move(inputs);
    options.output = dir_ / "corpus";
    options.held_out = 0.1;
    options.quiet = true;
    return options;
  }
  absl::Status Run(const DataPrepareOptions& options) {
    out_.str("");
    talk_.str("");
    return RunDataPrepare(options, *files_, out_, talk_);
  }
  std::string Error(const DataPrepareOptions& options) {
    const absl::Status status = Run(options);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(out_.str(), "");
    EXPECT_EQ(std::count(status.message().begin(), status.message().end(), '\n'), 0);
    return std::string(status.message());
  }
  CorpusManifest Manifest() { return *ReadManifest(*files_, dir_ / "corpus"); }
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
  std::ostringstream out_, talk_;
};

TEST_F(DataCommands, BytesFromJsonLines) {
  ASSERT_TRUE(Run(Prepare({dir_.Write("a.jsonl", ManyDocuments(500))})).ok());
  const CorpusManifest manifest = Manifest();
  EXPECT_EQ(manifest.name, "corpus");
  EXPECT_EQ(manifest.tokenizer.kind, "bytes");
  EXPECT_EQ(manifest.train.documents + manifest.held_out.documents, 500u);
  EXPECT_GT(manifest.held_out.documents, 20u);
  EXPECT_EQ(manifest.train.tokens,
            manifest.train.text_bytes + manifest.train.documents);  // one end of text per document
  ASSERT_TRUE(manifest.bigram.has_value());
  EXPECT_GT(manifest.bigram->perplexity, 1.5);
  EXPECT_LT(manifest.bigram->perplexity, 30);
  EXPECT_THAT(out_.str(), HasSubstr("held_out"));
  EXPECT_EQ(talk_.str(), "");
  EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "corpus").ok());
}

TEST_F(DataCommands, SameInputSameBytes) {
  const std::string input = dir_.Write("a.jsonl", ManyDocuments(300));
  auto options = Prepare({input});
  options.train_tokenizer = 400;
  ASSERT_EQ(Run(options), absl::OkStatus());
  options.output = dir_ / "again";
  options.name = "corpus";
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(dir_.Read("corpus/manifest.json"), dir_.Read("again/manifest.json"));
  EXPECT_EQ(dir_.Read("corpus/tokenizer.model"), dir_.Read("again/tokenizer.model"));
}

TEST_F(DataCommands, SeveralInputsOfSeveralKinds) {
  const std::string lines = ManyDocuments(200);
  std::string packed(ZSTD_compressBound(lines.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), lines.data(), lines.size(), 3));
  std::string text;
  for (int i = 0; i < 4000; ++i) text += absl::StrCat("Line ", i, " of a plain text.\n");
  auto options = Prepare({dir_.Write("a.txt", text), dir_.Write("b.jsonl.zst", packed)});
  options.append_eot = false;
  options.shard_tokens = 20000;
  options.json = true;
  ASSERT_EQ(Run(options), absl::OkStatus());
  const CorpusManifest manifest = Manifest();
  EXPECT_GT(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.train.tokens + manifest.held_out.tokens,
            manifest.train.text_bytes + manifest.held_out.text_bytes);  // bytes, without ends of text
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["splits"]["train"]["tokens"], manifest.train.tokens);
  EXPECT_EQ(json["tokenizer"]["kind"], "bytes");
}

TEST_F(DataCommands, TrainedTokenizerThenGivenOne) {
  const std::string input = dir_.Write("a.jsonl", ManyDocuments(500));
  auto options = Prepare({input});
  options.train_tokenizer = 420;
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(Manifest().tokenizer.vocab_size, 420u);
  EXPECT_EQ(Manifest().tokenizer.eot_id, std::optional<uint32_t>(2));
  const std::string hash = Manifest().files[0].sha256.Hex();
  auto second = Prepare({input});
  second.output = dir_ / "second";
  second.tokenizer = dir_ / "corpus/tokenizer.model";
  ASSERT_TRUE(Run(second).ok());
  EXPECT_EQ(ReadManifest(*files_, dir_ / "second")->files[0].sha256.Hex(), hash);
}

// The error comes before hours of work.
TEST_F(DataCommands, AWrongNameIsRefusedBeforeAnyTextIsRead) {
  auto options = Prepare({dir_ / "absent.txt"});
  for (const std::string& name : {std::string("a b"), std::string(".hidden"), std::string(64, 'x')}) {
    options.name = name;
    EXPECT_THAT(Error(options), HasSubstr("--name is '" + name + "'; it must be 1 to 63 of A-Z a-z 0-9 . _ -"));
  }
}

// Bits per byte count the bytes of the text, whatever the tokenizer does; a tokenizer that loses
// text is reported.
TEST_F(DataCommands, LossyTokenizerIsReportedAndAllBytesCount) {
  const std::string texts[] = {"one  two   three", " begins with a space", "plain words only"};
  std::string lines;
  size_t bytes = 0;
  for (const std::string& text : texts) {
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
    bytes += text.size();
  }
  const std::string input = dir_.Write("spaces.jsonl", lines);
  auto train = Prepare({dir_.Write("a.jsonl", ManyDocuments(500))});
  train.train_tokenizer = 420;
  ASSERT_EQ(Run(train), absl::OkStatus());
  EXPECT_EQ(talk_.str(), "") << "a model of our own keeps all text";
  std::string model = dir_.Read("corpus/tokenizer.model");

  auto options = Prepare({input});
  options.output = dir_ / "kept";
  options.held_out = 0;
  options.tokenizer = dir_.Write("keeps.model", model);
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(talk_.str(), "");
  EXPECT_EQ(ReadManifest(*files_, dir_ / "kept")->train.text_bytes, bytes);

  const std::string keeps("\x18\x00\x20\x00\x28\x01", 6), trims("\x18\x00\x20\x01\x28\x01", 6);
  const size_t at = model.find(keeps, model.find("identity"));
  ASSERT_NE(at, std::string::npos);
  model.replace(at, keeps.size(), trims);  // remove_extra_whitespaces
  options.output = dir_ / "lost";
  options.tokenizer = dir_.Write("trims.model", model);
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_THAT(
      talk_.str(),
      HasSubstr(
          "the tokenizer does not preserve all of the text: 2 of 3 documents differ after encoding and decoding"));
  EXPECT_EQ(ReadManifest(*files_, dir_ / "lost")->train.text_bytes, bytes);
  EXPECT_LT(ReadManifest(*files_, dir_ / "lost")->train.tokens, ReadManifest(*files_, dir_ / "kept")->train.tokens);
}

TEST_F(DataCommands, ProgressGoesToTalk) {
  auto options = Prepare({dir_.Write("a.jsonl", ManyDocuments(20000))});
  options.quiet = false;
  ASSERT_EQ(Run(options), absl::OkStatus());
  const CorpusManifest manifest = Manifest();
  const uint64_t tokens = manifest.train.tokens + manifest.held_out.tokens - manifest.train.documents -
                          manifest.held_out.documents;  // without ends of text
  EXPECT_THAT(talk_.str(), HasSubstr("tokenizing: 100 %, " + HumanCount(tokens) + " tokens\n"));
  EXPECT_THAT(talk_.str(), Not(HasSubstr("\r")));
  options.force = true;
  options.talk_is_terminal = true;
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_THAT(talk_.str(), HasSubstr("\r\033[Ktokenizing [####"));
}

TEST_F(DataCommands, InspectShowsFiguresAndText) {
  ASSERT_TRUE(Run(Prepare({dir_.Write("a.jsonl", ManyDocuments(500))})).ok());
  DataInspectOptions options;
  options.directory = dir_ / "corpus";
  out_.str("");
  ASSERT_TRUE(RunDataInspect(options, *files_, out_, talk_).ok());
  EXPECT_THAT(out_.str(), HasSubstr("train begins:\nDocument "));
  EXPECT_THAT(out_.str(), HasSubstr("BYTES/TOKEN"));
  out_.str("");
  options.json = true;
  ASSERT_TRUE(RunDataInspect(options, *files_, out_, talk_).ok());
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_THAT(json["splits"]["held_out"]["sample"].get<std::string>(), HasSubstr("Document "));
  EXPECT_GT(json["bigram"]["perplexity"], 1.0);
  options.directory = dir_.path();
  EXPECT_EQ(RunDataInspect(options, *files_, out_, talk_).code(), absl::StatusCode::kNotFound);
}

TEST_F(DataCommands, VerifySaysWholeOrNamesTheBlock) {
  ASSERT_TRUE(Run(Prepare({dir_.Write("a.jsonl", ManyDocuments(500))})).ok());
  DataVerifyOptions options;
  options.directory = dir_ / "corpus";
  options.quiet = true;
  out_.str("");
  ASSERT_TRUE(RunDataVerify(options, *files_, out_, talk_).ok());
  EXPECT_THAT(out_.str(), HasSubstr("is complete: 2 shards, 2 blocks"));
  std::string bytes = dir_.Read("corpus/held_out-00000.bin");
  bytes.back() = 'X';
  dir_.Write("corpus/held_out-00000.bin", bytes);
  out_.str("");
  const absl::Status status = RunDataVerify(options, *files_, out_, talk_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("held_out-00000.bin is damaged: block 0"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(DataCommands, VerifyNamesEveryFaultyFileWithOneCode) {
  auto prepare = Prepare({dir_.Write("a.jsonl", ManyDocuments(500))});
  prepare.shard_tokens = 5000;
  ASSERT_TRUE(Run(prepare).ok());
  DataVerifyOptions options;
  options.directory = dir_ / "corpus";
  options.quiet = true;
  ASSERT_TRUE(files_->Remove(dir_ / "corpus/train-00001.bin").ok());
  EXPECT_EQ(RunDataVerify(options, *files_, out_, talk_).code(), absl::StatusCode::kDataLoss) << "missing";
  for (const char* name : {"corpus/train-00000.bin", "corpus/held_out-00000.bin"}) {
    std::string bytes = dir_.Read(name);
    bytes.back() = 'X';
    dir_.Write(name, bytes);
  }
  talk_.str("");
  const absl::Status status = RunDataVerify(options, *files_, out_, talk_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              StartsWith((dir_ / "corpus") + " has 3 faulty files; copy the corpus again"));
  EXPECT_THAT(talk_.str(), HasSubstr("train-00000.bin is damaged: block 0"));
  EXPECT_THAT(talk_.str(), HasSubstr("train-00001.bin: No such file"));
  EXPECT_THAT(talk_.str(), HasSubstr("held_out-00000.bin is damaged: block 0"));
}

TEST_F(DataCommands, PrepareSaysWhereTheCorpusIsLookedFor) {
  auto options = Prepare({dir_.Write("a.jsonl", ManyDocuments(50))});
  ASSERT_TRUE(Run(options).ok());
  EXPECT_THAT(talk_.str(), Not(HasSubstr("--data-root")));
  options.name = "wiki";
  options.force = true;
  ASSERT_TRUE(Run(options).ok());
  EXPECT_THAT(talk_.str(),
              HasSubstr("look for this corpus as wiki below their --data-root; this directory is named corpus\n"));
}

TEST_F(DataCommands, FoldersBeyondAsciiGiveNamesThatDiffer) {
  std::set<std::string> names;
  for (const char* folder : {"дата", "тест"}) {
    auto options = Prepare({dir_.Write("a.jsonl", ManyDocuments(50))});
    options.output = dir_ / folder;
    ASSERT_TRUE(Run(options).ok());
    const auto manifest = nlohmann::json::parse(dir_.Read(std::string(folder) + "/manifest.json"));
    names.insert(manifest["name"].get<std::string>());
    EXPECT_THAT(*names.rbegin(), StartsWith("corpus-"));
  }
  EXPECT_EQ(names.size(), 2u);
}

TEST_F(DataCommands, TooLittleTextForATokenizerIsNoWrongUse) {
  auto options = Prepare({dir_.Write("empty.jsonl", "")});
  options.train_tokenizer = 300;
  EXPECT_EQ(Run(options).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DataCommands, BadInputIsOneClearSentence) {
  const std::string good = ManyDocuments(50);
  EXPECT_THAT(Error(Prepare({})), HasSubstr("no input; give one or more"));
  EXPECT_THAT(Error(Prepare({dir_ / "absent.jsonl"})), HasSubstr("absent.jsonl"));
  EXPECT_THAT(Error(Prepare({dir_.Write("a.csv", "x")})), HasSubstr("has an unknown extension"));
  EXPECT_THAT(Error(Prepare({dir_.Write("bad.jsonl", good + "{oops\n")})),
              HasSubstr("bad.jsonl, line 51: is not valid JSON"));
  EXPECT_THAT(Error(Prepare({dir_.Write("utf.txt", "ab\xff")})),
              HasSubstr("utf.txt, line 1: byte 3 is not valid UTF-8"));
  EXPECT_THAT(Error(Prepare({dir_.Write("empty.jsonl", "")})), HasSubstr("no text to train on"));
  EXPECT_THAT(Error(Prepare({dir_.Write("cut.jsonl.zst", "\x28\xb5\x2f\xfd")})), HasSubstr("the file is incomplete"));
  auto options = Prepare({dir_.Write("g.jsonl", good)});
  options.held_out = 1;
  EXPECT_THAT(Error(options), HasSubstr("--held-out is '1'; it must be at least 0 and below 1"));
  options = Prepare({dir_ / "g.jsonl"});
  options.text_split = "words";
  EXPECT_THAT(Error(options), HasSubstr("--text-split is \"words\""));
  options = Prepare({dir_ / "g.jsonl"});
  options.train_tokenizer = 50000;
  EXPECT_THAT(Error(options), HasSubstr("too small for a vocabulary of 50000"));
  options.tokenizer = "bytes";
  EXPECT_THAT(Error(options), HasSubstr("cannot be combined"));
  options = Prepare({dir_ / "g.jsonl"});
  options.tokenizer = dir_ / "g.jsonl";
  EXPECT_THAT(Error(options), HasSubstr("g.jsonl: the SentencePiece model cannot be parsed"));
  options = Prepare({dir_ / "g.jsonl"});
  options.held_out = 0.0001;
  EXPECT_THAT(Error(options), HasSubstr("raise --held-out"));
  options = Prepare({dir_ / "g.jsonl"});
  options.output = dir_.path();
  EXPECT_THAT(Error(options), HasSubstr("is not empty"));
  EXPECT_FALSE(files_->Exists(dir_ / "corpus")) << "no failure leaves a directory";
}

TEST_F(DataCommands, BadDocumentsAreLeftOutAndCounted) {
  std::string lines = ManyDocuments(50);
  for (int i = 0; i < 7; ++i) lines += "{\"text\": oops}\n";
  lines += "{\"text\": \"half \\ud83d\"}\n";
  auto options = Prepare({dir_.Write("a.jsonl", lines)});
  EXPECT_THAT(Error(options), HasSubstr("(--skip-bad skips bad documents and counts them)"));
  options.skip_bad = true;
  options.train_tokenizer = 300;
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(Manifest().train.documents + Manifest().held_out.documents, 51u);
  EXPECT_THAT(out_.str(), HasSubstr("skipped: 7 bad documents"));
  EXPECT_THAT(talk_.str(), HasSubstr("skipped: " + dir_.path() + "/a.jsonl, line 51: is not valid JSON at column 10"));
  EXPECT_THAT(talk_.str(), HasSubstr("further documents are counted only"));
  EXPECT_THAT(talk_.str(), HasSubstr("1 document had half of a surrogate pair"));
  options.force = true;
  options.json = true;
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(nlohmann::json::parse(out_.str())["left_out_documents"], 7);
}

TEST_F(DataCommands, SkippingBadDocumentsDropsNoFileOfAnUnsupportedKind) {
  const std::string good = dir_.Write("good.jsonl", ManyDocuments(50));
  const std::string dictionary("\x28\xb5\x2f\xfd\x01\x58\x07\x01\0\0", 10);
  const std::string window("\x28\xb5\x2f\xfd\0\xa8\x01\0\0", 9);  // 2^31 bytes
  const std::string plain_first("\x28\xb5\x2f\xfd\x20\0\x01\0\0", 9);
  const std::string xz("\xfd\x37zXZ\0rest", 10);
  for (const std::string& unsupported : {dictionary, window, plain_first + window, xz}) {
    auto options = Prepare({good, dir_.Write("other.jsonl.zst", unsupported)});
    for (const bool skip : {false, true}) {
      options.skip_bad = skip;
      const absl::Status refused = Run(options);
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
      EXPECT_THAT(std::string(refused.message()),
                  AllOf(HasSubstr("other.jsonl.zst"), HasSubstr("not supported"), Not(HasSubstr("--skip-bad"))));
      EXPECT_FALSE(files_->Exists(dir_ / "corpus"));
    }
  }
  auto options = Prepare({good, dir_.Write("cut.jsonl.zst", dictionary.substr(0, 4))});
  EXPECT_THAT(Error(options), HasSubstr("the file is incomplete"));
  options.skip_bad = true;
  ASSERT_EQ(Run(options), absl::OkStatus()) << "damage is no other kind";
  EXPECT_THAT(out_.str(), HasSubstr("skipped: 1 bad document"));
}

TEST_F(DataCommands, PipesAreReadOnce) {
  const std::string text = ManyDocuments(200);
  const auto pipe = [&](Descriptor& end) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    end = Descriptor(ends[0]);
    return absl::StrCat("/proc/self/fd/", ends[0]);
  };
  Descriptor first, second;
  auto options = Prepare({dir_.Write("a.jsonl", text), pipe(first)});
  EXPECT_THAT(Error(options), HasSubstr("is a pipe, so its format is unknown"));
  options.format = "jsonl";
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_EQ(Manifest().train.documents + Manifest().held_out.documents, 400u);
  options = Prepare({pipe(second)});
  options.format = "jsonl";
  options.train_tokenizer = 300;
  EXPECT_THAT(Error(options), HasSubstr("is a pipe, and --train-tokenizer reads its input twice"));
  options.format = "csv";
  EXPECT_THAT(Error(options), HasSubstr("--format is \"csv\""));
  EXPECT_THAT(Error(Prepare({dir_.path()})), HasSubstr("Is a directory"));
}

TEST_F(DataCommands, TrainingATokenizerShowsProgress) {
  auto options = Prepare({dir_.Write("a.jsonl", ManyDocuments(500))});
  options.quiet = false;
  options.train_tokenizer = 400;
  ASSERT_EQ(Run(options), absl::OkStatus());
  EXPECT_THAT(talk_.str(), HasSubstr("building the vocabulary: 0 %\n"));
  EXPECT_THAT(talk_.str(), HasSubstr("building the vocabulary: 100 %\n"));
}

TEST(ProgressLine, WithoutAnEndShowsDoublings) {
  std::ostringstream talk;
  ProgressLine progress(talk, "tokenizing", false, false);
  for (uint64_t mib = 1; mib <= 100; ++mib) progress.UpdateWithoutEnd(mib << 20, "note");
  EXPECT_EQ(talk.str(), "tokenizing: 16.8 MB, note\ntokenizing: 33.6 MB, note\ntokenizing: 67.1 MB, note\n");
}

TEST_F(DataCommands, AFullDiskLosesNothingAndLeavesNothing) {
  auto options = Prepare({dir_.Write("a.jsonl", ManyDocuments(2000))});
  ASSERT_EQ(Run(options), absl::OkStatus());
  const std::string before = dir_.Read("corpus/manifest.json");
  options.force = true;
  options.split_seed = 9;
  for (const uint64_t free_bytes : {uint64_t{0}, uint64_t{50000}, uint64_t{150000}, uint64_t{250000}}) {
    SmallDisk disk(free_bytes);
    const absl::Status status = RunDataPrepare(options, disk, out_, talk_);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << free_bytes << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    EXPECT_EQ(dir_.Read("corpus/manifest.json"), before);
    EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "corpus").ok());
    EXPECT_EQ(files_->List(dir_ / "corpus")->size(), 3u);
  }
}

}  // namespace
}  // namespace atl::cli
