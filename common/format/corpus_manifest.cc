// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_manifest.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/format/json_object.h"
#include "common/plan/data_order.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr size_t kDepth = 6;

bool IsPlainName(const std::string& name, size_t longest) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= longest && name[0] != '.' && std::all_of(name.begin(), name.end(), allowed);
}

json::Ordered TotalsJson(const CorpusTotals& totals) {
  return {{"documents", totals.documents}, {"tokens", totals.tokens}, {"text_bytes", totals.text_bytes}};
}

json::Ordered TokenizerJson(const CorpusTokenizer& tokenizer) {
  json::Ordered out = {{"kind", tokenizer.kind}};
  if (!tokenizer.file.empty()) {
    out["file"] = tokenizer.file;
    out["sha256"] = tokenizer.sha256.Hex();
  }
  out["vocab_size"] = tokenizer.vocab_size;
  if (tokenizer.eot_id.has_value()) out["eot_id"] = *tokenizer.eot_id;
  return out;
}

json::Ordered FileJson(const CorpusFile& file) {
  json::Ordered blocks = json::Ordered::array();
  for (const Sha256& block : file.blocks) blocks.push_back(block.Hex());
  return {
      {"name", file.name},     {"split", SplitName(file.split)}, {"bytes", file.bytes}, {"sha256", file.sha256.Hex()},
      {"tokens", file.tokens}, {"documents", file.documents},    {"blocks", blocks}};
}

CorpusTotals ReadTotals(json::Reader reader) {
  reader.Only({"documents", "tokens", "text_bytes"});
  return CorpusTotals{reader.Unsigned("documents"), reader.Unsigned("tokens"), reader.Unsigned("text_bytes")};
}

CorpusTokenizer ReadTokenizer(json::Reader reader) {
  reader.Only({"kind", "file", "sha256", "vocab_size", "eot_id"});
  CorpusTokenizer tokenizer;
  tokenizer.kind = reader.String("kind");
  if (tokenizer.kind != "bytes" && tokenizer.kind != "sentencepiece") {
    reader.Fail("kind", absl::StrCat("is \"", tokenizer.kind, "\"; bytes and sentencepiece are known"));
  }
  if (tokenizer.kind == "sentencepiece") {
    tokenizer.file = reader.String("file");
    tokenizer.sha256 = reader.Hash("sha256");
    if (!IsPlainName(tokenizer.file, 255)) reader.Fail("file", "must be a plain file name");
  }
  tokenizer.vocab_size = static_cast<uint32_t>(reader.Unsigned("vocab_size", INT32_MAX));
  if (tokenizer.vocab_size == 0) reader.Fail("vocab_size", "must not be 0");
  if (reader.Has("eot_id")) {
    tokenizer.eot_id = static_cast<uint32_t>(reader.Unsigned("eot_id", INT32_MAX));
    if (*tokenizer.eot_id >= tokenizer.vocab_size) reader.Fail("eot_id", "must be below vocab_size");
  }
  return tokenizer;
}

std::optional<BigramBaseline> ReadBigram(json::Reader& parent) {
  if (!parent.Has("bigram")) return std::nullopt;
  json::Reader reader = parent.Object("bigram");
  reader.Only({"perplexity", "bits_per_byte", "train_tokens", "scored_tokens"});
  const BigramBaseline bigram{reader.Number("perplexity"), reader.Number("bits_per_byte"),
                              reader.Unsigned("train_tokens"), reader.Unsigned("scored_tokens")};
  if (!std::isfinite(bigram.perplexity) || bigram.perplexity < 1) reader.Fail("perplexity", "must be at least 1");
  if (!std::isfinite(bigram.bits_per_byte) || bigram.bits_per_byte < 0)
    reader.Fail("bits_per_byte", "must not be negative");
  return bigram;
}

void ReadBlocks(json::Reader& reader, CorpusFile& file, TokenType type) {
  const uint64_t area_bytes = file.tokens * TokenBytes(type);
  const uint64_t expected = (area_bytes + kBlockBytes - 1) / kBlockBytes;
  const json::Value& blocks = reader.Array("blocks", limits::kManifestBytes / 64);
  if (reader.ok() && blocks.size() != expected) {
    reader.Fail("blocks",
                absl::StrCat("has ", blocks.size(), " hashes where ", file.tokens, " tokens need ", expected));
    return;
  }
  for (const auto& block : blocks) {
    Sha256 hash;
    if (!block.is_string() || !Sha256::FromHex(block.get<std::string>(), hash)) {
      reader.Fail("blocks", "must be strings of 64 hexadecimal digits");
      return;
    }
    file.blocks.push_back(hash);
  }
}

