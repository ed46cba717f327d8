// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_writer.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/format/bigram.h"

namespace atl {
namespace {

constexpr char kNew[] = ".new";

absl::Status CheckOptions(const CorpusWriterOptions& options) {
  if (!(options.held_out_fraction >= 0 && options.held_out_fraction < 1)) {
    return absl::InvalidArgumentError("the held-out fraction must be at least 0 and below 1");
  }
  if (options.shard_tokens == 0 || options.shard_tokens > kShardTokens) {
    return absl::InvalidArgumentError(absl::StrCat("a shard must have 1 to ", kShardTokens, " tokens"));
  }
  if (options.append_eot && !options.tokenizer.eot_id.has_value()) {
    return absl::InvalidArgumentError("the tokenizer has no end-of-text token to append; prepare with --no-eot");
  }
  return absl::OkStatus();
}

// True for a leftover of a killed run, which the next run removes.
bool IsLeftover(const std::string& name) {
  const bool ours = name.rfind("train-", 0) == 0 || name.rfind("held_out-", 0) == 0 || name.rfind("tokenizer.", 0) == 0;
  const size_t at = name.find(kNew);
  if (!ours || at == std::string::npos) return false;
  const std::string rest = name.substr(at);
  return rest == kNew || rest == ".new.area" || rest == ".new.tmp";
}

// Removes leftovers, then names the files of a previous corpus. AlreadyExists: files, but no corpus or no `replace`.
absl::StatusOr<std::vector<std::string>> EarlierFiles(Files& files, const std::string& directory, bool replace) {
  ATOLL_ASSIGN_OR_RETURN(std::vector<std::string> present, files.List(directory));
  for (const std::string& name : present) {
    if (IsLeftover(name)) ATOLL_RETURN_IF_ERROR(files.Remove(JoinPath(directory, name)));
  }
  std::erase_if(present, IsLeftover);
  if (present.empty()) return std::vector<std::string>();
  if (!replace) {
    return absl::AlreadyExistsError(
        absl::StrCat(directory, " is not empty; choose another directory, or replace an earlier corpus with --force"));
  }
  const auto manifest = ReadManifest(files, directory);
  if (!manifest.ok()) {
    return absl::AlreadyExistsError(absl::StrCat(
        directory,
        " contains other files and no readable corpus, so --force does not delete it; choose another directory"));
  }
  std::vector<std::string> names = {kManifestName};
  for (const CorpusFile& file : manifest->files) names.push_back(file.name);
  if (!manifest->tokenizer.file.empty()) names.push_back(manifest->tokenizer.file);
  return names;
}

}  // namespace

CorpusSplit SplitOf(Bytes document, double held_out_fraction, uint64_t seed) {
  const Digest digest = DigestOf(document);
  const auto words = Philox(StreamKey(seed, "held-out"), digest.low, digest.high);
  const double uniform = static_cast<double>(uint64_t{words[0]} << 21 ^ words[1] >> 11) * 0x1p-53;
  return uniform < held_out_fraction ? CorpusSplit::kHeldOut : CorpusSplit::kTrain;
}

CorpusWriter::CorpusWriter(Files& files, std::string directory, CorpusWriterOptions options)
    : files_(files),
      directory_(std::move(directory)),
      options_(std::move(options)),
      type_(TokenTypeFor(options_.tokenizer.vocab_size)) {}

absl::StatusOr<std::unique_ptr<CorpusWriter>> CorpusWriter::Create(Files& files, std::string directory,
                                                                   CorpusWriterOptions options) {
  ATOLL_RETURN_IF_ERROR(CheckOptions(options));
  ATOLL_ASSIGN_OR_RETURN(auto earlier, EarlierFiles(files, directory, options.replace));
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(directory));
  std::unique_ptr<CorpusWriter> writer(new CorpusWriter(files, std::move(directory), std::move(options)));
  writer->earlier_ = std::move(earlier);
  return writer;
}

CorpusWriter::~CorpusWriter() {
  for (SplitState& split : splits_) split.shard.reset();
  // Errors are ignored: leftovers do no harm, because readers recognise a corpus by its manifest.
  for (const std::string& name : unpublished_) files_.Remove(JoinPath(directory_, name + kNew)).IgnoreError();
}

