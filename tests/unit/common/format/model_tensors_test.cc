// SPDX-License-Identifier: Apache-2.0
#include "common/format/model_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/format/checkpoint_files.h"
#include "common/format/huggingface.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";

ModelSpec TinyModel() {
  ModelSpec model = {.vocab_size = 300, .hidden_size = 16, .intermediate_size = 32, .layers = 1, .heads = 2};
  model.kv_heads = 2;
  model.head_dim = 8;
  return model;
}

// A directory of weights, and the ways in which users' directories differ from ours.
class Weights : public ::testing::Test {
 protected:
  struct Save {
    std::string file = "model.safetensors";
    size_t first = 0, count = 100;  // range of the model's tensors
    float value = 1;
    std::string (*rename)(const std::string&) = [](const std::string& name) { return name; };
  };
  void Write(const Save& save) {
    std::vector<SafetensorsTensor> tensors;
    for (size_t i = save.first; i < std::min(layout_.tensors.size(), save.first + save.count); ++i) {
      tensors.push_back({.name = save.rename(layout_.tensors[i].name), .shape = layout_.tensors[i].shape});
    }
    const auto writer = SafetensorsWriter::Create(*files_, dir_ / save.file, tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_TRUE((*writer)->Append(std::vector<float>(layout_.tensors[save.first + i].elements, save.value)).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  // Places the tensors from `second` on in the second file.
  void WriteIndex(const std::string& first_file, size_t second, const std::string& second_file) {
    std::string map;
    for (size_t i = 0; i < layout_.tensors.size(); ++i) {
      absl::StrAppend(&map, i == 0 ? "" : ",", "\"", layout_.tensors[i].name, "\":\"",
                      i < second ? first_file : second_file, "\"");
    }
    dir_.Write(kIndex, absl::StrCat("{\"metadata\":{\"total_size\":1},\"weight_map\":{", map, "}}"));
  }
  // The common value of all parameters, or the error.
  std::string Value() {
    const auto reader = SafetensorsReader::Open(*files_, dir_.path());
    if (!reader.ok()) return std::string(reader.status().message());
    std::vector<float> arena(layout_.elements);
    const absl::Status read = ReadModelTensors(**reader, layout_, arena);
    EXPECT_EQ(CheckModelValues(**reader, layout_), read) << "both judge the same";
    if (!read.ok()) return std::string(read.message());
    EXPECT_EQ(std::count(arena.begin(), arena.end(), arena[0]), static_cast<std::ptrdiff_t>(arena.size()));
    return absl::StrCat(arena[0]);
  }

  const ModelLayout layout_ = MakeModelLayout(TinyModel(), FragmentPattern::kWhole, 1);
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(Weights, IndexNamesTheFilesAndNoOthersAreRead) {
  Write({.file = "model-00001-of-00002.safetensors", .count = 4, .value = 2});
  Write({.file = "model-00002-of-00002.safetensors", .first = 4, .value = 2});
  Write({.file = "model-00001-of-00003.safetensors", .value = 9});
  Write({.file = "model.safetensors", .value = 9});
  dir_.Write("adapter.safetensors", "damaged");
  WriteIndex("model-00001-of-00002.safetensors", 4, "model-00002-of-00002.safetensors");
  EXPECT_EQ(Value(), "2");
  EXPECT_THAT(FindCheckpointFiles(*files_, dir_.path())->ignored,
              ElementsAre("adapter.safetensors", "model-00001-of-00003.safetensors", "model.safetensors"));
}

TEST_F(Weights, IndexThatDoesNotFitItsFilesIsRefused) {
  Write({.file = "a.safetensors", .count = 4});
  WriteIndex("a.safetensors", 4, "b.safetensors");
  EXPECT_THAT(Value(),
              HasSubstr("model.safetensors.index.json names b.safetensors, which is missing in the same directory"));
  Write({.file = "b.safetensors", .first = 5});
  EXPECT_THAT(Value(), HasSubstr("places tensor \"" + layout_.tensors[4].name + "\" in b.safetensors, which does not"));
  Write({.file = "b.safetensors", .first = 3});
  EXPECT_THAT(Value(), HasSubstr("tensor \"" + layout_.tensors[3].name + "\" is both in"));
  for (const char* outside : {"../b.safetensors", "/etc/passwd", "sub/b.safetensors", "..", ""}) {
    dir_.Write(kIndex, absl::StrCat("{\"weight_map\":{\"t\":\"", outside, "\"}}"));
    EXPECT_THAT(Value(), HasSubstr("weight_map.t must name a file in the same directory")) << outside;
  }
  dir_.Write(kIndex, "{\"weight_map\": oops}");
  EXPECT_THAT(Value(), HasSubstr("index.json: the JSON is invalid at byte 16: "));
  dir_.Write(kIndex, "{\"weight_map\": {}}");
  EXPECT_THAT(Value(), HasSubstr("names no file"));
  dir_.Write(kIndex, "[]");
  EXPECT_THAT(Value(), HasSubstr("weight_map is missing"));
}

TEST_F(Weights, WithoutAnIndexTheSingleFileThenAll) {
  Write({.file = "other.safetensors", .value = 9});
  Write({.file = "model.safetensors", .value = 3});
  EXPECT_EQ(Value(), "3");
  std::filesystem::remove(dir_ / "model.safetensors");
  EXPECT_EQ(Value(), "9");
  Write({.file = "yet-another.safetensors", .count = 1});
  EXPECT_THAT(Value(), AllOf(HasSubstr("is both in"), HasSubstr("other.safetensors and in"), HasSubstr("older save")));
}

TEST_F(Weights, SetThatIsNotWholeNamesTheMissingFile) {
  Write({.file = "model-00001-of-00003.safetensors", .count = 4});
  Write({.file = "model-00003-of-00003.safetensors", .first = 4});
  EXPECT_THAT(Value(), HasSubstr("has no model-00002-of-00003.safetensors"));
}

TEST_F(Weights, PrefixesOfTransformersAreFound) {
  Write({.rename = [](const std::string& name) { return "model." + name; }});
  EXPECT_EQ(Value(), "1");
  Write({.rename = [](const std::string& name) { return name.starts_with("model.") ? name.substr(6) : name; }});
  EXPECT_EQ(Value(), "1");
  Write({.rename = [](const std::string& name) { return "transformer." + name; }});
  EXPECT_THAT(Value(), HasSubstr("has no tensor " + layout_.tensors[0].name));
}

// Each wrapper of a model puts its own prefix before the names.
TEST_F(Weights, AWrappedModelIsNamedWithTheWayOut) {
  Write({.rename = [](const std::string& name) { return "_orig_mod." + name; }});
  EXPECT_THAT(Value(), AllOf(HasSubstr("has no tensor " + layout_.tensors[0].name + ", but _orig_mod."),
                             HasSubstr("it is saved from inside torch.compile; save the model itself again: "
                                       "model._orig_mod.save_pretrained(DIRECTORY)")));
  Write({.rename = [](const std::string& name) { return "module." + name; }});
  EXPECT_THAT(Value(), AllOf(HasSubstr("it is saved from inside DistributedDataParallel; "),
                             HasSubstr("model.module.save_pretrained(DIRECTORY)")));
  Write({.rename = [](const std::string& name) { return "base_model.model." + name; }});
  EXPECT_THAT(Value(), AllOf(HasSubstr("it is a PEFT model with adapters; "),
                             HasSubstr("model.merge_and_unload().save_pretrained(DIRECTORY)")));
  Write({.rename = [](const std::string& name) { return "another." + name; }});
  EXPECT_THAT(Value(), HasSubstr("; config.json and the weights must belong to one model"));
}

TEST_F(Weights, AdviceToCopyAgainIsForCutFilesOnly) {
  Write({});
  const std::string good = dir_.Read("model.safetensors");
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{20}, good.size() - 1}) {
    dir_.Write("model.safetensors", good.substr(0, bytes));
    EXPECT_THAT(Value(), HasSubstr("copy it again")) << bytes;
  }
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345678\n";
  for (const std::string& other : {pointer, std::string("<!DOCTYPE html><html>"), good + "x"}) {
    dir_.Write("model.safetensors", other);
    EXPECT_THAT(Value(), ::testing::Not(HasSubstr("copy it again")));
  }
  dir_.Write("model.safetensors", pointer);
  EXPECT_THAT(Value(), HasSubstr("model.safetensors is a Git LFS pointer, not the file itself; run `git lfs pull`"));
}

TEST_F(Weights, FilesThatACopyFromMacOsLeavesAreNoWeights) {
  Write({.file = "model-00001-of-00002.safetensors", .count = 4});
  Write({.file = "model-00002-of-00002.safetensors", .first = 4});
  dir_.Write("._model-00001-of-00002.safetensors", "metadata");
  const auto found = FindCheckpointFiles(*files_, dir_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->paths.size(), 2u);
}

TEST_F(Weights, AbsentFilesAreNamed) {
  EXPECT_THAT(Value(), HasSubstr("holds no .safetensors file"));
  EXPECT_EQ(FindCheckpointFiles(*files_, dir_ / "none").status().code(), absl::StatusCode::kNotFound);
  dir_.Write("file", "");
  EXPECT_FALSE(FindCheckpointFiles(*files_, dir_ / "file").ok());
}

}  // namespace
}  // namespace atl