CorpusFile ReadFile(json::Reader reader, TokenType type) {
  reader.Only({"name", "split", "bytes", "sha256", "tokens", "documents", "blocks"});
  CorpusFile file;
  file.name = reader.String("name");
  if (!IsPlainName(file.name, 255)) reader.Fail("name", absl::StrCat("\"", file.name, "\" must be a plain file name"));
  const std::string split = reader.String("split");
  file.split = split == SplitName(CorpusSplit::kTrain) ? CorpusSplit::kTrain : CorpusSplit::kHeldOut;
  if (split != SplitName(file.split)) reader.Fail("split", "must be train or held_out");
  file.bytes = reader.Unsigned("bytes");
  file.sha256 = reader.Hash("sha256");
  file.tokens = reader.Unsigned("tokens", kShardTokens);
  file.documents = reader.Unsigned("documents");
  if (file.bytes != kShardHeaderBytes + file.tokens * TokenBytes(type)) {
    reader.Fail("bytes", absl::StrCat("is ", file.bytes, ", which does not fit ", file.tokens, " tokens"));
  }
  ReadBlocks(reader, file, type);
  return file;
}

void ReadFiles(json::Reader& reader, CorpusManifest& manifest) {
  absl::Status status;
  for (const auto& value : reader.Array("files", kCorpusFiles)) {
    if (!reader.ok()) return;
    const std::string path = absl::StrCat("files[", manifest.files.size(), "]");
    json::Reader file(value, path, status);
    manifest.files.push_back(ReadFile(file, manifest.token_type));
    if (!status.ok()) {
      reader.Fail("files", absl::StrCat("is wrong: ", status.message()));
      return;
    }
  }
}

// Rules across fields: names differ, splits are in order, sums equal the totals.
void CheckFiles(json::Reader& reader, const CorpusManifest& manifest) {
  std::set<std::string> names;
  CorpusTotals sums[2];
  bool held_out = false;
  for (const CorpusFile& file : manifest.files) {
    if (!names.insert(file.name).second) reader.Fail("files", absl::StrCat("names ", file.name, " twice"));
    if (held_out && file.split == CorpusSplit::kTrain) reader.Fail("files", "must list train before held_out");
    held_out |= file.split == CorpusSplit::kHeldOut;
    CorpusTotals& sum = sums[file.split == CorpusSplit::kTrain ? 0 : 1];
    sum.tokens += file.tokens;
    sum.documents += file.documents;
  }
  for (const CorpusSplit split : {CorpusSplit::kTrain, CorpusSplit::kHeldOut}) {
    const CorpusTotals& sum = sums[split == CorpusSplit::kTrain ? 0 : 1];
    const CorpusTotals& total = manifest.Totals(split);
    if (sum.tokens != total.tokens || sum.documents != total.documents) {
      reader.Fail(SplitName(split),
                  absl::StrCat("has ", total.tokens, " tokens in ", total.documents,
                               " documents but its files add up to ", sum.tokens, " in ", sum.documents));
    }
  }
}

void ReadHead(json::Reader& reader, CorpusManifest& manifest) {
  manifest.name = reader.String("name");
  if (!IsPlainName(manifest.name, limits::kNameBytes)) reader.Fail("name", "must be 1 to 63 of A-Z a-z 0-9 . _ -");
  const std::string type = reader.String("token_type");
  manifest.token_type = type == "uint16" ? TokenType::kUint16 : TokenType::kUint32;
  if (type != TokenTypeName(manifest.token_type)) reader.Fail("token_type", "must be uint16 or uint32");
  if (reader.Unsigned("block_bytes") != kBlockBytes) reader.Fail("block_bytes", absl::StrCat("must be ", kBlockBytes));
  manifest.tokenizer = ReadTokenizer(reader.Object("tokenizer"));
  if (manifest.token_type == TokenType::kUint16 && manifest.tokenizer.vocab_size > 65536) {
    reader.Fail("token_type", "uint16 does not hold the vocabulary");
  }
  manifest.eot_appended = reader.Bool("eot_appended");
  if (manifest.eot_appended && !manifest.tokenizer.eot_id) reader.Fail("eot_appended", "needs tokenizer.eot_id");
  manifest.held_out_fraction = reader.Number("held_out_fraction");
  if (!(manifest.held_out_fraction >= 0 && manifest.held_out_fraction < 1)) {
    reader.Fail("held_out_fraction", "must be at least 0 and below 1");
  }
  manifest.split_seed = reader.Unsigned("split_seed", UINT64_MAX);
}

}  // namespace

