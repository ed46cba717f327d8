// SPDX-License-Identifier: Apache-2.0
#include "common/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "common/base/random.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Length(uint64_t n) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>((n >> (8 * i)) & 0xff);
  return out;
}
std::string Framed(const std::string& header, const std::string& data) { return Length(header.size()) + header + data; }

// Written by the Python package safetensors 0.8.0: {"a": float32 [[1, 2, 3]], "b": float16 [0.5]},
// metadata {"k": "v"}.
std::string PythonFile() {
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]},)"
                             R"("b":{"dtype":"F16","shape":[1],"data_offsets":[12,14]}})";
  std::string padded = header;
  padded.resize((header.size() + 7) / 8 * 8, ' ');
  using std::string_literals::operator""s;
  return Framed(padded, "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x38"s);
}

class Safetensors : public ::testing::Test {
 protected:
  absl::Status OpenBytes(const std::string& bytes) {
    return SafetensorsReader::Open(*files_, dir_.Write("x.safetensors", bytes)).status();
  }
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(Safetensors, OneFileMayHaveAnyName) {
  const std::string path = dir_.Write("0f3c", PythonFile());
  const auto reader = SafetensorsReader::OpenFile(*files_, path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(SafetensorsReader::Open(*files_, path).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Safetensors, ReadsWhatPythonWrote) {
  const auto reader = SafetensorsReader::Open(*files_, dir_.Write("p.safetensors", PythonFile()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*reader)->metadata().at("k"), "v");
  std::vector<float> a(3), b(1), part(1);
  ASSERT_TRUE((*reader)->ReadTensor("a", a).ok());
  ASSERT_TRUE((*reader)->ReadTensor("b", b).ok());
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(b, (std::vector<float>{0.5f}));
  ASSERT_TRUE((*reader)->ReadElements("a", 2, part).ok());
  EXPECT_EQ(part[0], 3);
  EXPECT_EQ((*reader)->ReadElements("a", 3, part).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*reader)->ReadTensor("c", a).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*reader)->ReadTensor("a", b).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Safetensors, WrittenBytesAreTheFormat) {
  std::vector<SafetensorsTensor> tensors(2);
  tensors[0].name = "w";
  tensors[0].shape = {2};
  tensors[1].name = "h";
  tensors[1].type = NumberType::kBF16;
  tensors[1].shape = {1, 1};
  auto writer = SafetensorsWriter::Create(*files_, dir_ / "out.safetensors", tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE(files_->Exists(dir_ / "out.safetensors"));
  ASSERT_TRUE((*writer)->Append(std::vector<float>{1}).ok());
  ASSERT_TRUE((*writer)->Append(std::vector<float>{-2, 3}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::string expected =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"BF16","shape":[1,1],"data_offsets":[8,10]}})";
  const std::string file = dir_.Read("out.safetensors");
  ASSERT_EQ(file.size(), 4096u + 10u);
  EXPECT_EQ(file.substr(0, 8), Length(4088));
  EXPECT_EQ(file.substr(8, expected.size()), expected);
  EXPECT_EQ(file.substr(8 + expected.size(), 4096 - 8 - expected.size()), std::string(4096 - 8 - expected.size(), ' '));
  using std::string_literals::operator""s;
  EXPECT_EQ(file.substr(4096), "\x00\x00\x80\x3f\x00\x00\x00\xc0\x40\x40"s);
}

TEST_F(Safetensors, RoundTripInEveryType) {
  for (const NumberType type : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    std::vector<SafetensorsTensor> tensors(3);
    for (size_t i = 0; i < 3; ++i) {
      tensors[i].name = absl::StrCat("t", i);
      tensors[i].type = type;
    }
    tensors[0].shape = {300, 1000};  // more than one conversion chunk
    tensors[1].shape = {0, 5};
    tensors[2].shape = {};
    std::vector<float> values(300001);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 256) - 128;  // exact in all types
    const std::string path = dir_ / "r.safetensors";
    const auto writer = SafetensorsWriter::Create(*files_, path, tensors);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(values).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto reader = SafetensorsReader::Open(*files_, path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::vector<float> first(300000), last(1);
    ASSERT_TRUE((*reader)->ReadTensor("t0", first).ok());
    ASSERT_TRUE((*reader)->ReadTensor("t1", {}).ok());
    ASSERT_TRUE((*reader)->ReadTensor("t2", last).ok());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), values.begin()));
    EXPECT_EQ(last[0], values.back());
  }
}

