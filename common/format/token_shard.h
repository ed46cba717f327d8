// SPDX-License-Identifier: Apache-2.0
// Token shards. Native format: llm.c's .bin (docs/formats/token_shard.md), a header of 256
// little-endian int32 (magic, version, token count, zeros), then the tokens as uint16 (magic
// 20240520, version 1) or uint32 (magic 20240801, version 7). Also readable: nanoGPT's headerless
// .bin and Megatron's .idx/.bin pairs. The bytes of the tokens are the shard's token area; the
// corpus manifest counts blocks from its start.
#ifndef ATOLL_COMMON_FORMAT_TOKEN_SHARD_H_
#define ATOLL_COMMON_FORMAT_TOKEN_SHARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

enum class TokenType { kUint16, kUint32 };  // names in manifests: "uint16", "uint32"

constexpr uint64_t kShardHeaderBytes = 1024;
constexpr uint64_t kShardTokens = (uint64_t{1} << 31) - 1;  // in one file; the header's count is a positive int32

uint64_t TokenBytes(TokenType type);
std::string TokenTypeName(TokenType type);
// The smallest type that holds ids below `vocab_size`.
TokenType TokenTypeFor(uint32_t vocab_size);

// Decodes little-endian tokens. `raw.size()` must be `ids.size() * TokenBytes(type)`.
void DecodeTokens(TokenType type, Bytes raw, std::span<uint32_t> ids);
// Appends ids as little-endian bytes. Every id must fit the type.
void EncodeTokens(TokenType type, std::span<const uint32_t> ids, std::string& raw);

// Returns the first 1,024 bytes of a native shard. Requires tokens <= kShardTokens.
std::string ShardHeader(TokenType type, uint64_t tokens);

// Facts from a file's header.
struct ShardShape {
  TokenType type = TokenType::kUint16;
  uint64_t tokens = 0;
  uint64_t area_offset_bytes = 0;  // offset of the token area in the file
};

// Parses the header of a native shard and checks it against the file's length. InvalidArgument
// describes the fault.
absl::StatusOr<ShardShape> ParseShardHeader(Bytes header, uint64_t file_bytes, const std::string& path);

// An open shard. Immutable after Open; several threads may call Read. Reads with pread, so that
// truncation of an open file causes an error, not a signal.
class TokenShard {
 public:
  // Opens a native shard. NotFound; InvalidArgument when damaged or of another kind.
  static absl::StatusOr<std::unique_ptr<TokenShard>> Open(const Files& files, const std::string& path);
  // Opens a nanoGPT file, which contains only tokens. InvalidArgument when the length is not a
  // multiple of the token size.
  static absl::StatusOr<std::unique_ptr<TokenShard>> OpenRaw(const Files& files, const std::string& path,
                                                             TokenType type);
  // Opens a Megatron pair: `prefix`.idx and `prefix`.bin, of uint16 (code 8) or int32 (code 4). InvalidArgument
  // unless the sequences are contiguous and cover `prefix`.bin.
  static absl::StatusOr<std::unique_ptr<TokenShard>> OpenMegatron(const Files& files, const std::string& prefix);

  TokenType type() const { return shape_.type; }
  uint64_t tokens() const { return shape_.tokens; }
  uint64_t area_bytes() const { return shape_.tokens * TokenBytes(shape_.type); }
  const std::string& path() const { return path_; }
  // First token of each document, ascending, from 0; only for Megatron, otherwise empty.
  const std::vector<uint64_t>& document_starts() const { return document_starts_; }

  // Reads tokens [first, first + out.size()). OutOfRange beyond the end; InvalidArgument for a
  // negative int32 token.
  absl::Status Read(uint64_t first, std::span<uint32_t> out) const;
  // Reads bytes [offset, offset + out.size()) of the token area.
  absl::Status ReadArea(uint64_t offset_bytes, std::span<std::byte> out) const;

 private:
  TokenShard() = default;
  std::string path_;
  std::unique_ptr<File> file_;
  ShardShape shape_;
  std::vector<uint64_t> document_starts_;
};

// Writes a native shard. Tokens are written to a temporary file next to `path`; Finish puts the
// header before them, so that memory does not grow with the shard. Not thread-safe. The destructor
// of an unfinished writer removes its files.
class TokenShardWriter {
 public:
  struct Result {
    uint64_t tokens = 0;
    uint64_t file_bytes = 0;
    Sha256 sha256;               // of the whole file
    std::vector<Sha256> blocks;  // one per kBlockBytes of the token area, the last may be shorter
  };
  static absl::StatusOr<std::unique_ptr<TokenShardWriter>> Create(Files& files, std::string path, TokenType type);
  ~TokenShardWriter();
  // InvalidArgument when an id does not fit the type or the shard would exceed kShardTokens;
  // ResourceExhausted: disk full.
  absl::Status Append(std::span<const uint32_t> ids);
  uint64_t tokens() const { return tokens_; }
  // Writes header and tokens, flushes, renames, flushes the directory.
  absl::StatusOr<Result> Finish();

 private:
  TokenShardWriter(Files& files, std::string path, TokenType type);
  absl::Status FlushBuffer();

  Files& files_;
  std::string path_;
  TokenType type_;
  std::unique_ptr<File> area_;
  std::string buffer_;
  uint64_t tokens_ = 0;
  bool finished_ = false;
};

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_TOKEN_SHARD_H_
