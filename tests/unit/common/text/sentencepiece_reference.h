// SPDX-License-Identifier: Apache-2.0
// SentencePiece's own library, for comparison. Its header defines absl::string_view anew, so it is kept apart from
// ours.
#ifndef ATOLL_TESTS_UNIT_COMMON_TEXT_SENTENCEPIECE_REFERENCE_H_
#define ATOLL_TESTS_UNIT_COMMON_TEXT_SENTENCEPIECE_REFERENCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace atl {

class SentencePieceReference {
 public:
  // nullptr when the library does not take the model.
  static std::unique_ptr<SentencePieceReference> Load(const std::string& model_bytes);
  // A model that the library trains on the lines: `settings` as on spm_train's command line. Empty when it fails.
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