TEST_F(Safetensors, WriterCountsValues) {
  std::vector<SafetensorsTensor> tensors(1);
  tensors[0].name = "w";
  tensors[0].shape = {2};
  const auto writer = SafetensorsWriter::Create(*files_, dir_ / "w.safetensors", tensors);
  ASSERT_TRUE((*writer)->Append(std::vector<float>{1}).ok());
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*writer)->Append(std::vector<float>{1, 1}).code(), absl::StatusCode::kFailedPrecondition);
  tensors.push_back(tensors[0]);
  EXPECT_EQ(SafetensorsWriter::Create(*files_, dir_ / "w.safetensors", tensors).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(Safetensors, AbandonedWriterLeavesNothing) {
  std::vector<SafetensorsTensor> tensors(1);
  tensors[0].name = "w";
  tensors[0].shape = {2};
  { const auto writer = SafetensorsWriter::Create(*files_, dir_ / "w.safetensors", tensors); }
  EXPECT_TRUE(files_->List(dir_.path())->empty());
}

TEST_F(Safetensors, NonFiniteIsRefusedWithItsPlace) {
  std::vector<SafetensorsTensor> tensors(1);
  tensors[0].name = "w";
  tensors[0].shape = {3};
  const auto writer = SafetensorsWriter::Create(*files_, dir_ / "n.safetensors", tensors);
  ASSERT_TRUE((*writer)->Append(std::vector<float>{1, std::numeric_limits<float>::infinity(), 2}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = SafetensorsReader::Open(*files_, dir_ / "n.safetensors");
  std::vector<float> out(3);
  const absl::Status refused = (*reader)->ReadTensor("w", out);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not finite at element 1"));
  EXPECT_TRUE((*reader)->ReadTensor("w", out, /*require_finite=*/false).ok());
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* message;
};

TEST_F(Safetensors, BadFilesAreRefusedWithTheReason) {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const auto with = [](const std::string& header, size_t data) { return Framed(header, std::string(data, '\0')); };
  std::string many = "{";
  for (int i = 0; i < 65537; ++i) {
    absl::StrAppend(&many, i ? "," : "", "\"t", i, R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
  }
  many += "}";
  const std::vector<BadFile> bad = {
      {"empty", "", "not a safetensors file"},
      {"length beyond cap", Length((16u << 20) + 1) + "{", "more than the limit of 16777216"},
      {"length of 2^64-1", Length(UINT64_MAX) + "{}", "more than the limit of 16777216"},
      {"header cut", Length(100) + "{}", "is truncated"},
      {"space first", with(" {}", 0), "does not begin with '{'"},
      {"array", with("[]", 0), "does not begin with '{'"},
      {"bad JSON", with("{\"a\":", 0), "JSON is invalid"},
      {"trailing text", with("{}x", 0), "JSON is invalid"},
      {"too deep", with(R"({"a":{"b":[[[1]]]}})", 0), "nested deeper"},
      {"duplicate",
       with(
           R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
           0),
       "occurs twice"},
      {"duplicate inside", with(R"({"a":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0),
       "occurs twice"},
      {"file too short", with(one, 3), "cover 4 bytes but the file holds 3"},
      {"file too long", with(one, 5), "cover 4 bytes but the file holds 5"},
      {"hole", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "without gap"},
      {"overlap",
       with(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       "without gap"},
      {"size mismatch", with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "needs 8 bytes"},
      {"reversed", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "needs 4 bytes"},
      {"overflow", with(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "overflows"},
      {"overflow by type", with(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
       "overflows"},
      {"negative", with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0), "whole numbers"},
      {"fraction", with(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4), "whole numbers"},
      {"rank", with(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4), "9 dimensions"},
      {"empty dtype", with(R"({"a":{"dtype":"","shape":[1],"data_offsets":[0,8]}})", 8),
       "dtype of tensor \"a\" is empty"},
      {"other dtype reversed", with(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[8,0]}})", 8),
       "data_offsets are"},
      {"other dtype beyond", with(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,16]}})", 8), "copy it again"},
      {"no dtype", with(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "a.dtype is missing"},
      {"unknown key", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
       "a.x is not a known key"},
      {"three offsets", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4), "at most 2"},
      {"metadata", with(R"({"__metadata__":{"k":1}})", 0), "must be a string"},
      {"not an object", with(R"({"a":7})", 0), "must be a JSON object"},
      {"too many", with(many, 0), "at most 65536"},
  };
  for (const BadFile& file : bad) {
    const absl::Status status = OpenBytes(file.bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file.what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file.message)) << file.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.safetensors")) << file.what;
  }
}

// For any bytes the parser returns; tensors that it accepts lie inside the file.
// S39.
TEST_F(Safetensors, HeadersOfAllFilesAreBounded) {
  const std::string text(12 << 20, 'x');
  CheckpointFiles found;
  for (const char* name : {"1", "2", "3"})
    found.paths.push_back(dir_.Write(name, Framed("{\"__metadata__\":{\"a\":\"" + text + "\"}}", "")));
  EXPECT_THAT(std::string(SafetensorsReader::Open(*files_, found).status().message()),
              HasSubstr("has headers of more than 33554432 bytes in all"));
  found.paths.pop_back();
  EXPECT_TRUE(SafetensorsReader::Open(*files_, found).ok());
}

TEST_F(Safetensors, MutatedHeadersNeverEscapeTheFile) {
  const std::string good = PythonFile().substr(8, 144);
  Rng rng(11);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (uint64_t n = rng.Below(4); n > 0; --n) {
      const size_t at = rng.Below(text.size());
      if (rng.Below(3) == 0) {
        text.erase(at, rng.Below(4));
      } else {
        text[at] = "0123456789{}[],:\"FB163 "[rng.Below(23)];
      }
      if (text.empty()) text = "{";
    }
    const auto header = ParseSafetensorsHeader(text, 14);
    if (!header.ok()) continue;
    ++accepted;
    for (const SafetensorsTensor& tensor : header->tensors) {
      EXPECT_LE(tensor.offset_bytes + tensor.size_bytes, 14u);
      if (!tensor.other_dtype.empty()) continue;
      EXPECT_EQ(tensor.elements * NumberBytes(tensor.type), tensor.size_bytes);
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST_F(Safetensors, ShardedByIndex) {
  const auto file = [](const std::string& name) {
    return Framed(absl::StrCat("{\"", name, R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"), "");
  };
  dir_.Write("m-1.safetensors", file("a") + std::string("\0\0\x80\x3f", 4));
  dir_.Write("m-2.safetensors", file("b") + std::string("\0\0\0\x40", 4));
  const auto index = [&](const std::string& map) {
    dir_.Write("model.safetensors.index.json", "{\"metadata\":{\"total_size\":8},\"weight_map\":" + map + "}");
    return SafetensorsReader::Open(*files_, dir_.path());
  };
  const auto reader = index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> value(1);
  ASSERT_TRUE((*reader)->ReadTensor("b", value).ok());
  EXPECT_EQ(value[0], 2);
  EXPECT_THAT(std::string(index(R"({"a":"m-2.safetensors"})").status().message()), HasSubstr("does not contain it"));
  EXPECT_THAT(std::string(index(R"({"a":"../m-1.safetensors"})").status().message()),
              HasSubstr("a file in the same directory"));
  const absl::Status missing = index(R"({"a":"m-3.safetensors"})").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("names m-3.safetensors, which is missing"));
}

// Tensors that the model does not need may have any dtype and may be in any number of files.
TEST_F(Safetensors, TensorsThatAreNotNeededDoNoHarm) {
  const auto file = [](const std::string& extra) {
    return Framed(absl::StrCat(R"({")", extra, R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)",
                               R"("ids":{"dtype":"I64","shape":[1,2],"data_offsets":[4,20]},)",
                               R"("f8":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[20,23]}})"),
                  std::string(23, '\0'));
  };
  dir_.Write("m-1.safetensors", file("a"));
  dir_.Write("m-2.safetensors", file("b"));
  dir_.Write("model.safetensors.index.json",
             R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","ids":"m-2.safetensors"}})");
  const auto reader = SafetensorsReader::Open(*files_, dir_.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> value(1);
  EXPECT_TRUE((*reader)->ReadTensor("b", value).ok());
  EXPECT_THAT(
      std::string((*reader)->CheckReadable("ids").message()),
      AllOf(HasSubstr("\"ids\" is both in "), HasSubstr("m-1.safetensors and in "), HasSubstr("m-2.safetensors")));
  dir_.Write("one.safetensors", file("a"));
  const auto one = SafetensorsReader::Open(*files_, dir_ / "one.safetensors");
  ASSERT_TRUE(one.ok()) << one.status();
  for (const auto& [name, dtype] : std::map<std::string, std::string>{{"ids", "I64"}, {"f8", "F8_E4M3"}}) {
    EXPECT_THAT(std::string((*one)->ReadElements(name, 0, value).message()),
                HasSubstr("has dtype " + dtype + "; only F32, F16 and BF16 are supported"));
  }
}

TEST_F(Safetensors, AbsentIsNotFound) {
  EXPECT_EQ(SafetensorsReader::Open(*files_, dir_.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsReader::Open(*files_, dir_ / "no.safetensors").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace atl
