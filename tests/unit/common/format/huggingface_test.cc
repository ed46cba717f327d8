// SPDX-License-Identifier: Apache-2.0
#include "common/format/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/format/safetensors.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

HuggingFaceConfig Config() {
  HuggingFaceConfig config;
  config.model.vocab_size = 320;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 192;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.head_dim = 16;
  config.model.rope_theta = 500000;
  config.model.tie_embeddings = false;
  config.max_positions = 256;
  config.eos_id = 256;
  return config;
}

TEST(HuggingFaceConfig, SaysBothOldAndNewKeys) {
  const auto json = nlohmann::json::parse(HuggingFaceConfigJson(Config()));
  EXPECT_EQ(json["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(json["rope_theta"], 500000.0);
  EXPECT_EQ(json["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(json["rope_parameters"]["rope_type"], "default");
  EXPECT_EQ(json["torch_dtype"], "float32");
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["eos_token_id"], 256);
  EXPECT_TRUE(json["bos_token_id"].is_null());
  EXPECT_EQ(nlohmann::json::parse(GenerationConfigJson(Config()))["eos_token_id"], 256);
}

TEST(HuggingFaceConfig, RoundTrip) {
  const auto parsed = ParseHuggingFaceConfig(HuggingFaceConfigJson(Config()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(HuggingFaceConfigJson(*parsed), HuggingFaceConfigJson(Config()));
}

TEST(HuggingFaceConfig, QkNormIsQwen3) {
  HuggingFaceConfig config = Config();
  config.model.qk_norm = true;
  const auto json = nlohmann::json::parse(HuggingFaceConfigJson(config));
  EXPECT_EQ(json["architectures"][0], "Qwen3ForCausalLM");
  EXPECT_EQ(json["model_type"], "qwen3");
  const auto parsed = ParseHuggingFaceConfig(HuggingFaceConfigJson(config));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->model.qk_norm);
  nlohmann::json without = json;
  without.erase("head_dim");
  EXPECT_THAT(ParseHuggingFaceConfig(without.dump()).status().message(), HasSubstr("head_dim"));
}

// As published with Llama 2 (transformers 4) and Llama 3, reduced to the relevant keys.
TEST(HuggingFaceConfig, ReadsOlderFiles) {
  const auto old = ParseHuggingFaceConfig(
      R"({"architectures":["LlamaForCausalLM"],"hidden_act":"silu","hidden_size":128,"intermediate_size":344,
          "max_position_embeddings":4096,"model_type":"llama","num_attention_heads":4,"num_hidden_layers":2,
          "num_key_value_heads":4,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":null,"torch_dtype":"float16",
          "tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":[2,3],"vocab_size":32000})");
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->model.head_dim, 32u);
  EXPECT_EQ(old->model.rope_theta, 10000);
  EXPECT_EQ(old->weights, NumberType::kF16);
  EXPECT_EQ(*old->bos_id, 1u);
  EXPECT_EQ(*old->eos_id, 2u);
}

TEST(HuggingFaceConfig, DefaultRopeMayBeWrittenInAnyWay) {
  const std::string good = HuggingFaceConfigJson(Config());
  for (const char* scaling : {R"({"rope_type": "default"})", R"({"type": "default", "rope_type": "default"})",
                              R"({"rope_type": "default", "rope_theta": 500000.0, "type": null})", "{}", "null"}) {
    auto json = nlohmann::json::parse(good);
    json["rope_scaling"] = nlohmann::json::parse(scaling);
    EXPECT_TRUE(ParseHuggingFaceConfig(json.dump()).ok()) << scaling;
    json.erase("rope_theta");
    json.erase("rope_parameters");
    EXPECT_TRUE(ParseHuggingFaceConfig(json.dump()).ok()) << scaling;
  }
}

TEST(HuggingFaceConfig, PythonsExtensionsInOtherKeysAreAccepted) {
  std::string json = HuggingFaceConfigJson(Config());
  json.insert(1, R"("note": "\ud83d", "loss": NaN, "limit": Infinity,)");
  EXPECT_TRUE(ParseHuggingFaceConfig(json).ok()) << ParseHuggingFaceConfig(json).status();
  const std::string eps = "\"rms_norm_eps\": ";
  json.insert(json.find(eps) + eps.size(), "NaN, \"old\": ");
  EXPECT_THAT(std::string(ParseHuggingFaceConfig(json).status().message()), HasSubstr("rms_norm_eps must be a number"));
}

TEST(HuggingFaceConfig, UnsupportedModelIsRefused) {
  const std::string good = HuggingFaceConfigJson(Config());
  const struct {
    const char* key;
    nlohmann::json value;
    const char* message;
  } cases[] = {
      {"use_sliding_window", true, "use_sliding_window must be false"},
      {"model_type", "mistral", "model_type is \"mistral\""},
      {"hidden_act", "gelu", "hidden_act must be silu"},
      {"attention_bias", true, "attention_bias must be false"},
      {"mlp_bias", true, "mlp_bias must be false"},
      {"rope_scaling", {{"factor", 8}}, "rope_scaling.rope_type is missing"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 8}}, "rope_scaling.type must be default: scaled"},
      {"rope_scaling", {{"rope_type", "default"}, {"rope_theta", 7}}, "differs from the other rope_theta"},
      {"rope_scaling", "linear", "rope_scaling must be a JSON object"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor must be 1"},
      {"rope_theta", 10000, "differs from the other rope_theta"},
      {"rope_parameters", {{"rope_type", "llama3"}}, "rope_parameters.rope_type must be default"},
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "linear"}}}},
       "rope_parameters.full_attention must be absent"},
      {"num_key_value_heads", 3, "must divide num_attention_heads 4"},
      {"head_dim", 15, "head_dim must be even"},
      {"vocab_size", 0, "vocab_size must not be 0"},
      {"hidden_size", -1, "hidden_size must be a whole number"},
      {"eos_token_id", 320, "eos_token_id must be a token id below vocab_size"},
      {"dtype", "int8", "dtype is int8"},
      {"quantization_config", {{"bits", 4}}, "quantization_config must be absent"},
  };
  for (const auto& c : cases) {
    auto json = nlohmann::json::parse(good);
    json[c.key] = c.value;
    const absl::Status status = ParseHuggingFaceConfig(json.dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.key;
  }
  EXPECT_FALSE(ParseHuggingFaceConfig("[]").ok());
}

