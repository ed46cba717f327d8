// SPDX-License-Identifier: Apache-2.0
// Writes and parses config.json and generation_config.json of a Llama.
#include <cmath>

#include "common/format/huggingface.h"
#include "common/format/json_object.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr size_t kDepth = 8;

// The transformers architectures that compute the same function as Atoll's model.
struct Architecture {
  const char* type;
  const char* name;
};
constexpr Architecture kPlain = {"llama", "LlamaForCausalLM"}, kQkNorm = {"qwen3", "Qwen3ForCausalLM"};

std::string TorchName(NumberType type) {
  switch (type) {
    case NumberType::kF32: return "float32";
    case NumberType::kF16: return "float16";
    case NumberType::kBF16: return "bfloat16";
  }
  return "float32";
}

json::Ordered IdOrNull(const std::optional<uint32_t>& id) {
  return id.has_value() ? json::Ordered(*id) : json::Ordered(nullptr);
}

bool Present(const json::Value& root, const char* key) { return root.contains(key) && !root[key].is_null(); }

uint32_t Size(json::Reader& reader, const char* key, uint32_t max) {
  const uint64_t value = reader.Unsigned(key, max);
  if (value == 0) reader.Fail(key, "must not be 0");
  return static_cast<uint32_t>(value);
}

// Refuses features of a config.json that the model does not support, instead of ignoring them.
void RefuseOthers(const json::Value& root, json::Reader& reader) {
  if (const std::string type = reader.String("model_type"); type != kPlain.type && type != kQkNorm.type) {
    reader.Fail("model_type", absl::StrCat("is \"", type, "\"; only llama and qwen3 are read"));
  }
  if (Present(root, "use_sliding_window") && reader.Bool("use_sliding_window")) {
    reader.Fail("use_sliding_window", "must be false");
  }
  if (Present(root, "hidden_act") && reader.String("hidden_act") != "silu") reader.Fail("hidden_act", "must be silu");
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (Present(root, key) && reader.Bool(key)) reader.Fail(key, "must be false");
  }
  if (Present(root, "partial_rotary_factor") && reader.Number("partial_rotary_factor") != 1)
    reader.Fail("partial_rotary_factor", "must be 1");
  if (Present(root, "quantization_config")) reader.Fail("quantization_config", "must be absent");
  if (Present(root, "pretraining_tp") && reader.Unsigned("pretraining_tp") > 1)
    reader.Fail("pretraining_tp", "must be 1");
}

// transformers 5 writes rope_parameters, transformers 4 writes rope_theta, and both read
// rope_scaling. All values present must agree.
double RopeTheta(const json::Value& root, json::Reader& reader) {
  std::optional<double> theta;
  const auto take = [&](json::Reader& from) {
    const double value = from.Number("rope_theta");
    if (theta && value != *theta) from.Fail("rope_theta", "differs from the other rope_theta");
    theta = value;
  };
  if (Present(root, "rope_theta")) take(reader);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!Present(root, key)) continue;
    const json::Value& inner = root[key];
    json::Reader rope = reader.Object(key);
    for (const char* kind : {"rope_type", "type"}) {
      if (Present(inner, kind) && rope.String(kind) != "default")
        rope.Fail(kind, "must be default: scaled rotary embeddings are not supported");
    }
    for (const auto& member : inner.items()) {  // present for models with two kinds of layers
      if (member.value().is_object()) rope.Fail(member.key(), "must be absent: one setting holds for all layers");
    }
    const bool has_type = Present(inner, "rope_type") || Present(inner, "type");
    if (Present(inner, "factor") && !has_type) rope.Fail("rope_type", "is missing");
    if (Present(inner, "partial_rotary_factor") && rope.Number("partial_rotary_factor") != 1)
      rope.Fail("partial_rotary_factor", "must be 1");
    if (Present(inner, "rope_theta")) take(rope);
  }
  const double chosen = theta.value_or(10000);
  if (!std::isfinite(chosen) || chosen <= 1) reader.Fail("rope_theta", "must be above 1");
  return chosen;
}

void CheckHeads(const ModelSpec& model, json::Reader& reader) {
  if (!reader.ok()) return;
  if (model.heads % model.kv_heads != 0) {
    reader.Fail("num_key_value_heads", absl::StrCat("must divide num_attention_heads ", model.heads));
  }
  if (model.head_dim == 0 || model.head_dim % 2 != 0) reader.Fail("head_dim", "must be even and not 0");
}

