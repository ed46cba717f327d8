// SPDX-License-Identifier: Apache-2.0
#include "common/text/document_reader.h"

#include <algorithm>
#include <cctype>

#include "common/base/utf8.h"
#include "common/text/byte_source.h"
#include "common/text/json_field.h"

namespace atl {
namespace {

constexpr size_t kPieceMinBytes = 4096, kPieceMaxBytes = 8192;

// A stream with a window that is filled on demand.
class Window {
 public:
  Window(std::unique_ptr<ByteSource> source, std::string path) : source_(std::move(source)), path_(std::move(path)) {}

  // Reads until at least `bytes` unread bytes are available or the stream ends.
  absl::Status Fill(size_t bytes) {
    while (!ended_ && unread() < bytes) {
      Compact();
      const auto more = source_->Read(buffer_);
      broken_ = !more.ok();
      if (!more.ok()) return more.status();
      ended_ = !*more;
    }
    return absl::OkStatus();
  }
  // Returns the length up to and including the next '\n' from unread position `from`, or to the end
  // of the stream. OutOfRange beyond kDocumentBytes.
  absl::StatusOr<size_t> LineFrom(size_t from) {
    for (size_t searched = from;;) {
      const size_t found = buffer_.find('\n', at_ + searched);
      if (found != std::string::npos) return found + 1 - at_;
      if (ended_) return unread();
      searched = unread();
      ATOLL_RETURN_IF_ERROR(CheckSize(searched));
      ATOLL_RETURN_IF_ERROR(Fill(searched + 1));
    }
  }
  absl::Status CheckSize(size_t bytes) const {
    if (bytes <= kDocumentBytes) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(path_, ": the document that begins in line ", line_,
                                              " has more than the ", kDocumentBytes,
                                              " bytes of the limit for one document"));
  }
  std::string Take(size_t bytes) {
    std::string out = buffer_.substr(at_, bytes);
    line_ += static_cast<uint64_t>(std::count(out.begin(), out.end(), '\n'));
    at_ += bytes;
    return out;
  }
  void DropUnread() { (void)Take(unread()); }
  // Skips the rest of the line, whatever its length.
  absl::Status DropLine() {
    for (;;) {
      const size_t found = buffer_.find('\n', at_);
      at_ = found == std::string::npos ? buffer_.size() : found + 1;
      if (found != std::string::npos) ++line_;
      if (found != std::string::npos || ended_) return absl::OkStatus();
      ATOLL_RETURN_IF_ERROR(Fill(1));
    }
  }
  char At(size_t i) const { return buffer_[at_ + i]; }
  size_t FindLast(const std::string& what, size_t before) const {
    const size_t found = before < what.size() ? std::string::npos : buffer_.rfind(what, at_ + before - what.size());
    return found == std::string::npos || found < at_ ? std::string::npos : found - at_ + what.size();
  }
  size_t unread() const { return buffer_.size() - at_; }
  bool ended() const { return ended_; }
  bool broken() const { return broken_; }  // the stream cannot continue
  uint64_t line() const { return line_; }  // of the first unread byte, from 1
  const std::string& path() const { return path_; }
  const ByteSource& source() const { return *source_; }

 private:
  void Compact() {
    if (at_ < buffer_.size() / 2) return;
    buffer_.erase(0, at_);
    at_ = 0;
  }
  std::unique_ptr<ByteSource> source_;
  std::string path_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  bool ended_ = false, broken_ = false;
};

class WindowReader : public DocumentReader {
 public:
  WindowReader(Window window, const DocumentOptions& options) : window_(std::move(window)), options_(options) {}
  absl::StatusOr<bool> Next(std::string& text) override {
    for (;;) {
      auto more = Take(text);
      if (absl::IsOutOfRange(more.status())) {  // too long: reported like other bad input
        const absl::Status dropped = options_.on_bad ? Drop() : absl::OkStatus();
        more = dropped.ok() ? absl::InvalidArgumentError(more.status().message()) : dropped;
      }
      if (absl::IsInvalidArgument(more.status()) && options_.on_bad) {
        options_.on_bad(more.status());
        if (window_.broken()) return false;
        continue;
      }
      if (!more.ok() || !*more || !text.empty()) return more;
    }
  }
  absl::Status Probe() override { return file_bytes() ? window_.Fill(1) : absl::OkStatus(); }
  uint64_t repaired_documents() const override { return repaired_; }
  uint64_t position_bytes() const override { return window_.source().position_bytes(); }
  std::optional<uint64_t> file_bytes() const override { return window_.source().file_bytes(); }

 protected:
  // Reads the next document, which may be empty or bad; false at the end.
  virtual absl::StatusOr<bool> Take(std::string& text) = 0;
  // Skips a document that is too long.
  virtual absl::Status Drop() { return window_.DropLine(); }

  absl::Status Bad(uint64_t line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(window_.path(), ", line ", line, ": ", what));
  }
  // InvalidArgument, with line and column, unless `text` is UTF-8. `line`: where `text` began.
  absl::Status CheckUtf8(const std::string& text, uint64_t line) const {
    const size_t bad = FirstInvalidUtf8(text);
    if (bad == text.size()) return absl::OkStatus();
    const auto breaks = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(bad), '\n');
    const size_t line_begin = bad == 0 ? std::string::npos : text.rfind('\n', bad - 1);
    const size_t column = line_begin == std::string::npos ? bad : bad - line_begin - 1;
    return Bad(line + static_cast<uint64_t>(breaks),
               absl::StrCat("byte ", column + 1, " is not valid UTF-8; convert the file to UTF-8 first"));
  }
  Window window_;
  const DocumentOptions options_;
  uint64_t repaired_ = 0;
};

