// SPDX-License-Identifier: Apache-2.0
// atoll data prepare: text files -> token shards and a manifest. Reads the input twice when it
// trains a tokenizer (first its sample), otherwise once. Memory: one document, one block per split,
// the tokenizer.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "absl/strings/str_format.h"
#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/progress_line.h"
#include "common/base/hash.h"
#include "common/format/corpus_writer.h"
#include "common/plan/limits.h"
#include "common/text/document_reader.h"
#include "common/text/tokenizer.h"

namespace atl::cli {
namespace {

absl::StatusOr<TextSplit> ParseTextSplit(const std::string& name) {
  if (name == "pieces") return TextSplit::kPieces;
  if (name == "file") return TextSplit::kFile;
  if (name == "paragraphs") return TextSplit::kParagraphs;
  if (name == "lines") return TextSplit::kLines;
  return absl::InvalidArgumentError(
      absl::StrCat("--text-split is \"", name, "\"; it must be pieces, file, paragraphs or lines"));
}

absl::StatusOr<DocumentFormat> ParseFormat(const std::string& name) {
  if (name == "auto") return DocumentFormat::kByName;
  if (name == "txt") return DocumentFormat::kText;
  if (name == "jsonl") return DocumentFormat::kJsonLines;
  return absl::InvalidArgumentError(absl::StrCat("--format is \"", name, "\"; it must be auto, txt or jsonl"));
}

// Iterates over all documents of all inputs.
class AllDocuments {
 public:
  AllDocuments(const Files& files, const std::vector<std::string>& paths, DocumentOptions options)
      : files_(files), paths_(paths), options_(std::move(options)) {}

  // Opens every input once, so that a wrong name is reported before hours of work, and adds up
  // their sizes. Pipes stay open.
  absl::Status Check() {
    for (size_t i = 0; i < paths_.size(); ++i) {
      ATOLL_ASSIGN_OR_RETURN(auto reader, OpenDocuments(files_, paths_[i], options_));
      if (const auto size = reader->file_bytes()) {
        total_bytes_ += *size;
        const absl::Status begins = reader->Probe();
        if (!absl::IsInvalidArgument(begins) || !options_.on_bad) ATOLL_RETURN_IF_ERROR(Explain(begins));
      } else {
        pipes_.emplace(i, std::move(reader));
        first_pipe_ = first_pipe_.empty() ? paths_[i] : first_pipe_;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(std::string& text) {
    for (;;) {
      if (reader_ == nullptr) {
        if (next_ == paths_.size()) return false;
        ATOLL_RETURN_IF_ERROR(OpenNext());
      }
      auto more = reader_->Next(text);
      if (!more.ok()) return Explain(more.status());
      if (*more) return true;
      finished_bytes_ += reader_->position_bytes();
      repaired_ += reader_->repaired_documents();
      reader_.reset();
    }
  }
  uint64_t done_bytes() const { return finished_bytes_ + (reader_ ? reader_->position_bytes() : 0); }
  // 0 when an input is a pipe, because its size is unknown.
  uint64_t total_bytes() const { return first_pipe_.empty() ? total_bytes_ : 0; }
  const std::string& first_pipe() const { return first_pipe_; }  // empty when there is none
  uint64_t repaired_documents() const { return repaired_; }      // in inputs read to their end

 private:
  // Gives both errors the exit code of text that cannot be read. --skip-bad helps only with bad documents.
  static absl::Status Explain(const absl::Status& status) {
    if (absl::IsUnimplemented(status)) return absl::InvalidArgumentError(status.message());
    if (!absl::IsInvalidArgument(status)) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), " (--skip-bad skips bad documents and counts them)"));
  }

  absl::Status OpenNext() {
    if (const auto pipe = pipes_.find(next_); pipe != pipes_.end()) {
      reader_ = std::move(pipe->second);
    } else {
      ATOLL_ASSIGN_OR_RETURN(reader_, OpenDocuments(files_, paths_[next_], options_));
    }
    ++next_;
    return absl::OkStatus();
  }