ModelSpec ReadModel(const json::Value& root, json::Reader& reader) {
  constexpr uint32_t kSize = 1u << 24;
  ModelSpec model;
  model.vocab_size = Size(reader, "vocab_size", kSize);
  model.hidden_size = Size(reader, "hidden_size", kSize);
  model.intermediate_size = Size(reader, "intermediate_size", kSize);
  model.layers = Size(reader, "num_hidden_layers", limits::kLayers);
  model.heads = Size(reader, "num_attention_heads", kSize);
  model.kv_heads = Present(root, "num_key_value_heads") ? Size(reader, "num_key_value_heads", kSize) : model.heads;
  model.head_dim = model.heads == 0 ? 0 : model.hidden_size / model.heads;
  model.qk_norm = reader.String("model_type") == kQkNorm.type;
  // llama and qwen3 have different defaults for a missing head_dim in transformers.
  if (model.qk_norm || Present(root, "head_dim")) model.head_dim = Size(reader, "head_dim", kSize);
  model.rope_theta = RopeTheta(root, reader);
  model.rms_norm_eps = Present(root, "rms_norm_eps") ? reader.Number("rms_norm_eps") : 1e-6;
  if (!(model.rms_norm_eps > 0 && model.rms_norm_eps < 1)) reader.Fail("rms_norm_eps", "must be above 0 and below 1");
  model.tie_embeddings = Present(root, "tie_word_embeddings") && reader.Bool("tie_word_embeddings");
  CheckHeads(model, reader);
  return model;
}

NumberType ReadType(const json::Value& root, json::Reader& reader) {
  const char* key = Present(root, "dtype") ? "dtype" : "torch_dtype";
  if (!Present(root, key)) return NumberType::kF32;
  const std::string name = reader.String(key);
  for (const NumberType type : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    if (name == TorchName(type)) return type;
  }
  reader.Fail(key, absl::StrCat("is ", name, "; float32, float16 and bfloat16 are read"));
  return NumberType::kF32;
}

// Reads an id, null, or (eos only, Llama 3) a list, of which the first id is used.
std::optional<uint32_t> ReadId(const json::Value& root, const char* key, uint32_t vocab_size, json::Reader& reader) {
  if (!Present(root, key)) return std::nullopt;
  const json::Value& value = root[key];
  const json::Value& id = value.is_array() && !value.empty() ? value[0] : value;
  if (id.is_number_unsigned() && id.get<uint64_t>() < vocab_size) return static_cast<uint32_t>(id.get<uint64_t>());
  reader.Fail(key, "must be a token id below vocab_size");
  return std::nullopt;
}

}  // namespace

std::string HuggingFaceConfigJson(const HuggingFaceConfig& config) {
  const ModelSpec& model = config.model;
  json::Ordered root;
  const Architecture& architecture = model.qk_norm ? kQkNorm : kPlain;
  root["architectures"] = {architecture.name};
  root["model_type"] = architecture.type;
  root["vocab_size"] = model.vocab_size;
  root["hidden_size"] = model.hidden_size;
  root["intermediate_size"] = model.intermediate_size;
  root["num_hidden_layers"] = model.layers;
  root["num_attention_heads"] = model.heads;
  root["num_key_value_heads"] = model.kv_heads;
  root["head_dim"] = model.head_dim;
  root["hidden_act"] = "silu";
  root["max_position_embeddings"] = config.max_positions;
  root["rms_norm_eps"] = model.rms_norm_eps;
  root["rope_theta"] = model.rope_theta;
  root["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", model.rope_theta}};
  root["rope_scaling"] = nullptr;
  root["tie_word_embeddings"] = model.tie_embeddings;
  root["attention_bias"] = false;
  root["attention_dropout"] = 0.0;
  root["mlp_bias"] = false;
  root["initializer_range"] = model.init_std;
  root["bos_token_id"] = IdOrNull(config.bos_id);
  root["eos_token_id"] = IdOrNull(config.eos_id);
  root["use_cache"] = true;
  root["torch_dtype"] = TorchName(config.weights);
  root["dtype"] = TorchName(config.weights);
  return root.dump(2) + "\n";
}

std::string GenerationConfigJson(const HuggingFaceConfig& config) {
  json::Ordered root;
  if (config.bos_id.has_value()) root["bos_token_id"] = *config.bos_id;
  if (config.eos_id.has_value()) {
    root["eos_token_id"] = *config.eos_id;
    root["pad_token_id"] = *config.eos_id;
  }
  root["do_sample"] = true;
  return root.dump(2) + "\n";
}

absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(const std::string& text) {
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, kDepth));
  absl::Status status;
  json::Reader reader(root, "", status);
  ATOLL_RETURN_IF_ERROR(status);
  RefuseOthers(root, reader);
  HuggingFaceConfig config;
  config.model = ReadModel(root, reader);
  if (Present(root, "max_position_embeddings"))
    config.max_positions = Size(reader, "max_position_embeddings", 1u << 30);
  config.weights = ReadType(root, reader);
  config.bos_id = ReadId(root, "bos_token_id", config.model.vocab_size, reader);
  config.eos_id = ReadId(root, "eos_token_id", config.model.vocab_size, reader);
  ATOLL_RETURN_IF_ERROR(status);
  return config;
}

}  // namespace atl
