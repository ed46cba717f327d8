// SPDX-License-Identifier: Apache-2.0
// Reads documents from text files and pipes: plain text or JSON lines, optionally compressed with
// gzip or zstd, streamed with bounded memory. Every error is one sentence that names the file and
// the line (or byte). Documents are valid UTF-8; empty ones are skipped.
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

// How a .txt file is split into documents.
enum class TextSplit {
  kPieces,      // 4 to 8 KiB, ending after a blank line if possible, otherwise a line, a space or a character
  kFile,        // the whole file is one document
  kParagraphs,  // separated by blank lines
  kLines,
};

enum class DocumentFormat {
  kByName,  // .jsonl and .ndjson: JSON lines, .txt: text; each optionally followed by .gz or .zst
  kText,
  kJsonLines,
};

struct DocumentOptions {
  // Field of a JSON object with the text; other fields are ignored. A name with dots that is not a
  // field itself is a path through nested objects.
  std::string json_field = "text";
  TextSplit text_split = TextSplit::kPieces;
  DocumentFormat format = DocumentFormat::kByName;
  // If set, receives the error of each bad document, which is then skipped, like the rest of a file
  // with damaged compression. Otherwise Next returns the first such error, InvalidArgument. A file of
  // a kind that is not supported is Unimplemented in either case: its documents may be sound.
  std::function<void(const absl::Status&)> on_bad;
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // Reads the next document into `text`; false at the end of the file. InvalidArgument: bad JSON,
  // missing field, not a string, invalid UTF-8, document over the limit, damaged or truncated
  // compression. The reader must not be used after an error.
  virtual absl::StatusOr<bool> Next(std::string& text) = 0;
  // Reads the beginning of a regular file, so that a file of the wrong kind is refused before hours
  // of work. Does nothing for a pipe.
  virtual absl::Status Probe() = 0;
  // Number of documents so far in which a lone surrogate became U+FFFD.
  virtual uint64_t repaired_documents() const = 0;
  // Bytes of the file read so far, for progress.
  virtual uint64_t position_bytes() const = 0;
  // nullopt for a pipe, which can be read only once.
  virtual std::optional<uint64_t> file_bytes() const = 0;
};

// "-" is standard input. NotFound when the file is missing, InvalidArgument when its name does not
// determine its format.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const Files& files, const std::string& path,
                                                              const DocumentOptions& options);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_DOCUMENT_READER_H_
