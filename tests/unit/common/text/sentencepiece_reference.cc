// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/text/sentencepiece_reference.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace atl {
namespace {

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t at_ = 0;
};

}  // namespace

struct SentencePieceReference::State {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceReference::SentencePieceReference() : state_(std::make_unique<State>()) {}
SentencePieceReference::~SentencePieceReference() = default;

std::unique_ptr<SentencePieceReference> SentencePieceReference::Load(const std::string& model_bytes) {
  std::unique_ptr<SentencePieceReference> reference(new SentencePieceReference());
  if (!reference->state_->processor.LoadFromSerializedProto(model_bytes).ok()) return nullptr;
  return reference;
}

std::string SentencePieceReference::Train(const std::vector<std::string>& lines, const std::string& settings) {
  Lines iterator(lines);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings + " --minloglevel=2", &iterator, &model);
  return status.ok() ? model : "";
}

std::vector<uint32_t> SentencePieceReference::Encode(const std::string& text) const {
  std::vector<int> ids;
  state_->processor.Encode(text, &ids).IgnoreError();
  return std::vector<uint32_t>(ids.begin(), ids.end());
}

std::string SentencePieceReference::Decode(const std::vector<uint32_t>& ids) const {
  std::string text;
  state_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text).IgnoreError();
  return text;
}

}  // namespace atl