TEST(HuggingFaceTensors, NamesAndShapes) {
  const auto tensors = [](const ModelSpec& model) {
    std::map<std::string, std::vector<uint64_t>> by_name;
    for (const TensorInfo& tensor : MakeModelLayout(model, FragmentPattern::kWhole, 1).tensors)
      by_name.emplace(tensor.name, tensor.shape);
    return by_name;
  };
  const auto by_name = tensors(Config().model);
  EXPECT_EQ(by_name.size(), 1u + 2 * 9 + 1 + 1);
  EXPECT_EQ(by_name.at("model.embed_tokens.weight"), (std::vector<uint64_t>{320, 64}));
  EXPECT_EQ(by_name.at("model.layers.1.self_attn.k_proj.weight"), (std::vector<uint64_t>{32, 64}));
  EXPECT_EQ(by_name.at("model.layers.0.mlp.down_proj.weight"), (std::vector<uint64_t>{64, 192}));
  EXPECT_EQ(by_name.at("model.norm.weight"), (std::vector<uint64_t>{64}));
  EXPECT_EQ(by_name.at("lm_head.weight"), (std::vector<uint64_t>{320, 64}));
  ModelSpec tied = Config().model;
  tied.tie_embeddings = true;
  EXPECT_FALSE(tensors(tied).contains("lm_head.weight"));
}

class HuggingFaceDirectory : public ::testing::Test {
 protected:
  // Element e of the arena holds e % 1000.
  absl::Status Write(const std::string& name, const HuggingFaceWriteOptions& options) {
    const TensorSource source = [&](size_t index, uint64_t begin, std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>((layout_.tensors[index].offset + begin + i) % 1000);
      }
      return absl::OkStatus();
    };
    return WriteHuggingFaceDirectory(*files_, dir_ / name, Config(), layout_.tensors, {{"tokenizer.json", "{}"}},
                                     source, options);
  }
  void ExpectValues(const std::string& name) {
    const auto reader = SafetensorsReader::Open(*files_, dir_ / name);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->metadata().at("format"), "pt");
    for (const TensorInfo& tensor : layout_.tensors) {
      std::vector<float> values(tensor.elements);
      ASSERT_TRUE((*reader)->ReadTensor(tensor.name, values).ok()) << tensor.name;
      EXPECT_EQ((*reader)->Find(tensor.name)->shape, tensor.shape);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<float>((tensor.offset + i) % 1000)) << tensor.name << " " << i;
      }
    }
  }
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
  ModelLayout layout_ = MakeModelLayout(Config().model, FragmentPattern::kWhole, 1);
};

TEST_F(HuggingFaceDirectory, OneFile) {
  uint64_t last = 0, total = 0;
  HuggingFaceWriteOptions options;
  options.chunk_elements = 1000;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(Write("m", options).ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, layout_.elements * 4);
  EXPECT_EQ(*files_->List(dir_ / "m"),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}));
  ExpectValues("m");
  EXPECT_EQ(Write("m", options).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(HuggingFaceDirectory, SplitWithIndex) {
  HuggingFaceWriteOptions options;
  options.shard_bytes = 150000;
  ASSERT_TRUE(Write("s", options).ok());
  const auto index = nlohmann::json::parse(dir_.Read("s/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], layout_.elements * 4);
  EXPECT_EQ(index["weight_map"].size(), layout_.tensors.size());
  EXPECT_THAT(index["weight_map"]["lm_head.weight"].get<std::string>(), HasSubstr("-of-0000"));
  ExpectValues("s");
}

TEST_F(HuggingFaceDirectory, AFailingSourceStopsBeforeConfig) {
  const TensorSource failing = [](size_t index, uint64_t, std::span<float>) {
    return index == 3 ? absl::UnavailableError("coordinator went away") : absl::OkStatus();
  };
  const absl::Status status = WriteHuggingFaceDirectory(*files_, dir_ / "f", Config(), layout_.tensors, {}, failing);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(files_->List(dir_ / "f")->empty());
}

TEST_F(HuggingFaceDirectory, ATokenizerFileIsNotWrittenOverAnother) {
  const TensorSource zeros = [](size_t, uint64_t, std::span<float>) { return absl::OkStatus(); };
  for (const char* name : {"model.safetensors", "config.json", ".hidden", "a/b"}) {
    const absl::Status status =
        WriteHuggingFaceDirectory(*files_, dir_ / "n", Config(), layout_.tensors, {{name, "{}"}}, zeros);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_FALSE(files_->Exists(dir_ / "n"));
  }
}

}  // namespace
}  // namespace atl
