// SPDX-License-Identifier: Apache-2.0
#include "common/format/token_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "common/base/random.h"
#include "common/plan/data_order.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return out;
}

class Shard : public ::testing::Test {
 protected:
  absl::StatusOr<TokenShardWriter::Result> WriteShard(const std::string& name, TokenType type,
                                                      const std::vector<uint32_t>& ids) {
    ATOLL_ASSIGN_OR_RETURN(const auto writer, TokenShardWriter::Create(*files_, dir_ / name, type));
    ATOLL_RETURN_IF_ERROR(writer->Append(ids));
    return writer->Finish();
  }
  absl::Status OpenBytes(const std::string& bytes) {
    return TokenShard::Open(*files_, dir_.Write("x.bin", bytes)).status();
  }
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(Shard, GoldenBytes) {
  ASSERT_TRUE(WriteShard("a.bin", TokenType::kUint16, {1, 258, 65535}).ok());
  ASSERT_TRUE(WriteShard("b.bin", TokenType::kUint32, {1, 70000}).ok());
  const std::string a = dir_.Read("a.bin"), b = dir_.Read("b.bin");
  using std::string_literals::operator""s;
  // llm.c: 20240520 = 0x0134d9d8... as little-endian int32, version, count, then zeros up to 1,024
  // bytes.
  EXPECT_EQ(a.substr(0, 12), Raw<int32_t>({20240520, 1, 3}));
  EXPECT_EQ(a.substr(0, 4), "\x88\xd8\x34\x01"s);
  EXPECT_EQ(a.substr(12, 1012), std::string(1012, '\0'));
  EXPECT_EQ(a.substr(1024), "\x01\x00\x02\x01\xff\xff"s);
  EXPECT_EQ(b.substr(0, 12), Raw<int32_t>({20240801, 7, 2}));
  EXPECT_EQ(b.substr(1024), "\x01\x00\x00\x00\x70\x11\x01\x00"s);
  EXPECT_EQ(files_->List(dir_.path())->size(), 2u);  // no temporary file is left
}

TEST_F(Shard, RoundTripOverBlocksWithHashes) {
  std::vector<uint32_t> ids(1200000);  // 2.29 blocks of uint16
  Rng rng(3);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(rng.Below(65536));
  const auto result = WriteShard("r.bin", TokenType::kUint16, ids);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string file = dir_.Read("r.bin");
  EXPECT_EQ(result->tokens, ids.size());
  EXPECT_EQ(result->file_bytes, file.size());
  EXPECT_EQ(result->sha256, Sha256Of(AsBytes(file)));
  ASSERT_EQ(result->blocks.size(), 3u);
  EXPECT_EQ(result->blocks[1], Sha256Of(AsBytes(file.substr(1024 + kBlockBytes, kBlockBytes))));
  EXPECT_EQ(result->blocks[2], Sha256Of(AsBytes(file.substr(1024 + 2 * kBlockBytes))));
  const auto shard = TokenShard::Open(*files_, dir_ / "r.bin");
  ASSERT_TRUE(shard.ok());
  std::vector<uint32_t> back(ids.size());
  ASSERT_TRUE((*shard)->Read(0, back).ok());
  EXPECT_EQ(back, ids);
  std::vector<uint32_t> some(1000);
  ASSERT_TRUE((*shard)->Read(524200, some).ok());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), ids.begin() + 524200));
}

