#include "common/text/byte_source.h"

#include <zstd.h>

#include <algorithm>

namespace atl {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr int kWindowLog = 27;

class PlainSource final : public ByteSource {
 public:
  PlainSource(std::unique_ptr<File> file, uint64_t size) : file_(std::move(file)), size_(size) {}
  absl::StatusOr<bool> Read(std::string& out) override {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(kChunkBytes, size_ - at_));
    if (count == 0) return false;
    const size_t old = out.size();
    out.resize(old + count);
    ATOLL_RETURN_IF_ERROR(file_->ReadAt(at_, std::as_writable_bytes(std::span(out).subspan(old))));
    at_ += count;
    return true;
  }
  uint64_t position_bytes() const override { return at_; }
  uint64_t file_bytes() const override { return size_; }

 private:
  std::unique_ptr<File> file_;
  uint64_t size_ = 0, at_ = 0;
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> plain, std::string path)
      : plain_(std::move(plain)), path_(std::move(path)), context_(ZSTD_createDCtx()) {
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  absl::StatusOr<bool> Read(std::string& out) override {
    const size_t old = out.size();
    out.resize(old + kChunkBytes);
    ZSTD_outBuffer to{out.data() + old, kChunkBytes, 0};
    while (to.pos == 0) {
      ATOLL_ASSIGN_OR_RETURN(const bool more, Refill());
      if (!more && !pending_output_) {
        out.resize(old);
        if (inside_frame_) return Bad("ends in the middle of a zstd frame: it was cut");
        return false;
      }
      ATOLL_RETURN_IF_ERROR(Decompress(to, more));
    }
    out.resize(old + to.pos);
    return true;
  }
  uint64_t position_bytes() const override { return plain_->position_bytes(); }
  uint64_t file_bytes() const override { return plain_->file_bytes(); }

 private:
  absl::Status Bad(const std::string& what) const { return absl::InvalidArgumentError(absl::StrCat(path_, " ", what)); }

  // True while compressed bytes are at hand.
  absl::StatusOr<bool> Refill() {
    if (used_ < in_.size()) return true;
    in_.clear();
    used_ = 0;
    return plain_->Read(in_);
  }

  absl::Status Decompress(ZSTD_outBuffer& to, bool more) {
    ZSTD_inBuffer from{in_.data(), in_.size(), used_};
    const size_t hint = ZSTD_decompressStream(context_, &to, &from);
    if (ZSTD_isError(hint)) return Bad(absl::StrCat("is damaged: zstd says \"", ZSTD_getErrorName(hint), "\""));
    if (!more && from.pos == used_ && to.pos == 0) return Bad("ends in the middle of a zstd frame: it was cut");
    used_ = from.pos;
    inside_frame_ = hint != 0;
    pending_output_ = to.pos == to.size && inside_frame_;
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSource> plain_;
  std::string path_;
  ZSTD_DCtx* context_;
  std::string in_;
  size_t used_ = 0;
  bool inside_frame_ = false;    // a frame has begun and not ended
  bool pending_output_ = false;  // the output was full within a frame: more may come without input
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlain(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(auto file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  return std::make_unique<PlainSource>(std::move(file), size);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenZstd(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(auto plain, OpenPlain(files, path));
  return std::make_unique<ZstdSource>(std::move(plain), path);
}

}  // namespace atl
