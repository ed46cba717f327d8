// SPDX-License-Identifier: Apache-2.0
#include "common/text/byte_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <string_view>

namespace atl {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr int kWindowLog = 27;
constexpr size_t kMagicBytes = 4;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsGzip(std::string_view head) { return head.starts_with("\x1f\x8b"); }
bool IsZstd(std::string_view head) {
  const bool skippable =
      head.size() >= kMagicBytes && (head[0] & '\xf0') == '\x50' && head.substr(1, 3) == "\x2a\x4d\x18";
  return head.starts_with("\x28\xb5\x2f\xfd") || skippable;
}

// The command that unpacks a recognised but unsupported compression; nullptr for anything else.
const char* Unpacker(std::string_view head) {
  if (head.starts_with(std::string_view("\xfd"
                                        "7zXZ\0",
                                        6)))
    return "xz -dc";
  if (head.starts_with("BZh") && head.substr(4).starts_with("1AY&SY")) return "bzip2 -dc";
  if (head.starts_with("\x04\x22\x4d\x18")) return "lz4 -dc";
  if (head.starts_with("PK\x03\x04")) return "unzip -p";
  return nullptr;
}
bool IsCompressed(std::string_view head) { return IsGzip(head) || IsZstd(head) || Unpacker(head) != nullptr; }

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}
  absl::StatusOr<bool> Read(std::string& out) override {
    const size_t old = out.size();
    out.resize(old + kChunkBytes);
    auto count = stream_->Read(std::as_writable_bytes(std::span(out).subspan(old)));
    out.resize(old + count.value_or(0));
    if (!count.ok()) return count.status();
    at_ += *count;
    return *count > 0;
  }
  uint64_t position_bytes() const override { return at_; }
  std::optional<uint64_t> file_bytes() const override { return stream_->size_bytes(); }

 private:
  std::unique_ptr<InputStream> stream_;
  uint64_t at_ = 0;
};

// Decodes consecutive compressed parts (zstd frames, gzip members) as one stream.
class PartsSource : public ByteSource {
 public:
  absl::StatusOr<bool> Read(std::string& out) override {
    const size_t old = out.size();
    out.resize(old + kChunkBytes);
    const auto count = Fill(std::span(out).subspan(old));
    out.resize(old + count.value_or(0));
    if (!count.ok()) return count.status();
    return *count > 0;
  }
  uint64_t position_bytes() const override { return plain_->position_bytes(); }
  std::optional<uint64_t> file_bytes() const override { return plain_->file_bytes(); }

 protected:
  struct Step {
    size_t used = 0, made = 0;
    bool part_ended = false;
    absl::Status failure = absl::OkStatus();  // after the bytes made
  };
  // `in`: bytes already read from the file; may be empty. `name`: name of the compression and its
  // program.
  PartsSource(std::unique_ptr<ByteSource> plain, std::string in, std::string path, std::string name, std::string ending)
      : path_(std::move(path)),
        name_(std::move(name)),
        ending_(std::move(ending)),
        plain_(std::move(plain)),
        in_(std::move(in)) {}
  virtual bool Begins(std::string_view head) const = 0;
  // Decodes a part of `in`. Produces no bytes only when it needs more input.
  virtual absl::StatusOr<Step> Decode(std::string_view in, std::span<char> out) = 0;

  absl::Status Bad(const std::string& what) const { return absl::InvalidArgumentError(absl::StrCat(path_, " ", what)); }
  absl::Status Unsupported(const std::string& what) const {
    return absl::UnimplementedError(absl::StrCat(path_, " ", what));
  }
  absl::Status Damaged(const char* reason) const {
    return Bad(absl::StrCat("is damaged: ", name_, " reports \"", reason == nullptr ? "data error" : reason,
                            "\"; copy or download it again"));
  }
  const std::string path_, name_, ending_;

 private:
  absl::StatusOr<size_t> Fill(std::span<char> out) {
    for (;;) {
      if (!inside_) {
        ATOLL_ASSIGN_OR_RETURN(inside_, FindPart());
        if (!inside_) return size_t{0};
      }
      ATOLL_RETURN_IF_ERROR(failed_);
      ATOLL_ASSIGN_OR_RETURN(const Step step, Decode(std::string_view(in_).substr(used_), out));
      used_ += step.used;
      inside_ = !step.part_ended;
      failed_ = step.failure;
      if (step.made > 0) return step.made;
      ATOLL_RETURN_IF_ERROR(failed_);
      if (!inside_ || step.used > 0) continue;
      ATOLL_ASSIGN_OR_RETURN(const bool more, ReadMore());
      if (!more)
        return Bad(absl::StrCat("ends in the middle of its ", name_, " data: the file is incomplete; copy it again"));
    }
  }

  absl::StatusOr<bool> ReadMore() {
    in_.erase(0, used_);
    used_ = 0;
    return plain_->Read(in_);
  }

  // True when another part begins at `used_`, false at the end of the file.
  absl::StatusOr<bool> FindPart() {
    for (bool more = true;;) {
      while (used_ < in_.size() && in_[used_] == '\0') ++used_;  // zero padding from tapes and block copies
      if (in_.size() - used_ >= kMagicBytes || !more) break;
      ATOLL_ASSIGN_OR_RETURN(more, ReadMore());
    }
    if (used_ == in_.size()) return false;
    if (Begins(std::string_view(in_).substr(used_))) return true;
    const uint64_t good = plain_->position_bytes() - (in_.size() - used_);
    if (good == 0) {
      return Unsupported(absl::StrCat("is named ", ending_, ", but its first bytes are not those of ", name_,
                                      ". If it is not compressed, rename it without ", ending_,
                                      "; otherwise copy or download it again"));
    }
    const std::string what =
        absl::StrCat("contains other data than ", name_, " from byte ", good,
                     " on. To keep the data before it: head -c ", good, " ", path_, " > whole-", NameOf(path_));
    return IsCompressed(std::string_view(in_).substr(used_)) ? Unsupported(what) : Bad(what);
  }