std::string SplitName(CorpusSplit split) { return split == CorpusSplit::kTrain ? "train" : "held_out"; }

std::vector<const CorpusFile*> CorpusManifest::FilesOf(CorpusSplit split) const {
  std::vector<const CorpusFile*> out;
  for (const CorpusFile& file : files) {
    if (file.split == split) out.push_back(&file);
  }
  return out;
}

std::string SerializeManifest(const CorpusManifest& manifest) {
  json::Ordered root;
  root["format"] = "atoll-corpus";
  root["format_revision"] = manifest.format_revision;
  root["name"] = manifest.name;
  root["token_type"] = TokenTypeName(manifest.token_type);
  root["block_bytes"] = kBlockBytes;
  root["tokenizer"] = TokenizerJson(manifest.tokenizer);
  root["eot_appended"] = manifest.eot_appended;
  root["held_out_fraction"] = manifest.held_out_fraction;
  root["split_seed"] = manifest.split_seed;
  root["train"] = TotalsJson(manifest.train);
  root["held_out"] = TotalsJson(manifest.held_out);
  if (manifest.bigram.has_value()) {
    root["bigram"] = {{"perplexity", manifest.bigram->perplexity},
                      {"bits_per_byte", manifest.bigram->bits_per_byte},
                      {"train_tokens", manifest.bigram->train_tokens},
                      {"scored_tokens", manifest.bigram->scored_tokens}};
  }
  root["files"] = json::Ordered::array();
  for (const CorpusFile& file : manifest.files) root["files"].push_back(FileJson(file));
  return root.dump(2, ' ', false, json::Ordered::error_handler_t::replace) + "\n";
}

absl::StatusOr<CorpusManifest> ParseManifest(const std::string& text) {
  if (text.size() > limits::kManifestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the manifest has ", text.size(), " bytes, more than the limit of ", limits::kManifestBytes));
  }
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, kDepth));
  absl::Status status;
  json::Reader reader(root, "", status);
  if (reader.String("format") != "atoll-corpus") reader.Fail("format", "must be atoll-corpus");
  CorpusManifest manifest;
  manifest.format_revision = static_cast<uint32_t>(reader.Unsigned("format_revision", UINT32_MAX));
  if (manifest.format_revision != kCorpusFormatRevision) {
    reader.Fail("format_revision", absl::StrCat("is ", manifest.format_revision, "; this program reads revision ",
                                                kCorpusFormatRevision, ": prepare the corpus again"));
  }
  ATOLL_RETURN_IF_ERROR(status);
  reader.Only({"format", "format_revision", "name", "token_type", "block_bytes", "tokenizer", "eot_appended",
               "held_out_fraction", "split_seed", "train", "held_out", "bigram", "files"});
  ReadHead(reader, manifest);
  manifest.train = ReadTotals(reader.Object("train"));
  manifest.held_out = ReadTotals(reader.Object("held_out"));
  manifest.bigram = ReadBigram(reader);
  ReadFiles(reader, manifest);
  CheckFiles(reader, manifest);
  ATOLL_RETURN_IF_ERROR(status);
  return manifest;
}

absl::StatusOr<CorpusManifest> ReadManifest(const Files& files, const std::string& directory) {
  const std::string path = JoinPath(directory, kManifestName);
  if (!files.Exists(path)) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is not a corpus: it has no ", kManifestName, "; create one with atoll data prepare"));
  }
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, limits::kManifestBytes));
  auto manifest = ParseManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  return manifest;
}

absl::Status WriteManifest(Files& files, const std::string& directory, const CorpusManifest& manifest) {
  const std::string text = SerializeManifest(manifest);
  return WriteFileAtomically(files, JoinPath(directory, kManifestName), AsBytes(text));
}

}  // namespace atl