TEST_F(Shard, ReadsAreBounded) {
  ASSERT_TRUE(WriteShard("r.bin", TokenType::kUint32, {1, 2, 3}).ok());
  const auto shard = TokenShard::Open(*files_, dir_ / "r.bin");
  std::vector<uint32_t> two(2);
  EXPECT_TRUE((*shard)->Read(1, two).ok());
  EXPECT_EQ((*shard)->Read(2, two).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*shard)->Read(UINT64_MAX, two).code(), absl::StatusCode::kOutOfRange);
  std::vector<std::byte> raw(12);
  EXPECT_TRUE((*shard)->ReadArea(0, raw).ok());
  EXPECT_EQ((*shard)->ReadArea(1, raw).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(Shard, WriterRefusesIdsThatDoNotFit) {
  EXPECT_EQ(WriteShard("w.bin", TokenType::kUint16, {65536}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteShard("w.bin", TokenType::kUint32, {0x80000000u}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(files_->List(dir_.path())->empty());
}

TEST_F(Shard, BadFilesAreRefusedWithTheReason) {
  const auto header = [](int32_t magic, int32_t version, int32_t tokens) {
    std::string out = Raw<int32_t>({magic, version, tokens});
    out.resize(1024);
    return out;
  };
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"", "has 0 bytes, fewer than the 1024"},
      {std::string(1023, '\0'), "has 1023 bytes, fewer than the 1024"},
      {header(7, 1, 0), "is not a token shard: it begins with 7"},
      {header(20240520, 2, 0), "has version 2; version 1 is read"},
      {header(20240801, 1, 0), "has version 1; version 7 is read"},
      {header(20240520, 1, -1), "has a header with -1 tokens"},
      {header(20240520, 1, 2) + "abc", "must have 1028 bytes for its 2 tokens but has 1027"},
      {header(20240520, 1, 2) + "abcde", "must have 1028 bytes for its 2 tokens but has 1029"},
      {header(20240801, 7, INT32_MAX), "must have 8589935612 bytes"},
  };
  for (const auto& [bytes, message] : bad) {
    const absl::Status status = OpenBytes(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  EXPECT_EQ(TokenShard::Open(*files_, dir_ / "absent.bin").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Shard, AFileCutWhileOpenGivesAnError) {
  ASSERT_TRUE(WriteShard("c.bin", TokenType::kUint16, {1, 2, 3}).ok());
  const auto shard = TokenShard::Open(*files_, dir_ / "c.bin");
  std::filesystem::resize_file(dir_ / "c.bin", 1026);
  std::vector<uint32_t> ids(3);
  EXPECT_EQ((*shard)->Read(0, ids).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(Shard, ReadsNanoGpt) {
  const auto shard = TokenShard::OpenRaw(*files_, dir_.Write("n.bin", Raw<uint16_t>({5, 50256})), TokenType::kUint16);
  ASSERT_TRUE(shard.ok());
  std::vector<uint32_t> ids(2);
  ASSERT_TRUE((*shard)->Read(0, ids).ok());
  EXPECT_EQ(ids, (std::vector<uint32_t>{5, 50256}));
  EXPECT_EQ(TokenShard::OpenRaw(*files_, dir_.Write("o.bin", "abc"), TokenType::kUint16).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The layout of Megatron-LM's indexed_dataset.py: two documents of one and two sequences.
std::string MegatronIndex(uint8_t dtype, std::initializer_list<int32_t> lengths,
                          std::initializer_list<int64_t> pointers, std::initializer_list<int64_t> documents) {
  return std::string("MMIDIDX\0\0", 9) + Raw<uint64_t>({1}) + Raw<uint8_t>({dtype}) +
         Raw<uint64_t>({lengths.size(), documents.size()}) + Raw(lengths) + Raw(pointers) + Raw(documents);
}

TEST_F(Shard, ReadsMegatron) {
  dir_.Write("m.bin", Raw<uint16_t>({10, 11, 12, 13, 14, 15}));
  dir_.Write("m.idx", MegatronIndex(8, {2, 1, 3}, {0, 4, 6}, {0, 1, 3}));
  const auto shard = TokenShard::OpenMegatron(*files_, dir_ / "m");
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ((*shard)->tokens(), 6u);
  EXPECT_EQ((*shard)->document_starts(), (std::vector<uint64_t>{0, 2}));
  std::vector<uint32_t> ids(6);
  ASSERT_TRUE((*shard)->Read(0, ids).ok());
  EXPECT_EQ(ids, (std::vector<uint32_t>{10, 11, 12, 13, 14, 15}));
  dir_.Write("i.bin", Raw<int32_t>({7, -1}));
  dir_.Write("i.idx", MegatronIndex(4, {2}, {0}, {0, 1}));
  const auto negative = TokenShard::OpenMegatron(*files_, dir_ / "i");
  ASSERT_TRUE(negative.ok()) << negative.status();
  EXPECT_EQ((*negative)->Read(0, std::span(ids).first(2)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Shard, BadMegatronIndexesAreRefused) {
  dir_.Write("m.bin", Raw<uint16_t>({10, 11, 12}));
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"MMIDIDX", "too short"},
      {std::string(34, 'x'), "not a Megatron index"},
      {MegatronIndex(2, {3}, {0}, {0, 1}), "dtype code 2"},
      {MegatronIndex(8, {3}, {0}, {0, 1}) + "x", "must have"},
      {MegatronIndex(8, {1, 2}, {0, 4}, {0, 2}), "without gap"},
      {MegatronIndex(8, {-3}, {0}, {0, 1}), "without gap"},
      {MegatronIndex(8, {2}, {0}, {0, 1}), "holds 3 tokens but its index names 2"},
      {MegatronIndex(8, {3}, {0}, {0, 2}), "out of order"},
      {MegatronIndex(8, {3}, {0}, {1, 0}), "out of order"},
  };
  for (const auto& [bytes, message] : bad) {
    dir_.Write("m.idx", bytes);
    const absl::Status status = TokenShard::OpenMegatron(*files_, dir_ / "m").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace atl
