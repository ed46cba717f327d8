// SPDX-License-Identifier: Apache-2.0
// Files supplied by users: weights, shards, manifests, model configurations, evaluation tasks.
#include <algorithm>
#include <cstring>
#include <memory>

#include "common/base/check.h"
#include "common/format/corpus_manifest.h"
#include "common/format/eval_task.h"
#include "common/format/huggingface.h"
#include "common/format/safetensors.h"
#include "common/format/token_shard.h"
#include "tests/fuzz/memory_content.h"
#include "tests/fuzz/targets.h"

namespace atl::fuzz {
namespace {

constexpr size_t kLooked = 64;  // most elements read, whatever size a file declares

void Safetensors(const std::string& input) {
  MemoryFiles files;
  Put(files, "x", input);
  const auto reader = SafetensorsReader::OpenFile(files, "x");
  if (!reader.ok()) return;
  for (const std::string& name : (*reader)->Names()) {
    const SafetensorsTensor* tensor = (*reader)->Find(name);
    ATOLL_CHECK(tensor != nullptr && tensor->size_bytes <= input.size(), "a tensor lies in its file");
    if (!tensor->other_dtype.empty()) {
      ATOLL_CHECK(!(*reader)->ReadElements(name, 0, {}, false).ok(), "what is not read is refused");
      continue;
    }
    std::vector<float> values(std::min<uint64_t>(tensor->elements, kLooked));
    const absl::Status read = (*reader)->ReadElements(name, tensor->elements - values.size(), values, false);
    ATOLL_CHECK(read.ok(), "what is declared is there");
    ATOLL_CHECK(
        !(*reader)->ReadElements(name, tensor->elements, std::span(values.data(), 1), false).ok() || values.empty(),
        "nothing beyond");
  }
}

void ReadEnds(const TokenShard& shard) {
  std::vector<uint32_t> ids(std::min<uint64_t>(shard.tokens(), kLooked));
  (void)shard.Read(0, ids);
  (void)shard.Read(shard.tokens() - ids.size(), ids);
  if (shard.tokens() > 0) {
    ids.resize(1);
    ATOLL_CHECK(absl::IsOutOfRange(shard.Read(shard.tokens(), ids)), "nothing beyond");
  }
}

void Shard(const std::string& input) {
  MemoryFiles files;
  Put(files, "s.bin", input);
  if (const auto shard = TokenShard::Open(files, "s.bin"); shard.ok()) {
    ATOLL_CHECK((*shard)->area_bytes() + kShardHeaderBytes == input.size(), "the header knows the length");
    ReadEnds(**shard);
  }
  for (const TokenType type : {TokenType::kUint16, TokenType::kUint32}) {
    if (const auto raw = TokenShard::OpenRaw(files, "s.bin", type); raw.ok()) ReadEnds(**raw);
  }
}

// The first two bytes give the size of the index; the tokens follow it.
void Megatron(const std::string& input) {
  if (input.size() < 2) return;
  const std::string rest = input.substr(2);
  const size_t cut =
      std::min<size_t>(static_cast<unsigned char>(input[0]) * 256u + static_cast<unsigned char>(input[1]), rest.size());
  MemoryFiles files;
  Put(files, "m.idx", rest.substr(0, cut));
  Put(files, "m.bin", rest.substr(cut));
  const auto shard = TokenShard::OpenMegatron(files, "m");
  if (!shard.ok()) return;
  const std::vector<uint64_t>& starts = (*shard)->document_starts();
  ATOLL_CHECK(std::is_sorted(starts.begin(), starts.end()), "documents come one after the other");
  ATOLL_CHECK(starts.empty() || starts.back() <= (*shard)->tokens(), "and lie in the shard");
  ReadEnds(**shard);
}

std::string MegatronSeed() {
  std::string index = std::string("MMIDIDX\0\0", 9);
  const auto number = [&index](auto value) { index.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  number(uint64_t{1});
  number(uint8_t{8});
  number(uint64_t{2});
  number(uint64_t{3});
  for (const int32_t length : {2, 3}) number(length);
  for (const int64_t offset : {0, 4}) number(offset);
  for (const int64_t document : {0, 1, 2}) number(document);
  std::string seed = {static_cast<char>(index.size() / 256), static_cast<char>(index.size() % 256)};
  return seed + index + std::string(10, '\1');
}

void Manifest(const std::string& input) {
  const auto manifest = ParseManifest(input);
  if (!manifest.ok()) return;
  const std::string written = SerializeManifest(*manifest);
  const auto back = ParseManifest(written);
  ATOLL_CHECK(back.ok() && SerializeManifest(*back) == written, "a manifest comes back the same");
}

CorpusManifest SmallManifest() {
  CorpusManifest manifest;
  manifest.name = "tales";
  manifest.tokenizer = {"bytes", "", {}, 257, 256};
  manifest.train = {1, 100, 99};
  CorpusFile file;
  file.name = "train-00000.bin";
  file.bytes = kShardHeaderBytes + 200;
  file.tokens = 100;
  file.documents = 1;
  file.sha256 = file.blocks.emplace_back(Sha256Of(AsBytes(std::string("x"))));
  manifest.files.push_back(file);
  return manifest;
}

std::string SafetensorsSeed() {
  MemoryFiles files;
  auto writer = SafetensorsWriter::Create(files, "x", {{"a", NumberType::kF32, {2, 3}}, {"b", NumberType::kBF16, {}}});
  ATOLL_CHECK(writer.ok(), "a seed is valid");
  const std::vector<float> values(7, 1.5f);
  ATOLL_CHECK((*writer)->Append(values).ok() && (*writer)->Finish().ok(), "a seed is valid");
  return Get(files, "x");
}

std::string ShardSeed(TokenType type) {
  MemoryFiles files;
  auto writer = TokenShardWriter::Create(files, "s.bin", type);
  const std::vector<uint32_t> ids = {1, 2, 3, 4, 5};
  ATOLL_CHECK(writer.ok() && (*writer)->Append(ids).ok() && (*writer)->Finish().ok(), "a seed is valid");
  return Get(files, "s.bin");
}

HuggingFaceConfig SmallConfig() {
  HuggingFaceConfig config;
  config.model.vocab_size = 256;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 128;
  config.model.kv_heads = 2;
  config.model.head_dim = 16;
  return config;
}

void Config(const std::string& input) {
  const auto config = ParseHuggingFaceConfig(input);
  if (!config.ok()) return;
  const auto back = ParseHuggingFaceConfig(HuggingFaceConfigJson(*config));
  ATOLL_CHECK(back.ok(), "what was read can be written and read");
}

}  // namespace

std::vector<Target> FormatTargets() {
  const std::string header_only = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string small(8, '\0');
  small[0] = static_cast<char>(header_only.size());
  return {
      {"safetensors", Safetensors, {small + header_only + std::string(8, 'x'), SafetensorsSeed()}},
      {"safetensors_header",
       [](const std::string& input) { (void)ParseSafetensorsHeader(input, 8); },
       {header_only, R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})"}},
      {"token_shard", Shard, {ShardSeed(TokenType::kUint16), ShardSeed(TokenType::kUint32)}},
      {"megatron_shard", Megatron, {MegatronSeed()}},
      {"corpus_manifest", Manifest, {SerializeManifest(SmallManifest())}},
      {"huggingface_config", Config, {HuggingFaceConfigJson(SmallConfig())}},
      {"eval_task",
       [](const std::string& input) {
         const auto task = ParseEvalTask(input);
         if (!task.ok()) return;
         for (const EvalExample& example : task->examples) {
           ATOLL_CHECK(example.choices.size() >= 2 && example.label < example.choices.size(), "a label is a choice's");
         }
       },
       {"{\"sentence_good\": \"a b\", \"sentence_bad\": \"b a\"}\n",
        "{\"ctx\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": 1}\n"}},
  };
}

}  // namespace atl::fuzz