  const Files& files_;
  const std::vector<std::string>& paths_;
  DocumentOptions options_;
  std::map<size_t, std::unique_ptr<DocumentReader>> pipes_;  // not read yet
  std::string first_pipe_;
  std::unique_ptr<DocumentReader> reader_;
  size_t next_ = 0;
  uint64_t finished_bytes_ = 0, total_bytes_ = 0, repaired_ = 0;
};

// Skipped documents: all are counted, the first ones are printed.
struct LeftOut {
  static constexpr uint64_t kShown = 5;
  std::ostream& talk;
  const char* begin;  // clears the progress line on a terminal
  uint64_t count = 0;
  void Add(const absl::Status& why) {
    if (++count <= kShown) talk << begin << "skipped: " << why.message() << "\n";
    if (count == kShown) talk << "skipped: further documents are counted only\n";
  }
};

void Show(ProgressLine& progress, uint64_t done, uint64_t total, const std::string& note) {
  if (total == 0) return progress.UpdateWithoutEnd(done, note);
  progress.Update(done, total, note);
}

// Trains a tokenizer on the documents that SplitOf assigns to training.
absl::StatusOr<std::unique_ptr<Tokenizer>> TrainOn(AllDocuments& documents, const DataPrepareOptions& options,
                                                   std::ostream& talk) {
  ATOLL_RETURN_IF_ERROR(documents.Check());
  SentencePieceTraining training;
  training.vocab_size = options.train_tokenizer;
  ProgressLine progress(talk, "reading text for the tokenizer", options.talk_is_terminal, options.quiet);
  ProgressLine making(talk, "building the vocabulary", options.talk_is_terminal, options.quiet);
  training.progress = [&](uint64_t made, uint64_t wanted) { making.Update(made, wanted); };
  absl::Status fault;
  const auto source = [&](std::string& text) {
    // The tokenizer does not see held-out documents either.
    for (;;) {
      const auto more = documents.Next(text);
      fault = more.status();
      if (!more.ok() || !*more) return false;
      progress.Update(documents.done_bytes(), documents.total_bytes());
      if (SplitOf(AsBytes(text), options.held_out, options.split_seed) == CorpusSplit::kTrain) return true;
    }
  };
  auto model = TrainSentencePiece(training, source);
  ATOLL_RETURN_IF_ERROR(fault);
  if (!model.ok()) return model.status();
  return LoadSentencePiece(*std::move(model));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(const DataPrepareOptions& options, const Files& files,
                                                         const DocumentOptions& reading, std::ostream& talk) {
  if (options.train_tokenizer > 0) {
    if (!options.tokenizer.empty()) {
      return absl::InvalidArgumentError("--tokenizer and --train-tokenizer cannot be combined");
    }
    DocumentOptions silent = reading;  // skipped documents are reported during tokenization
    if (silent.on_bad) silent.on_bad = [](const absl::Status&) {};
    AllDocuments documents(files, options.inputs, silent);
    return TrainOn(documents, options, talk);
  }
  if (options.tokenizer.empty() || options.tokenizer == "bytes") return MakeByteTokenizer();
  ATOLL_ASSIGN_OR_RETURN(std::string model, ReadWholeFile(files, options.tokenizer, limits::kTokenizerFileBytes));
  auto tokenizer = LoadSentencePiece(std::move(model));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), options.tokenizer);
  return tokenizer;
}

// Returns "c" for "a/b/c/".
std::string LastPart(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// Returns --name or, without it, the last part of the output path with every invalid character replaced by '-'. A
// part with non-ASCII bytes becomes a hash, so that different parts get different names.
std::string NameOf(const DataPrepareOptions& options) {
  if (!options.name.empty()) return options.name;
  const std::string part = LastPart(options.output);
  if (std::any_of(part.begin(), part.end(), [](char c) { return static_cast<unsigned char>(c) > 127; })) {
    return absl::StrFormat("corpus-%08x", Crc32c(0, std::as_bytes(std::span(part))));
  }
  std::string name = part.substr(0, limits::kNameBytes);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  }
  if (name.empty() || name[0] == '.') name = "corpus";
  return name;
}

CorpusWriterOptions WriterOptions(const DataPrepareOptions& options, const Tokenizer& tokenizer) {
  CorpusWriterOptions writer;
  writer.name = NameOf(options);
  writer.tokenizer.kind = TokenizerKindName(tokenizer.kind());
  writer.tokenizer.vocab_size = tokenizer.vocab_size();
  writer.tokenizer.eot_id = tokenizer.eot_id();
  if (!tokenizer.file_bytes().empty()) writer.tokenizer.file = kSentencePieceFileName;
  writer.tokenizer_bytes = tokenizer.file_bytes();
  writer.append_eot = options.append_eot;
  writer.held_out_fraction = options.held_out;
  writer.split_seed = options.split_seed;
  writer.shard_tokens = options.shard_tokens;
  writer.replace = options.force;
  return writer;
}

absl::Status CheckPrepare(const DataPrepareOptions& options) {
  if (options.inputs.empty()) return absl::InvalidArgumentError("no input; give one or more .txt or .jsonl files");
  if (options.output.empty()) return absl::InvalidArgumentError("no output directory; give one with --out");
  if (!(options.held_out >= 0 && options.held_out < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--held-out is '", options.held_out, "'; it must be at least 0 and below 1"));
  }
  const char* const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  const bool fits = options.name.size() <= limits::kNameBytes && options.name[0] != '.' &&
                    options.name.find_first_not_of(letters) == std::string::npos;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("--name is '", options.name.substr(0, 64), "'; it must be 1 to ",
                                                   limits::kNameBytes, " of A-Z a-z 0-9 . _ -, not beginning with ."));
  }
  return absl::OkStatus();
}

