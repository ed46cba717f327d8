// SPDX-License-Identifier: Apache-2.0
// oracle_logits_writer DIRECTORY: writes Hugging Face directories of small random models, each with
// tokens and the logits and loss that our model computes, for oracle_logits.py to compare with
// transformers.
//
//   DIRECTORY/<case>/config.json, model.safetensors, tokenizer files
//   DIRECTORY/<case>.json   {"sequences":…, "length":…, "tokens":[…], "nll":…, "targets":…}
//   DIRECTORY/<case>.f32    logits, little-endian fp32, sequences x length x vocab_size
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/random.h"
#include "common/format/huggingface.h"
#include "common/text/huggingface_tokenizer.h"
#include "common/text/tokenizer.h"
#include "worker/model/model.h"

namespace atl {
namespace {

constexpr uint32_t kSequences = 2, kLength = 200;

struct Case {
  const char* name;
  uint32_t heads, kv_heads, head_dim;
  bool tied;
  double rope_theta;
  NumberType weights;
  bool qk_norm = false;
};
constexpr Case kCases[] = {
    {"tied", 4, 4, 16, true, 10000.0, NumberType::kF32},
    {"untied", 4, 4, 16, false, 10000.0, NumberType::kF32},
    {"grouped", 8, 2, 16, true, 500000.0, NumberType::kF32},
    {"qk_norm", 8, 2, 16, true, 1000000.0, NumberType::kF32, true},
    {"one_key_head_bf16_weights", 4, 1, 32, false, 10000.0, NumberType::kBF16},
};

HuggingFaceConfig ConfigOf(const Case& c) {
  HuggingFaceConfig config;
  config.model.vocab_size = 320;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 176;
  config.model.layers = 3;
  config.model.heads = c.heads;
  config.model.kv_heads = c.kv_heads;
  config.model.head_dim = c.head_dim;
  config.model.rope_theta = c.rope_theta;
  config.model.tie_embeddings = c.tied;
  config.model.qk_norm = c.qk_norm;
  config.model.init_std = 0.1;
  config.max_positions = kLength;
  config.weights = c.weights;
  config.eos_id = 256;
  return config;
}

// Random parameters with norms other than 1, exactly representable in the type on disk.
void Fill(const ModelLayout& layout, NumberType type, std::span<float> out) {
  InitialParameters(layout, 42, 0, out);
  for (const TensorInfo& t : layout.tensors) {
    for (uint64_t i = t.offset; i < t.offset + t.elements; ++i) {
      if (t.init == InitKind::kOnes) out[i] += 0.2f * NormalAt(3, i);
      if (type == NumberType::kBF16) out[i] = FloatFromBf16(Bf16FromFloat(out[i]));
    }
  }
}

absl::Status WriteResults(const std::string& stem, const std::vector<int32_t>& tokens, const LossSum& sum,
                          const std::vector<float>& logits) {
  std::ofstream raw(stem + ".f32", std::ios::binary);
  raw.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size() * sizeof(float)));
  std::ofstream json(stem + ".json");
  json.precision(17);
  json << "{\"sequences\":" << kSequences << ",\"length\":" << kLength << ",\"nll\":" << sum.nll
       << ",\"targets\":" << sum.targets << ",\"tokens\":[";
  for (size_t i = 0; i < tokens.size(); ++i) json << (i == 0 ? "" : ",") << tokens[i];
  json << "]}\n";
  raw.close();
  json.close();
  return raw && json ? absl::OkStatus() : absl::InternalError("cannot write " + stem);
}

absl::Status WriteCase(const Case& c, const std::string& directory) {
  const HuggingFaceConfig config = ConfigOf(c);
  const ModelLayout layout = MakeModelLayout(config.model, FragmentPattern::kStrided, 1);
  ATOLL_ASSIGN_OR_RETURN(const auto parameters, Arena::Create(layout.elements, {}));
  Fill(layout, c.weights, parameters->host());
  ATOLL_ASSIGN_OR_RETURN(const auto model, Model::Create(config.model, layout, {}, *parameters, nullptr));
  std::vector<int32_t> tokens(size_t{kSequences} * kLength);
  Rng rng(9);
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng.Below(257));
  const TokenBatch batch{.tokens = tokens, .sequences = kSequences};
  std::vector<float> logits(tokens.size() * config.model.vocab_size);
  ATOLL_RETURN_IF_ERROR(model->Logits(batch, logits));
  ATOLL_ASSIGN_OR_RETURN(const LossSum sum, model->ForwardLoss(batch));
  const auto source = [&](size_t index, uint64_t begin, std::span<float> out) {
    return parameters->Read(layout.tensors[index].offset + begin, out);
  };
  const auto files = MakePosixFiles();
  ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, HuggingFaceTokenizerFiles(*MakeByteTokenizer()));
  ATOLL_RETURN_IF_ERROR(
      WriteHuggingFaceDirectory(*files, JoinPath(directory, c.name), config, layout.tensors, tokenizer, source));
  return WriteResults(JoinPath(directory, c.name), tokens, sum, logits);
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: oracle_logits_writer DIRECTORY\n";
    return 2;
  }
  for (const atl::Case& c : atl::kCases) {
    const absl::Status status = atl::WriteCase(c, argv[1]);
    if (!status.ok()) {
      std::cerr << c.name << ": " << status << "\n";
      return 1;
    }
  }
  return 0;
}
