// SPDX-License-Identifier: Apache-2.0
#include "common/text/huggingface_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/python_json.h"
#include "common/base/utf8.h"
#include "common/text/sentencepiece_model.h"

namespace atl {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kEotText[] = "<|endoftext|>";

std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json AddedToken(uint32_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Returns the frame of a tokenizer.json, without truncation, padding or added tokens.
Json TokenizerJson() {
  Json root;
  root["version"] = "1.0";
  root["truncation"] = nullptr;
  root["padding"] = nullptr;
  root["added_tokens"] = Json::array();
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = nullptr;
  root["post_processor"] = nullptr;
  root["decoder"] = nullptr;
  return root;
}

// GPT-2's printable substitutes of bytes, as used by the ByteLevel pre-tokenizer: a printable byte
// is itself, others are the next code point from U+0100 on.
std::vector<std::string> ByteLevelAlphabet() {
  std::vector<std::string> out(256);
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    AppendUtf8(prints ? byte : next++, out[byte]);
  }
  return out;
}

// Adds tokenizer_config.json and special_tokens_map.json. `specials`: role ("eos_token") -> text. With these
// settings, text that looks like a special token stays text, as in Atoll's tokenizers.
void AddConfigFiles(const std::vector<std::pair<std::string, std::string>>& specials,
                    std::map<std::string, std::string>& files) {
  Json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["add_bos_token"] = false;
  config["add_eos_token"] = false;
  config["clean_up_tokenization_spaces"] = false;
  config["split_special_tokens"] = true;
  config["model_max_length"] = 1000000000000000019884624838656.0;  // transformers' "no limit"
  Json map = Json::object();
  for (const auto& [role, text] : specials) {
    config[role] = text;
    map[role] = text;
  }
  files["tokenizer_config.json"] = Dump(config);
  files["special_tokens_map.json"] = Dump(map);
}

std::map<std::string, std::string> ByteFiles(uint32_t eot_id) {
  Json root = TokenizerJson();
  root["added_tokens"].push_back(AddedToken(eot_id, kEotText, true));
  root["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  root["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json vocabulary = Json::object();
  const std::vector<std::string> alphabet = ByteLevelAlphabet();
  for (uint32_t byte = 0; byte < 256; ++byte) vocabulary[alphabet[byte]] = byte;
  root["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"vocab", vocabulary},
                   {"merges", Json::array()}};
  std::map<std::string, std::string> files = {{"tokenizer.json", Dump(root)}};
  AddConfigFiles({{"eos_token", kEotText}, {"pad_token", kEotText}}, files);
  return files;
}

Json Replace(const char* kind, const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

Json Normalizer(const SentencePieceModel& model) {
  Json steps = Json::array();
  if (model.remove_extra_spaces) {
    for (const char* ends : {"^ +", " +$"}) steps.push_back(Replace("Regex", ends, ""));
    steps.push_back(Replace("Regex", " {2,}", " "));
  }
  if (model.add_dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", " "}});
  if (model.escape_spaces) steps.push_back(Replace("String", " ", kSpaceSymbol));
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json Decoder(const SentencePieceModel& model) {
  Json steps = Json::array();
  steps.push_back(Replace("String", kSpaceSymbol, " "));
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

// Returns every way to form a piece from two pieces, highest score first, which is SentencePiece's
// merge order.
Json Merges(const SentencePieceModel& model) {
  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kNormal) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return model.pieces[a].score > model.pieces[b].score; });
  Json merges = Json::array();
  for (const uint32_t id : order) {
    const std::string& text = model.pieces[id].text;
    std::vector<std::pair<uint32_t, uint32_t>> ways;
    for (size_t at = Utf8Length(text[0]); at < text.size(); at += Utf8Length(text[at])) {
      const auto left = model.normal.find(text.substr(0, at)), right = model.normal.find(text.substr(at));
      if (left != model.normal.end() && right != model.normal.end()) ways.emplace_back(left->second, right->second);
    }
    std::sort(ways.begin(), ways.end());
    for (const auto& [left, right] : ways) {
      merges.push_back(Json::array({model.pieces[left].text, model.pieces[right].text}));
    }
  }
  return merges;
}

Json BpeModel(const SentencePieceModel& model) {
  Json vocabulary = Json::object();
  for (uint32_t id = 0; id < model.pieces.size(); ++id) vocabulary.emplace(model.pieces[id].text, id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.pieces[model.unk_id].text},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", Merges(model)}};
}

Json UnigramModel(const SentencePieceModel& model) {
  Json vocabulary = Json::array();
  for (const Piece& piece : model.pieces) vocabulary.push_back(Json::array({piece.text, piece.score}));
  return {{"type", "Unigram"}, {"unk_id", model.unk_id}, {"vocab", vocabulary}, {"byte_fallback", model.byte_fallback}};
}

absl::StatusOr<std::map<std::string, std::string>> SentencePieceFiles(const std::string& model_bytes) {
  ATOLL_ASSIGN_OR_RETURN(const SentencePieceModel model, ParseSentencePieceModel(model_bytes));
  if (model.space_as_suffix) {
    return absl::InvalidArgumentError("a SentencePiece model that treats spaces as suffixes cannot be exported");
  }
  Json root = TokenizerJson();
  for (uint32_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool special = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    if (special || piece.type == PieceType::kUserDefined)
      root["added_tokens"].push_back(AddedToken(id, piece.text, special));
  }
  root["normalizer"] = Normalizer(model);
  root["decoder"] = Decoder(model);
  root["model"] = model.kind == SentencePieceKind::kBpe ? BpeModel(model) : UnigramModel(model);
  std::map<std::string, std::string> files = {{"tokenizer.json", Dump(root)}, {kSentencePieceFileName, model_bytes}};
  std::vector<std::pair<std::string, std::string>> specials = {{"unk_token", model.pieces[model.unk_id].text}};
  if (model.bos_id) specials.emplace_back("bos_token", model.pieces[*model.bos_id].text);
  if (model.eos_id) {
    specials.emplace_back("eos_token", model.pieces[*model.eos_id].text);
    specials.emplace_back("pad_token", model.pieces[*model.eos_id].text);
  }
  AddConfigFiles(specials, files);
  return files;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> HuggingFaceTokenizerFiles(const Tokenizer& tokenizer) {
  if (tokenizer.kind() == TokenizerKind::kBytes) return ByteFiles(*tokenizer.eot_id());
  return SentencePieceFiles(tokenizer.file_bytes());
}

bool IsHuggingFaceByteTokenizer(const std::string& json) {
  if (ColumnNestedDeeper(json, kJsonLevels) > 0) return false;
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object() || !root.contains("model") || !root["model"].is_object()) return false;
  const Json& model = root["model"];
  return model.contains("type") && model["type"] == "BPE" && model.contains("merges") && model["merges"].empty() &&
         model.contains("vocab") && model["vocab"].is_object() && model["vocab"].size() == 256;
}

}  // namespace atl