// True when the tokens decode to the text.
bool Keeps(const Tokenizer& tokenizer, const std::string& text, const std::vector<uint32_t>& ids) {
  if (tokenizer.kind() == TokenizerKind::kBytes) return true;
  const auto back = tokenizer.Decode(ids);
  return back.ok() && *back == text;
}

// Returns the number of documents that do not decode to the same text.
absl::StatusOr<uint64_t> WriteDocuments(AllDocuments& documents, const Tokenizer& tokenizer,
                                        const DataPrepareOptions& options, CorpusWriter& writer, std::ostream& talk) {
  ProgressLine progress(talk, "tokenizing", options.talk_is_terminal, options.quiet);
  std::string text;
  std::vector<uint32_t> ids;
  uint64_t tokens = 0, changed = 0;
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool more, documents.Next(text));
    const auto note = [&] { return HumanCount(tokens) + " tokens"; };
    if (!more) {
      progress.Update(1, 1, note());
      return changed;
    }
    ids.clear();
    ATOLL_RETURN_IF_ERROR(tokenizer.Encode(text, ids));
    const CorpusSplit split = SplitOf(AsBytes(text), options.held_out, options.split_seed);
    ATOLL_RETURN_IF_ERROR(writer.Add(split, ids, text.size()));
    tokens += ids.size();
    changed += Keeps(tokenizer, text, ids) ? 0 : 1;
    // The reader is ahead of the documents, so that 100 % is shown only after the last document.
    const uint64_t total = documents.total_bytes();
    Show(progress, total == 0 ? documents.done_bytes() : std::min(documents.done_bytes(), total - 1), total, note());
  }
}

absl::StatusOr<DocumentOptions> ReadingOf(const DataPrepareOptions& options, LeftOut& left_out) {
  DocumentOptions reading;
  reading.json_field = options.field;
  ATOLL_ASSIGN_OR_RETURN(reading.text_split, ParseTextSplit(options.text_split));
  ATOLL_ASSIGN_OR_RETURN(reading.format, ParseFormat(options.format));
  if (options.skip_bad) reading.on_bad = [&left_out](const absl::Status& why) { left_out.Add(why); };
  return reading;
}

void TellChanges(const AllDocuments& documents, const CorpusManifest& manifest, uint64_t changed, std::ostream& talk) {
  if (documents.repaired_documents() > 0) {
    const bool one = documents.repaired_documents() == 1;
    talk << documents.repaired_documents() << (one ? " document" : " documents")
         << " had half of a surrogate pair, which UTF-8 cannot encode; U+FFFD replaces it\n";
  }
  if (changed > 0) {
    talk << "the tokenizer does not preserve all of the text: " << changed << " of "
         << manifest.train.documents + manifest.held_out.documents
         << " documents differ after encoding and decoding; bits per byte count all their bytes, including bytes that "
            "no token represents (docs/formats/corpus.md)\n";
  }
}

absl::Status PrepareCorpus(const DataPrepareOptions& options, Files& files, std::ostream& out, std::ostream& talk) {
  LeftOut left_out{talk, options.talk_is_terminal && !options.quiet ? "\r\033[K" : ""};
  ATOLL_ASSIGN_OR_RETURN(const DocumentOptions reading, ReadingOf(options, left_out));
  AllDocuments documents(files, options.inputs, reading);
  ATOLL_RETURN_IF_ERROR(documents.Check());
  if (options.train_tokenizer > 0 && !documents.first_pipe().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(documents.first_pipe(),
                                                   " is a pipe, and --train-tokenizer reads its input twice; write the "
                                                   "text to a file first, or give --tokenizer"));
  }
  ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(options, files, reading, talk));
  ATOLL_ASSIGN_OR_RETURN(const auto writer,
                         CorpusWriter::Create(files, options.output, WriterOptions(options, *tokenizer)));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t changed, WriteDocuments(documents, *tokenizer, options, *writer, talk));
  if (!options.quiet) talk << "measuring the bigram baseline and publishing\n";
  ATOLL_ASSIGN_OR_RETURN(const CorpusManifest manifest, writer->Finish());
  PrintSummary(options.output, manifest, options.json, out,
               options.skip_bad ? std::optional(left_out.count) : std::nullopt);
  if (const std::string folder = LastPart(options.output); folder != manifest.name) {
    talk << "coordinator and workers look for this corpus as " << manifest.name
         << " below their --data-root; this directory is named " << folder << "\n";
  }
  TellChanges(documents, manifest, changed, talk);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDataPrepare(const DataPrepareOptions& options, Files& files, std::ostream& out, std::ostream& talk) {
  ATOLL_RETURN_IF_ERROR(CheckPrepare(options));
  const bool was_there = files.Exists(options.output);
  absl::Status status = PrepareCorpus(options, files, out, talk);
  // Remove succeeds only for an empty directory. Its own error is ignored: `status` is the one to report.
  if (!status.ok() && !was_there && files.Exists(options.output)) files.Remove(options.output).IgnoreError();
  return status;
}

}  // namespace atl::cli
