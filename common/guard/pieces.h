// SPDX-License-Identifier: Apache-2.0
// Bytes between two sockets, as a list of spans: most are borrowed from a read buffer, some are
// owned. Not thread-safe.
#ifndef ATOLL_COMMON_GUARD_PIECES_H_
#define ATOLL_COMMON_GUARD_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::guard {

inline std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class Pieces {
 public:
  // Appends bytes that stay valid until Clear, without a copy. Merges adjacent spans.
  void Borrow(std::span<const uint8_t> bytes) {
    if (bytes.empty()) return;
    size_ += bytes.size();
    if (!spans_.empty() && spans_.back().data() + spans_.back().size() == bytes.data()) {
      spans_.back() = {spans_.back().data(), spans_.back().size() + bytes.size()};
      return;
    }
    spans_.push_back(bytes);
  }
  // Appends bytes and owns them.
  void Own(std::string bytes) {
    owned_.push_back(std::move(bytes));
    const std::string& kept = owned_.back();
    size_ += kept.size();
    if (!kept.empty()) spans_.push_back(BytesOf(kept));
  }
  const std::vector<std::span<const uint8_t>>& spans() const { return spans_; }
  size_t size() const { return size_; }
  std::string Joined() const {
    std::string all;
    all.reserve(size_);
    for (const auto& span : spans_) all.append(reinterpret_cast<const char*>(span.data()), span.size());
    return all;
  }
  void Clear() {
    spans_.clear();
    owned_.clear();
    size_ = 0;
  }

 private:
  std::vector<std::span<const uint8_t>> spans_;
  std::deque<std::string> owned_;
  size_t size_ = 0;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_PIECES_H_