// One JSON object per line. Empty lines are skipped.
class JsonLines final : public WindowReader {
 public:
  JsonLines(Window window, const DocumentOptions& options)
      : WindowReader(std::move(window), options), field_(options.json_field) {}

 private:
  absl::StatusOr<bool> Take(std::string& text) override {
    text.clear();
    ATOLL_RETURN_IF_ERROR(window_.Fill(1));
    if (window_.unread() == 0) return false;
    ATOLL_ASSIGN_OR_RETURN(const size_t size, window_.LineFrom(0));
    const uint64_t number = window_.line();
    const std::string line = window_.Take(size);
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) return true;
    ATOLL_RETURN_IF_ERROR(CheckUtf8(line, number));
    auto value = field_.Of(line);
    if (!value.ok()) return Bad(number, std::string(value.status().message()));
    repaired_ += value->repaired ? 1 : 0;
    text = std::move(value->text);
    return true;
  }
  JsonField field_;
};

// Plain text, split by TextSplit.
class PlainText final : public WindowReader {
 public:
  PlainText(Window window, const DocumentOptions& options)
      : WindowReader(std::move(window), options), split_(options.text_split) {}

 private:
  absl::StatusOr<bool> Take(std::string& text) override {
    text.clear();
    ATOLL_RETURN_IF_ERROR(window_.Fill(1));
    if (window_.unread() == 0) return false;
    ATOLL_ASSIGN_OR_RETURN(const size_t size, Size());
    const uint64_t line = window_.line();
    std::string taken = window_.Take(size);
    ATOLL_RETURN_IF_ERROR(CheckUtf8(taken, line));
    if (split_ == TextSplit::kLines || split_ == TextSplit::kParagraphs) TrimBreaks(taken);
    text = std::move(taken);
    return true;
  }
  absl::Status Drop() override {
    if (split_ == TextSplit::kParagraphs) window_.DropUnread();  // everything inspected so far
    for (;;) {
      ATOLL_RETURN_IF_ERROR(window_.DropLine());
      const bool at_end = window_.ended() && window_.unread() == 0;
      if (split_ != TextSplit::kFile || at_end) return absl::OkStatus();
    }
  }

  // Length of the next document, at least 1.
  absl::StatusOr<size_t> Size() {
    switch (split_) {
      case TextSplit::kPieces: return PieceSize();
      case TextSplit::kLines: return window_.LineFrom(0);
      case TextSplit::kParagraphs: return ParagraphSize();
      case TextSplit::kFile: break;
    }
    ATOLL_RETURN_IF_ERROR(window_.Fill(kDocumentBytes + 1));
    ATOLL_RETURN_IF_ERROR(window_.CheckSize(window_.unread()));
    return window_.unread();
  }

  absl::StatusOr<size_t> PieceSize() {
    ATOLL_RETURN_IF_ERROR(window_.Fill(kPieceMaxBytes + 1));
    if (window_.ended() && window_.unread() <= kPieceMaxBytes) return window_.unread();
    for (const char* end : {"\n\n", "\n", " "}) {
      const size_t size = window_.FindLast(end, kPieceMaxBytes);
      if (size != std::string::npos && size >= kPieceMinBytes) return size;
    }
    size_t size = kPieceMaxBytes;
    while (size > kPieceMaxBytes - 4 && (static_cast<uint8_t>(window_.At(size)) & 0xc0) == 0x80) --size;
    return size;
  }

  // Length up to and including the first empty or blank line.
  absl::StatusOr<size_t> ParagraphSize() {
    for (size_t begin = 0;;) {
      ATOLL_ASSIGN_OR_RETURN(const size_t end, window_.LineFrom(begin));
      ATOLL_RETURN_IF_ERROR(window_.CheckSize(end));
      bool blank = true;
      for (size_t i = begin; i < end; ++i) blank &= std::isspace(static_cast<uint8_t>(window_.At(i))) != 0;
      if (end == begin || blank || (window_.ended() && end == window_.unread())) return end;
      begin = end;
    }
  }

  static void TrimBreaks(std::string& text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) text.clear();
  }
  TextSplit split_;
};

// kByName when the name does not determine the format.
DocumentFormat FormatOf(std::string_view path) {
  for (const std::string_view packed :
       {".zst", ".gz", ".xz", ".bz2", ".lz4"}) {  // some of these are refused later by their content
    if (path.ends_with(packed)) path.remove_suffix(packed.size());
  }
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return DocumentFormat::kJsonLines;
  return path.ends_with(".txt") ? DocumentFormat::kText : DocumentFormat::kByName;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const Files& files, const std::string& given,
                                                              const DocumentOptions& options) {
  const std::string path = given == "-" ? "/dev/stdin" : given;
  ATOLL_ASSIGN_OR_RETURN(auto plain, OpenPlain(files, path));
  DocumentFormat format = options.format;
  if (format == DocumentFormat::kByName) format = FormatOf(path);
  if (format == DocumentFormat::kByName) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, plain->file_bytes() ? " has an unknown extension" : " is a pipe, so its format is unknown",
                     ": .txt, .jsonl and .ndjson are supported, also followed by .gz or .zst; for other names give "
                     "--format jsonl or --format txt"));
  }
  Window window(Decompressed(std::move(plain), path), path);
  if (format == DocumentFormat::kJsonLines) return std::make_unique<JsonLines>(std::move(window), options);
  return std::make_unique<PlainText>(std::move(window), options);
}

}  // namespace atl
