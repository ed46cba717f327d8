#include "common/text/document_reader.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "common/text/byte_source.h"
#include "common/text/utf8.h"

namespace atl {
namespace {

constexpr size_t kPieceMinBytes = 4096, kPieceMaxBytes = 8192;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The stream with a window that is filled on demand.
class Window {
 public:
  Window(std::unique_ptr<ByteSource> source, std::string path) : source_(std::move(source)), path_(std::move(path)) {}

  // Makes at least `bytes` unread bytes available unless the stream ends before.
  absl::Status Fill(size_t bytes) {
    while (!ended_ && unread() < bytes) {
      Compact();
      ATOLL_ASSIGN_OR_RETURN(const bool more, source_->Read(buffer_));
      ended_ = !more;
    }
    return absl::OkStatus();
  }
  // Bytes up to and including the next '\n' from unread position `from` on, all of the rest at the end of the stream.
  // InvalidArgument beyond kDocumentBytes.
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
    return absl::InvalidArgumentError(absl::StrCat(path_, ": the document that begins in line ", line_,
                                                   " has more than the ", kDocumentBytes,
                                                   " bytes that are read at once"));
  }
  std::string Take(size_t bytes) {
    std::string out = buffer_.substr(at_, bytes);
    line_ += static_cast<uint64_t>(std::count(out.begin(), out.end(), '\n'));
    at_ += bytes;
    return out;
  }
  char At(size_t i) const { return buffer_[at_ + i]; }
  size_t FindLast(const std::string& what, size_t before) const {
    const size_t found = before < what.size() ? std::string::npos : buffer_.rfind(what, at_ + before - what.size());
    return found == std::string::npos || found < at_ ? std::string::npos : found - at_ + what.size();
  }
  size_t unread() const { return buffer_.size() - at_; }
  bool ended() const { return ended_; }
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
  bool ended_ = false;
};

class WindowReader : public DocumentReader {
 public:
  explicit WindowReader(Window window) : window_(std::move(window)) {}
  uint64_t position_bytes() const override { return window_.source().position_bytes(); }
  uint64_t file_bytes() const override { return window_.source().file_bytes(); }

 protected:
  absl::Status Bad(uint64_t line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(window_.path(), ", line ", line, ": ", what));
  }
  // `text` began in `line`.
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
};

// One JSON object a line. Empty lines are skipped.
class JsonLines final : public WindowReader {
 public:
  JsonLines(Window window, std::string field) : WindowReader(std::move(window)), field_(std::move(field)) {}

  absl::StatusOr<bool> Next(std::string& text) override {
    for (;;) {
      ATOLL_RETURN_IF_ERROR(window_.Fill(1));
      if (window_.unread() == 0) return false;
      ATOLL_ASSIGN_OR_RETURN(const size_t size, window_.LineFrom(0));
      const uint64_t number = window_.line();
      const std::string line = window_.Take(size);
      if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      ATOLL_RETURN_IF_ERROR(CheckUtf8(line, number));
      ATOLL_RETURN_IF_ERROR(Parse(line, number, text));
      if (!text.empty()) return true;
    }
  }

 private:
  absl::Status Parse(const std::string& line, uint64_t number, std::string& text) const {
    uint32_t named = 0;  // parse() keeps the last of several without a word
    const auto count = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& key) {
      named += depth == 1 && event == nlohmann::json::parse_event_t::key && key == field_ ? 1 : 0;
      return true;
    };
    const nlohmann::json value = nlohmann::json::parse(line, count, /*allow_exceptions=*/false);
    if (value.is_discarded()) return Bad(number, "is not valid JSON");
    if (!value.is_object()) return Bad(number, "is no JSON object");
    const auto field = value.find(field_);
    if (named > 1) return Bad(number, absl::StrCat("has field \"", field_, "\" ", named, " times; once is enough"));
    if (field == value.end()) return Bad(number, absl::StrCat("has no field \"", field_, "\"; name it with --field"));
    if (!field->is_string()) return Bad(number, absl::StrCat("field \"", field_, "\" is no string"));
    text = field->get<std::string>();
    return absl::OkStatus();
  }
  std::string field_;
};

// Plain text, cut as TextSplit says.
class PlainText final : public WindowReader {
 public:
  PlainText(Window window, TextSplit split) : WindowReader(std::move(window)), split_(split) {}

  absl::StatusOr<bool> Next(std::string& text) override {
    for (;;) {
      ATOLL_RETURN_IF_ERROR(window_.Fill(1));
      if (window_.unread() == 0) return false;
      ATOLL_ASSIGN_OR_RETURN(const size_t size, Size());
      const uint64_t line = window_.line();
      text = window_.Take(size);
      ATOLL_RETURN_IF_ERROR(CheckUtf8(text, line));
      if (split_ == TextSplit::kLines || split_ == TextSplit::kParagraphs) TrimBreaks(text);
      if (!text.empty()) return true;
    }
  }

 private:
  // Bytes of the next document, at least 1.
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

  // Up to the first line that is empty or blank, which belongs to it.
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

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const Files& files, const std::string& path,
                                                              const DocumentOptions& options) {
  const bool zstd = EndsWith(path, ".zst");
  const std::string inner = zstd ? path.substr(0, path.size() - 4) : path;
  const bool json = EndsWith(inner, ".jsonl") || EndsWith(inner, ".ndjson");
  if (!json && !EndsWith(inner, ".txt")) {
    ATOLL_RETURN_IF_ERROR(files.OpenForRead(path).status());  // that it is not there says more
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is of no known kind: .txt, .jsonl, .txt.zst and .jsonl.zst are read"));
  }
  auto source = zstd ? OpenZstd(files, path) : OpenPlain(files, path);
  if (!source.ok()) return source.status();
  Window window(*std::move(source), path);
  if (json) return std::make_unique<JsonLines>(std::move(window), options.json_field);
  return std::make_unique<PlainText>(std::move(window), options.text_split);
}

}  // namespace atl
