// SPDX-License-Identifier: Apache-2.0
// `atoll data prepare|inspect|verify` as functions of parsed options. Results are written to `out`
// (standard output), messages and progress to `talk` (standard error). An error status is one
// sentence for the user; its code determines the exit code.
#ifndef ATOLL_CLI_DATA_COMMANDS_H_
#define ATOLL_CLI_DATA_COMMANDS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::cli {

struct DataPrepareOptions {
  std::vector<std::string> inputs;            // files or pipes, "-" for standard input; at least one
  std::string output;                         // --out DIR
  std::string name;                           // --name; empty: the last part of `output`
  std::string tokenizer;                      // --tokenizer: "bytes" (also when empty) or a SentencePiece model file
  uint32_t train_tokenizer = 0;               // --train-tokenizer VOCAB; 0: none; excludes a tokenizer file
  std::string field = "text";                 // --field of JSON objects; a.b for a field of a nested object
  std::string format = "auto";                // --format auto|txt|jsonl; auto: by the names of the inputs
  bool skip_bad = false;                      // --skip-bad: skip and count bad documents
  std::string text_split = "pieces";          // --text-split pieces|file|paragraphs|lines, for .txt
  bool append_eot = true;                     // --eot / --no-eot
  double held_out = 0.05;                     // --held-out FRACTION in [0, 1)
  uint64_t split_seed = 0;                    // --split-seed
  uint64_t shard_tokens = uint64_t{1} << 26;  // --shard-tokens
  bool force = false;                         // --force: replace a previous corpus in `output`
  bool json = false;                          // the summary as one JSON object, for each -o but table
  bool talk_is_terminal = false;              // redraws a progress bar instead of printing a line every 10 %
  bool quiet = false;                         // no progress
};
absl::Status RunDataPrepare(const DataPrepareOptions& options, Files& files, std::ostream& out, std::ostream& talk);

struct DataInspectOptions {
  std::string directory;
  bool json = false;
  uint32_t sample_tokens = 64;  // --sample: tokens to decode from the start of each split; 0: none
};
absl::Status RunDataInspect(const DataInspectOptions& options, const Files& files, std::ostream& out,
                            std::ostream& talk);

struct DataVerifyOptions {
  std::string directory;
  bool json = false;
  bool talk_is_terminal = false;
  bool quiet = false;
};
absl::Status RunDataVerify(const DataVerifyOptions& options, const Files& files, std::ostream& out, std::ostream& talk);

}  // namespace atl::cli

#endif  // ATOLL_CLI_DATA_COMMANDS_H_
