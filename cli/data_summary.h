// SPDX-License-Identifier: Apache-2.0
// The contents of a corpus, as a table for people or one JSON object for machines.
#ifndef ATOLL_CLI_DATA_SUMMARY_H_
#define ATOLL_CLI_DATA_SUMMARY_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "common/format/corpus_manifest.h"

namespace atl::cli {

// Keys: directory, name, tokenizer{kind, vocab_size, eot_id?, sha256?}, token_type, eot_appended, splits{train,
// held_out: {documents, tokens, text_bytes, bytes_per_token, shards}}, bigram?{perplexity, bits_per_byte}.
nlohmann::ordered_json SummaryJson(const std::string& directory, const CorpusManifest& manifest);

// Prints the object and a newline, or the table. With `left_out`, also the number of skipped
// documents (left_out_documents).
void PrintSummary(const std::string& directory, const CorpusManifest& manifest, bool json, std::ostream& out,
                  std::optional<uint64_t> left_out = std::nullopt);

}  // namespace atl::cli

#endif  // ATOLL_CLI_DATA_SUMMARY_H_
