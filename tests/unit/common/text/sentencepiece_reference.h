// SPDX-License-Identifier: Apache-2.0
// SentencePiece's own library, for comparison. Its header defines its own absl::string_view, so
// this header isolates it from ours.
#ifndef ATOLL_TESTS_UNIT_COMMON_TEXT_SENTENCEPIECE_REFERENCE_H_
#define ATOLL_TESTS_UNIT_COMMON_TEXT_SENTENCEPIECE_REFERENCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace atl {

class SentencePieceReference {
 public:
  // Null if the library does not accept the model.
  static std::unique_ptr<SentencePieceReference> Load(const std::string& model_bytes);
  // Trains a model with the library on the lines: `settings` as on spm_train's command line. Empty
  // on failure.
  static std::string Train(const std::vector<std::string>& lines, const std::string& settings);
  ~SentencePieceReference();
  std::vector<uint32_t> Encode(const std::string& text) const;
  std::string Decode(const std::vector<uint32_t>& ids) const;

 private:
  SentencePieceReference();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_TEXT_SENTENCEPIECE_REFERENCE_H_
