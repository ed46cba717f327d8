// SPDX-License-Identifier: Apache-2.0
#include "common/format/token_shard.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace atl {
namespace {

// Magic numbers and versions of llm.c, part of the format.
constexpr uint32_t kMagic16 = 20240520, kVersion16 = 1;
constexpr uint32_t kMagic32 = 20240801, kVersion32 = 7;
// Megatron's index format.
constexpr char kMegatronMagic[] = "MMIDIDX\0";  // nine bytes with the final zero
constexpr uint64_t kMegatronHeadBytes = 34;
constexpr uint8_t kMegatronInt32 = 4, kMegatronUint16 = 8;
constexpr uint64_t kMegatronSequences = uint64_t{1} << 28;

template <typename T>
T Load(const std::byte* at) {
  T value;  // the machine is little-endian, as the formats are
  std::memcpy(&value, at, sizeof(T));
  return value;
}

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, what));
}

struct MegatronHead {
  TokenType type = TokenType::kUint16;
  uint64_t sequences = 0;
  uint64_t documents = 0;  // entries of the document table, one more than documents
};

absl::StatusOr<MegatronHead> ParseMegatronHead(std::span<const std::byte> raw, uint64_t file_bytes,
                                               const std::string& path) {
  if (std::memcmp(raw.data(), kMegatronMagic, 9) != 0 || Load<uint64_t>(raw.data() + 9) != 1) {
    return Bad(path, " is not a Megatron index of version 1");
  }
  const uint8_t code = Load<uint8_t>(raw.data() + 17);
  if (code != kMegatronUint16 && code != kMegatronInt32) {
    return Bad(path, absl::StrCat(" has dtype code ", code, "; 8 (uint16) and 4 (int32) are read"));
  }
  MegatronHead head{code == kMegatronUint16 ? TokenType::kUint16 : TokenType::kUint32, Load<uint64_t>(raw.data() + 18),
                    Load<uint64_t>(raw.data() + 26)};
  if (head.sequences > kMegatronSequences || head.documents > kMegatronSequences) {
    return Bad(path, absl::StrCat(" names more than ", kMegatronSequences, " sequences"));
  }
  const uint64_t expected = kMegatronHeadBytes + head.sequences * 12 + head.documents * 8;
  if (expected != file_bytes) {
    return Bad(path, absl::StrCat(" must have ", expected, " bytes by its header but has ", file_bytes));
  }
  return head;
}

// Sequence lengths and pointers must describe the .bin as one run of tokens without holes.
absl::Status CheckMegatronRun(std::span<const std::byte> table, const MegatronHead& head, const std::string& path,
                              std::vector<uint64_t>& starts) {
  uint64_t tokens = 0;
  starts.reserve(head.sequences + 1);
  for (uint64_t i = 0; i < head.sequences; ++i) {
    const int32_t length = Load<int32_t>(table.data() + 4 * i);
    const int64_t pointer = Load<int64_t>(table.data() + 4 * head.sequences + 8 * i);
    if (length < 0 || pointer < 0 || static_cast<uint64_t>(pointer) != tokens * TokenBytes(head.type)) {
      return Bad(path, absl::StrCat(": sequence ", i, " has length ", length, " at byte ", pointer,
                                    "; sequences must follow each other without gap"));
    }
    starts.push_back(tokens);
    tokens += static_cast<uint64_t>(length);
  }
  starts.push_back(tokens);
  return absl::OkStatus();
}

// Converts the index's document table, which has sequence numbers, to the first token of each document.
absl::StatusOr<std::vector<uint64_t>> MegatronDocuments(std::span<const std::byte> table, const MegatronHead& head,
                                                        const std::string& path, const std::vector<uint64_t>& starts) {
  std::vector<uint64_t> documents;
  int64_t before = 0;
  for (uint64_t i = 0; i < head.documents; ++i) {
    const int64_t sequence = Load<int64_t>(table.data() + 12 * head.sequences + 8 * i);
    if (sequence < before || static_cast<uint64_t>(sequence) > head.sequences) {
      return Bad(path, absl::StrCat(": document ", i, " begins at sequence ", sequence, ", out of order"));
    }
    before = sequence;
    if (i + 1 < head.documents)
      documents.push_back(starts[static_cast<size_t>(sequence)]);  // the last entry is the end
  }
  return documents;
}

}  // namespace

