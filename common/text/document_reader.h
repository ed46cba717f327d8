// SPDX-License-Identifier: Apache-2.0
// Documents out of text files and pipes: plain text or JSON lines, also compressed with gzip or zstd, streamed with
// bounded memory. Every fault is one sentence that names the file and the line (or byte). Documents are valid UTF-8;
// empty ones are skipped.
#ifndef ATOLL_COMMON_TEXT_DOCUMENT_READER_H_
#define ATOLL_COMMON_TEXT_DOCUMENT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

enum class DocumentFormat {
  kByName,  // .jsonl and .ndjson: JSON lines, .txt: text; also with .gz or .zst behind
  kText,
  kJsonLines,
};

struct DocumentOptions {
  // The field of a JSON object that holds the text; others are ignored. A name with dots that is no field itself is a
  // path through nested objects.
  std::string json_field = "text";
  TextSplit text_split = TextSplit::kPieces;
  DocumentFormat format = DocumentFormat::kByName;
  // When set, a bad document is reported here and left out, and so is the rest of a file whose compression is damaged.
  // Without it the first one is the error of Next.
  std::function<void(const absl::Status&)> on_bad;
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // The next document into `text`; false at the end of the file. InvalidArgument: bad JSON, no such field, not a
  // string, invalid UTF-8, document over the limit, damaged or cut compression. After an error the reader is not used
  // again.
  virtual absl::StatusOr<bool> Next(std::string& text) = 0;
  // Reads the beginning of a regular file, so that one of the wrong kind is refused before hours of work. Does nothing
  // for a pipe.
  virtual absl::Status Probe() = 0;
  // Documents so far in which half a surrogate pair became U+FFFD.
  virtual uint64_t repaired_documents() const = 0;
  // Bytes of the file read so far, for progress.
  virtual uint64_t position_bytes() const = 0;
  // Nothing for a pipe, which can be read only once.
  virtual std::optional<uint64_t> file_bytes() const = 0;
};

// "-" is standard input. NotFound when the file is absent, InvalidArgument when its name does not say its format.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const Files& files, const std::string& path,
                                                              const DocumentOptions& options);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_DOCUMENT_READER_H_