  std::unique_ptr<ByteSource> plain_;
  std::string in_;
  size_t used_ = 0;
  bool inside_ = false;  // a part has begun and not ended
  absl::Status failed_;  // to be returned by the next Fill
};

class ZstdSource final : public PartsSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> plain, std::string in, std::string path)
      : PartsSource(std::move(plain), std::move(in), std::move(path), "zstd", ".zst"), context_(ZSTD_createDCtx()) {
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

 private:
  bool Begins(std::string_view head) const override { return IsZstd(head); }
  absl::StatusOr<Step> Decode(std::string_view in, std::span<char> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t hint = ZSTD_decompressStream(context_, &to, &from);
    if (!ZSTD_isError(hint)) return Step{from.pos, to.pos, hint == 0};
    switch (ZSTD_getErrorCode(hint)) {
      case ZSTD_error_dictionary_wrong:
        return Unsupported(
            absl::StrCat("was compressed with a dictionary (zstd -D), which is not supported. Compress it again: ",
                         "zstd -dc -D DICTIONARY ", path_, " | zstd -o plain-", NameOf(path_)));
      case ZSTD_error_frameParameter_windowTooLarge:
        return Unsupported(
            absl::StrCat("was compressed with a window of more than ", 1 << (kWindowLog - 20),
                         " MiB (zstd --long), which is not supported. Compress it again: zstd -dc --long=31 ", path_,
                         " | zstd -o smaller-", NameOf(path_)));
      case ZSTD_error_memory_allocation: return absl::ResourceExhaustedError("no memory to decode zstd");
      default: return Damaged(ZSTD_getErrorName(hint));
    }
  }
  ZSTD_DCtx* context_;
};

class GzipSource final : public PartsSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> plain, std::string in, std::string path)
      : PartsSource(std::move(plain), std::move(in), std::move(path), "gzip", ".gz") {
    has_memory_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

 private:
  static constexpr int kGzipOnly = 15 + 16;
  bool Begins(std::string_view head) const override { return IsGzip(head); }
  absl::StatusOr<Step> Decode(std::string_view in, std::span<char> out) override {
    if (!has_memory_) return absl::ResourceExhaustedError("no memory to decode gzip");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    const bool good = code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
    const Step step{in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == Z_STREAM_END,
                    good ? absl::OkStatus() : Damaged(stream_.msg)};
    if (step.part_ended) inflateReset(&stream_);
    return step;
  }
  z_stream stream_{};
  bool has_memory_ = false;
};

// Detects the file's format at the first Read.
class SniffedSource final : public ByteSource {
 public:
  SniffedSource(std::unique_ptr<ByteSource> plain, std::string path)
      : source_(std::move(plain)), path_(std::move(path)) {}
  absl::StatusOr<bool> Read(std::string& out) override {
    if (is_known_) return source_->Read(out);
    is_known_ = true;
    std::string head;
    for (bool more = true; more && head.size() < kHeadBytes;) {
      ATOLL_ASSIGN_OR_RETURN(more, source_->Read(head));
    }
    ATOLL_RETURN_IF_ERROR(CheckNotLfsPointer(path_, head));
    if (const char* program = Unpacker(head)) {
      return absl::UnimplementedError(absl::StrCat(path_, " has a compression that is not supported; use: ", program,
                                                   " ", path_, " | gzip > ", NameOf(path_), ".gz"));
    }
    const size_t old = out.size();
    if (IsGzip(head) || (EndsWith(".gz") && !IsZstd(head))) {
      source_ = std::make_unique<GzipSource>(std::move(source_), std::move(head), path_);
    } else if (IsZstd(head) || EndsWith(".zst")) {
      source_ = std::make_unique<ZstdSource>(std::move(source_), std::move(head), path_);
    } else {
      out += head;
      return WithoutMark(out, old);
    }
    ATOLL_ASSIGN_OR_RETURN(bool more, source_->Read(out));
    while (more && out.size() - old < kByteOrderMark.size()) {
      ATOLL_ASSIGN_OR_RETURN(more, source_->Read(out));
    }
    return WithoutMark(out, old);
  }
  uint64_t position_bytes() const override { return source_->position_bytes(); }
  std::optional<uint64_t> file_bytes() const override { return source_->file_bytes(); }

 private:
  static constexpr size_t kHeadBytes = 64;

  bool EndsWith(const char* ending) const { return std::string_view(path_).ends_with(ending); }
  // Removes the mark of UTF-8, refuses that of UTF-16. Returns true when other bytes were read, or
  // more may follow.
  absl::StatusOr<bool> WithoutMark(std::string& out, size_t old) {
    const std::string_view head = std::string_view(out).substr(old);
    if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
      return absl::UnimplementedError(
          absl::StrCat(path_, " is UTF-16, which is not supported; convert it to UTF-8: ", "iconv -f UTF-16 -t UTF-8"));
    }
    if (out.compare(old, kByteOrderMark.size(), kByteOrderMark) == 0) out.erase(old, kByteOrderMark.size());
    if (out.size() > old) return true;
    return source_->Read(out);
  }

  std::unique_ptr<ByteSource> source_;
  std::string path_;
  bool is_known_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlain(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream, files.OpenStream(path));
  return std::make_unique<PlainSource>(std::move(stream));
}

std::unique_ptr<ByteSource> Decompressed(std::unique_ptr<ByteSource> plain, const std::string& path) {
  return std::make_unique<SniffedSource>(std::move(plain), path);
}

}  // namespace atl
