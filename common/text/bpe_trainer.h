// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding by counting (Sennrich et al. 2016, "Neural Machine Translation of Rare Words
// with Subword Units"): repeatedly merges the most frequent pair of neighbours into a new piece.
// Inside this room only.
#ifndef ATOLL_COMMON_TEXT_BPE_TRAINER_H_
#define ATOLL_COMMON_TEXT_BPE_TRAINER_H_

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

namespace atl {

struct CountedWord {
  std::string text;  // valid UTF-8
  uint64_t count = 0;
};

// Learns pieces from words. Merges never cross the end of a word or a character outside the
// alphabet. All counts are integers and ties have a fixed order, so that the same words give the
// same pieces on every machine.
//
// One array holds the symbols of all words. The occurrences of a pair are a linked list through
// that array, so that a merge costs a constant number of operations per occurrence, whatever the
// length of the words. Memory: 13 bytes per character of `words`, and about 50 per distinct pair.
class BpeTrainer {
 public:
  // `characters` are the first symbols; their order decides ties.
  BpeTrainer(std::vector<CountedWord> words, const std::vector<std::string>& characters);

  // Returns `wanted` new pieces in order of creation, or fewer if no pair occurs twice any more. `progress` receives
  // the number of pieces made so far.
  std::vector<std::string> Run(size_t wanted, const std::function<void(size_t made)>& progress);

  // Cost of the work so far: number of occurrences linked and unlinked, and of candidates
  // inspected.
  uint64_t operations() const { return operations_; }

 private:
  // Occurrences of two neighbouring symbols.
  struct Occurrences {
    uint64_t count = 0;   // weighted by the counts of the words
    uint64_t queued = 0;  // count of its only valid candidate in the queue; between merges never below `count`
    uint32_t head = 0;    // place of the first symbol of one occurrence
  };
  struct Candidate {
    uint64_t count = 0;
    uint64_t pair = 0;
    bool operator<(const Candidate& other) const {  // top: most frequent, then the earliest symbols
      return count < other.count || (count == other.count && pair > other.pair);
    }
  };

  uint32_t SymbolOf(const std::string& text);
  void AddWord(const CountedWord& word, const std::unordered_map<std::string, uint32_t>& alphabet);
  uint64_t WeightAt(uint32_t place) const;
  // Sets the pair that begins at `place`; false if it cannot be merged.
  bool PairAt(uint32_t place, uint64_t& pair) const;
  void Link(uint32_t place);
  void Unlink(uint32_t place);
  void Join(uint64_t pair, uint32_t symbol);
  void JoinAt(uint32_t place, uint32_t right, uint32_t symbol);
  void QueueRaised();

  std::vector<std::string> texts_;                      // of symbols
  std::vector<uint8_t> lengths_;                        // of symbols, in characters
  std::unordered_map<std::string, uint32_t> ids_;       // text -> symbol
  std::vector<uint32_t> symbols_;                       // at the first character of each symbol; kGap ends words
  std::vector<uint8_t> back_;                           // at the last character of each symbol: the symbol's length
  std::vector<uint32_t> next_, previous_;               // other occurrences of the pair that begins here
  std::vector<std::pair<uint32_t, uint64_t>> weights_;  // first place -> count of the words from there on
  absl::flat_hash_map<uint64_t, Occurrences> pairs_;
  std::vector<uint64_t> raised_;  // pairs with a higher count than their candidate
  std::priority_queue<Candidate> queue_;
  uint64_t operations_ = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_BPE_TRAINER_H_
