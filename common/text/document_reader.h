// Documents out of text files: .txt, .jsonl and .jsonl.zst, streamed with bounded memory. Every fault is one sentence
// that names the file and the line (or byte). Documents are valid UTF-8; empty ones are skipped.
#ifndef ATOLL_COMMON_TEXT_DOCUMENT_READER_H_
#define ATOLL_COMMON_TEXT_DOCUMENT_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

constexpr uint64_t kDocumentBytes = uint64_t{64} << 20;  // of one document or JSON line; longer is refused

// How a .txt file becomes documents.
enum class TextSplit {
  kPieces,      // of 4 to 8 KiB, ending after a blank line if there is one, else a line, else a character
  kFile,        // the whole file is one document
  kParagraphs,  // separated by blank lines
  kLines,
};

struct DocumentOptions {
  std::string json_field = "text";  // of a .jsonl object; other fields are ignored
  TextSplit text_split = TextSplit::kPieces;
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // The next document into `text`; false at the end of the file. InvalidArgument: bad JSON, no such field, not a
  // string, invalid UTF-8, damaged or cut zstd, document over the limit. After an error the reader is not used again.
  virtual absl::StatusOr<bool> Next(std::string& text) = 0;
  // Bytes of the file read so far, for progress.
  virtual uint64_t position_bytes() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

// By the name's ending: .txt, .jsonl, .jsonl.zst (.txt.zst and .ndjson as well); others are refused by name.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const Files& files, const std::string& path,
                                                              const DocumentOptions& options);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_DOCUMENT_READER_H_
