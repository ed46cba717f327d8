#include "common/rpc/bulk.h"

#include <algorithm>

namespace atl {
namespace {

class MemorySource final : public BulkSource {
 public:
  MemorySource(Bytes bytes, std::shared_ptr<const void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
      return absl::OutOfRangeError(
          absl::StrCat("bytes ", offset, " to ", offset + bytes, " of ", bytes_.size(), " in memory"));
    }
    BulkBytes out{{}, owner_};
    if (bytes > 0) out.pieces.push_back(bytes_.subspan(static_cast<size_t>(offset), bytes));
    return out;
  }

 private:
  const Bytes bytes_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace

size_t BulkBytes::size() const {
  size_t total = 0;
  for (const Bytes& piece : pieces) total += piece.size();
  return total;
}

std::shared_ptr<BulkSource> MakeMemorySource(std::shared_ptr<const std::vector<std::byte>> bytes) {
  const Bytes view(*bytes);
  return std::make_shared<MemorySource>(view, std::move(bytes));
}

std::shared_ptr<BulkSource> MakeMemorySource(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return std::make_shared<MemorySource>(AsBytes(*owner), owner);
}

}  // namespace atl