absl::Status CorpusWriter::Add(CorpusSplit split, std::span<const uint32_t> ids, uint64_t text_bytes) {
  SplitState& state = State(split);
  if (state.shard == nullptr) {
    if (splits_[0].files.size() + splits_[1].files.size() >= kCorpusFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat("the corpus needs more than ", kCorpusFiles, " shards; make them larger with --shard-tokens"));
    }
    const std::string name = absl::StrFormat("%s-%05d.bin", SplitName(split), state.files.size());
    unpublished_.push_back(name);
    CorpusFile& file = state.files.emplace_back();
    file.name = name;
    file.split = split;
    ATOLL_ASSIGN_OR_RETURN(state.shard, TokenShardWriter::Create(files_, JoinPath(directory_, name + kNew), type_));
  }
  ATOLL_RETURN_IF_ERROR(state.shard->Append(ids));
  if (options_.append_eot) ATOLL_RETURN_IF_ERROR(state.shard->Append(std::span(&*options_.tokenizer.eot_id, 1)));
  ++state.files.back().documents;
  ++state.totals.documents;
  state.totals.tokens += ids.size() + (options_.append_eot ? 1 : 0);
  state.totals.text_bytes += text_bytes;
  return state.shard->tokens() >= options_.shard_tokens ? CloseShard(split) : absl::OkStatus();
}

absl::Status CorpusWriter::CloseShard(CorpusSplit split) {
  SplitState& state = State(split);
  if (state.shard == nullptr) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(auto result, state.shard->Finish());
  state.shard.reset();
  CorpusFile& file = state.files.back();
  file.bytes = result.file_bytes;
  file.sha256 = result.sha256;
  file.tokens = result.tokens;
  file.blocks = std::move(result.blocks);
  return absl::OkStatus();
}

absl::StatusOr<CorpusManifest> CorpusWriter::Finish() {
  for (const CorpusSplit split : {CorpusSplit::kTrain, CorpusSplit::kHeldOut}) ATOLL_RETURN_IF_ERROR(CloseShard(split));
  if (splits_[0].totals.tokens == 0) return absl::FailedPreconditionError("the input contains no text to train on");
  if (options_.held_out_fraction > 0 && splits_[1].totals.tokens == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("none of the ", splits_[0].totals.documents,
                     " documents was drawn for the held-out split; raise --held-out, change --split-seed, give more "
                     "text, or disable the split with --held-out 0"));
  }
  CorpusManifest manifest;
  manifest.name = options_.name;
  manifest.token_type = type_;
  manifest.tokenizer = options_.tokenizer;
  manifest.eot_appended = options_.append_eot;
  manifest.held_out_fraction = options_.held_out_fraction;
  manifest.split_seed = options_.split_seed;
  manifest.train = splits_[0].totals;
  manifest.held_out = splits_[1].totals;
  for (SplitState& state : splits_) {
    for (CorpusFile& file : state.files) manifest.files.push_back(file);
  }
  ATOLL_RETURN_IF_ERROR(Publish(manifest));
  return manifest;
}

absl::Status CorpusWriter::Publish(CorpusManifest& manifest) {
  if (!options_.tokenizer_bytes.empty()) {
    manifest.tokenizer.sha256 = Sha256Of(AsBytes(options_.tokenizer_bytes));
    unpublished_.push_back(manifest.tokenizer.file);
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files_, JoinPath(directory_, manifest.tokenizer.file + kNew),
                                              AsBytes(options_.tokenizer_bytes)));
  }
  if (manifest.held_out.tokens > 1) {
    CorpusManifest unnamed = manifest;  // the shards still have their temporary names
    for (CorpusFile& file : unnamed.files) file.name += kNew;
    ATOLL_ASSIGN_OR_RETURN(manifest.bigram, MeasureBigram(files_, directory_, unnamed));
  }
  ATOLL_RETURN_IF_ERROR(ParseManifest(SerializeManifest(manifest)).status());
  // From here on the previous corpus is gone. Its manifest is removed first, so that a mixture is
  // never taken for a corpus.
  for (const std::string& name : earlier_) {
    ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(directory_, name)));
    if (name == kManifestName) ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(directory_));
  }
  for (const std::string& name : unpublished_) {
    ATOLL_RETURN_IF_ERROR(files_.Rename(JoinPath(directory_, name + kNew), JoinPath(directory_, name)));
  }
  unpublished_.clear();
  ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(directory_));
  return WriteManifest(files_, directory_, manifest);
}

}  // namespace atl
