// SPDX-License-Identifier: Apache-2.0
#include "common/text/bpe_trainer.h"

#include <algorithm>
#include <tuple>

#include "common/base/utf8.h"

namespace atl {
namespace {

constexpr size_t kPieceCharacters = 16;
constexpr uint32_t kGap = UINT32_MAX;         // the end of a word, or a character outside the alphabet
constexpr uint32_t kInside = UINT32_MAX - 1;  // a character that is not the first of its symbol
constexpr uint32_t kNone = UINT32_MAX;        // the end of a list

uint32_t FirstOf(uint64_t pair) { return static_cast<uint32_t>(pair >> 32); }
uint32_t SecondOf(uint64_t pair) { return static_cast<uint32_t>(pair); }

}  // namespace

BpeTrainer::BpeTrainer(std::vector<CountedWord> words, const std::vector<std::string>& characters) {
  for (const std::string& character : characters) SymbolOf(character);
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return std::tie(a.count, a.text) < std::tie(b.count, b.text); });
  size_t places = 1;
  for (const CountedWord& word : words) places += word.text.size() + 1;  // upper bound
  symbols_.reserve(places);
  symbols_.push_back(kGap);
  const std::unordered_map<std::string, uint32_t> alphabet = ids_;
  for (const CountedWord& word : words) AddWord(word, alphabet);
  symbols_.shrink_to_fit();
  words = {};
  back_.assign(symbols_.size(), 1);
  next_.assign(symbols_.size(), kNone);
  previous_.assign(symbols_.size(), kNone);
  for (uint32_t place = 0; place < symbols_.size(); ++place) Link(place);
  QueueRaised();
}

std::vector<std::string> BpeTrainer::Run(size_t wanted, const std::function<void(size_t made)>& progress) {
  std::vector<std::string> made;
  while (made.size() < wanted && !queue_.empty()) {
    const Candidate best = queue_.top();
    queue_.pop();
    ++operations_;
    const auto found = pairs_.find(best.pair);
    if (found == pairs_.end() || found->second.queued != best.count) continue;
    if (found->second.count != best.count) {  // became rarer since; queued again
      found->second.queued = found->second.count;
      queue_.push({found->second.count, best.pair});
      continue;
    }
    if (best.count < 2) break;
    const std::string text = texts_[FirstOf(best.pair)] + texts_[SecondOf(best.pair)];
    const bool is_new = ids_.find(text) == ids_.end();
    Join(best.pair, SymbolOf(text));
    if (!is_new) continue;
    made.push_back(text);
    progress(made.size());
  }
  return made;
}

uint32_t BpeTrainer::SymbolOf(const std::string& text) {
  const auto [found, is_new] = ids_.emplace(text, static_cast<uint32_t>(texts_.size()));
  if (is_new) {
    texts_.push_back(text);
    uint8_t characters = 0;
    for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) ++characters;
    lengths_.push_back(characters);
  }
  return found->second;
}

void BpeTrainer::AddWord(const CountedWord& word, const std::unordered_map<std::string, uint32_t>& alphabet) {
  if (weights_.empty() || weights_.back().second != word.count) {
    weights_.emplace_back(static_cast<uint32_t>(symbols_.size()), word.count);
  }
  for (size_t at = 0; at < word.text.size(); at += Utf8Length(word.text[at])) {
    const auto found = alphabet.find(word.text.substr(at, Utf8Length(word.text[at])));
    symbols_.push_back(found == alphabet.end() ? kGap : found->second);
  }
  symbols_.push_back(kGap);
}

uint64_t BpeTrainer::WeightAt(uint32_t place) const {
  const auto behind = std::upper_bound(weights_.begin(), weights_.end(), place,
                                       [](uint32_t wanted, const auto& entry) { return wanted < entry.first; });
  return std::prev(behind)->second;
}

bool BpeTrainer::PairAt(uint32_t place, uint64_t& pair) const {
  const uint32_t first = symbols_[place];
  if (first >= kInside) return false;
  const uint32_t second = symbols_[place + lengths_[first]];
  if (second >= kInside || size_t{lengths_[first]} + lengths_[second] > kPieceCharacters) return false;
  pair = uint64_t{first} << 32 | second;
  return true;
}

void BpeTrainer::Link(uint32_t place) {
  uint64_t pair = 0;
  if (!PairAt(place, pair)) return;
  ++operations_;
  const auto [found, is_new] = pairs_.try_emplace(pair);
  Occurrences& all = found->second;
  previous_[place] = kNone;
  next_[place] = is_new ? kNone : all.head;
  if (!is_new) previous_[all.head] = place;
  all.head = place;
  const bool was_low = all.count <= all.queued;
  all.count += WeightAt(place);
  if (was_low && all.count > all.queued) raised_.push_back(pair);
}

void BpeTrainer::Unlink(uint32_t place) {
  uint64_t pair = 0;
  if (!PairAt(place, pair)) return;
  const auto found = pairs_.find(pair);
  if (found == pairs_.end()) return;  // the pair being joined
  ++operations_;
  const uint32_t next = next_[place], previous = previous_[place];
  if (next != kNone) previous_[next] = previous;
  if (previous != kNone) {
    next_[previous] = next;
  } else if (next != kNone) {
    found->second.head = next;
  } else {
    pairs_.erase(found);
    return;
  }
  found->second.count -= WeightAt(place);
}

// Replaces every occurrence of the pair by one symbol, from left to right where occurrences
// overlap.
void BpeTrainer::Join(uint64_t pair, uint32_t symbol) {
  std::vector<uint32_t> where;
  for (uint32_t place = pairs_.at(pair).head; place != kNone; place = next_[place]) where.push_back(place);
  pairs_.erase(pair);
  std::sort(where.begin(), where.end());
  for (const uint32_t place : where) {
    if (symbols_[place] != FirstOf(pair)) continue;
    const uint32_t right = place + lengths_[FirstOf(pair)];
    if (symbols_[right] == SecondOf(pair)) JoinAt(place, right, symbol);
  }
  QueueRaised();
}

void BpeTrainer::JoinAt(uint32_t place, uint32_t right, uint32_t symbol) {
  const uint32_t left = place - back_[place - 1];
  Unlink(left);
  Unlink(right);
  symbols_[place] = symbol;
  symbols_[right] = kInside;
  back_[place + lengths_[symbol] - 1] = lengths_[symbol];
  Link(left);
  Link(place);
}

void BpeTrainer::QueueRaised() {
  for (const uint64_t pair : raised_) {
    const auto found = pairs_.find(pair);
    if (found == pairs_.end() || found->second.count <= found->second.queued) continue;
    found->second.queued = found->second.count;
    if (found->second.count >= 2) queue_.push({found->second.count, pair});
  }
  raised_.clear();
}

}  // namespace atl