uint64_t TokenBytes(TokenType type) { return type == TokenType::kUint16 ? 2 : 4; }
std::string TokenTypeName(TokenType type) { return type == TokenType::kUint16 ? "uint16" : "uint32"; }
TokenType TokenTypeFor(uint32_t vocab_size) { return vocab_size <= 65536 ? TokenType::kUint16 : TokenType::kUint32; }

void DecodeTokens(TokenType type, Bytes raw, std::span<uint32_t> ids) {
  ATOLL_CHECK(raw.size() == ids.size() * TokenBytes(type), "raw bytes and ids are of one length");
  if (type == TokenType::kUint32) {
    if (!ids.empty()) std::memcpy(ids.data(), raw.data(), raw.size());
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = Load<uint16_t>(raw.data() + 2 * i);
}

void EncodeTokens(TokenType type, std::span<const uint32_t> ids, std::string& raw) {
  const size_t at = raw.size();
  raw.resize(at + ids.size() * TokenBytes(type));
  char* out = raw.data() + at;
  for (const uint32_t id : ids) {
    std::memcpy(out, &id, TokenBytes(type));  // little-endian: the low bytes come first
    out += TokenBytes(type);
  }
}

std::string ShardHeader(TokenType type, uint64_t tokens) {
  ATOLL_CHECK(tokens <= kShardTokens, "a shard's token count fits an int32");
  const uint32_t words[3] = {type == TokenType::kUint16 ? kMagic16 : kMagic32,
                             type == TokenType::kUint16 ? kVersion16 : kVersion32, static_cast<uint32_t>(tokens)};
  std::string header(kShardHeaderBytes, '\0');
  std::memcpy(header.data(), words, sizeof(words));
  return header;
}

absl::StatusOr<ShardShape> ParseShardHeader(Bytes header, uint64_t file_bytes, const std::string& path) {
  if (header.size() < kShardHeaderBytes) {
    return Bad(path, absl::StrCat(" has ", file_bytes, " bytes, fewer than the 1024 of a token shard's header"));
  }
  const uint32_t magic = Load<uint32_t>(header.data());
  const uint32_t version = Load<uint32_t>(header.data() + 4);
  const int32_t tokens = Load<int32_t>(header.data() + 8);
  if (magic != kMagic16 && magic != kMagic32) {
    return Bad(path, absl::StrCat(" is not a token shard: it begins with ", magic, " instead of ", kMagic16, " or ",
                                  kMagic32));
  }
  const ShardShape shape{magic == kMagic16 ? TokenType::kUint16 : TokenType::kUint32,
                         tokens < 0 ? 0 : static_cast<uint64_t>(tokens), kShardHeaderBytes};
  const uint32_t expected_version = magic == kMagic16 ? kVersion16 : kVersion32;
  if (version != expected_version) {
    return Bad(path, absl::StrCat(" has version ", version, "; version ", expected_version, " is read"));
  }
  if (tokens < 0) return Bad(path, absl::StrCat(" has a header with ", tokens, " tokens"));
  const uint64_t expected = kShardHeaderBytes + shape.tokens * TokenBytes(shape.type);
  if (expected != file_bytes) {
    return Bad(path,
               absl::StrCat(" must have ", expected, " bytes for its ", shape.tokens, " tokens but has ", file_bytes));
  }
  return shape;
}

absl::StatusOr<std::unique_ptr<TokenShard>> TokenShard::Open(const Files& files, const std::string& path) {
  std::unique_ptr<TokenShard> shard(new TokenShard());
  shard->path_ = path;
  ATOLL_ASSIGN_OR_RETURN(shard->file_, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, shard->file_->Size());
  std::vector<std::byte> header(std::min(size, kShardHeaderBytes));
  ATOLL_RETURN_IF_ERROR(shard->file_->ReadAt(0, header));
  ATOLL_ASSIGN_OR_RETURN(shard->shape_, ParseShardHeader(header, size, path));
  return shard;
}

absl::StatusOr<std::unique_ptr<TokenShard>> TokenShard::OpenRaw(const Files& files, const std::string& path,
                                                                TokenType type) {
  std::unique_ptr<TokenShard> shard(new TokenShard());
  shard->path_ = path;
  ATOLL_ASSIGN_OR_RETURN(shard->file_, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, shard->file_->Size());
  if (size % TokenBytes(type) != 0) {
    return Bad(path,
               absl::StrCat(" has ", size, " bytes, which is not a multiple of ", TokenTypeName(type), " tokens"));
  }
  shard->shape_ = ShardShape{type, size / TokenBytes(type), 0};
  return shard;
}

absl::StatusOr<std::unique_ptr<TokenShard>> TokenShard::OpenMegatron(const Files& files, const std::string& prefix) {
  const std::string index_path = prefix + ".idx";
  ATOLL_ASSIGN_OR_RETURN(const auto index, files.OpenForRead(index_path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t index_bytes, index->Size());
  if (index_bytes < kMegatronHeadBytes) return Bad(index_path, " is too short for a Megatron index");
  std::vector<std::byte> head_bytes(kMegatronHeadBytes);
  ATOLL_RETURN_IF_ERROR(index->ReadAt(0, head_bytes));
  ATOLL_ASSIGN_OR_RETURN(const MegatronHead head, ParseMegatronHead(head_bytes, index_bytes, index_path));
  std::vector<std::byte> table(index_bytes - kMegatronHeadBytes);
  ATOLL_RETURN_IF_ERROR(index->ReadAt(kMegatronHeadBytes, table));
  std::vector<uint64_t> starts;
  ATOLL_RETURN_IF_ERROR(CheckMegatronRun(table, head, index_path, starts));
  ATOLL_ASSIGN_OR_RETURN(auto documents, MegatronDocuments(table, head, index_path, starts));
  ATOLL_ASSIGN_OR_RETURN(auto shard, OpenRaw(files, prefix + ".bin", head.type));
  if (shard->tokens() != starts.back()) {
    return Bad(shard->path(), absl::StrCat(" holds ", shard->tokens(), " tokens but its index names ", starts.back()));
  }
  shard->document_starts_ = std::move(documents);
  return shard;
}

absl::Status TokenShard::ReadArea(uint64_t offset_bytes, std::span<std::byte> out) const {
  if (offset_bytes > area_bytes() || out.size() > area_bytes() - offset_bytes) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": bytes ", offset_bytes, " to ", offset_bytes + out.size(),
                                              " lie beyond the ", area_bytes(), " of its token area"));
  }
  return file_->ReadAt(shape_.area_offset_bytes + offset_bytes, out);
}

absl::Status TokenShard::Read(uint64_t first, std::span<uint32_t> out) const {
  if (first > tokens() || out.size() > tokens() - first) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": tokens ", first, " to ", first + out.size(), " lie beyond its ", tokens(), " tokens"));
  }
  std::vector<std::byte> raw(out.size() * TokenBytes(type()));
  ATOLL_RETURN_IF_ERROR(ReadArea(first * TokenBytes(type()), raw));
  DecodeTokens(type(), raw, out);
  const auto negative = std::find_if(out.begin(), out.end(), [](uint32_t id) { return id > INT32_MAX; });
  if (negative == out.end()) return absl::OkStatus();
  return Bad(path_, absl::StrCat(": token ", first + static_cast<uint64_t>(negative - out.begin()), " is ", *negative,
                                 ", which is not a token id"));
}

}  // namespace atl
