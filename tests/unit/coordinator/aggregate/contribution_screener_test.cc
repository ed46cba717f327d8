// What is found while bytes arrive is what is found in all of them at once.
#include "coordinator/aggregate/contribution_screener.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"

namespace atl {
namespace {

constexpr CodecKind kAll[] = {CodecKind::kFp32, CodecKind::kFp16,  CodecKind::kBf16,
                              CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};

std::vector<std::byte> Encoded(CodecKind codec, size_t elements, bool finite = true) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = NormalAt(7, i) * 1e-3f;
  if (!finite) values[elements / 2] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> out(EncodedSize(codec, elements));
  Encode(codec, values, out);
  return out;
}

// In two pieces of random length at a time.
std::optional<ContributionScreen> Arrive(CodecKind codec, size_t elements, Bytes bytes, uint64_t seed) {
  ContributionScreener screener(codec, elements);
  Rng rng(seed);
  size_t at = 0;
  const auto next = [&] {
    const size_t size = std::min<size_t>(bytes.size() - at, rng.Below(20'000));
    at += size;
    return bytes.subspan(at - size, size);
  };
  while (at < bytes.size()) {
    const size_t offset = at;
    const Bytes first = next(), second = next();
    screener.Update(offset, std::array{first, second});
  }
  return screener.Finish();
}

TEST(ContributionScreener, SaysWhatIsSaidOfAllBytesAtOnceWhateverThePieces) {
  for (const CodecKind codec : kAll) {
    for (const size_t elements : {size_t{1}, size_t{100}, kCodecBlock, 3 * kCodecBlock + 77, 10 * kCodecBlock}) {
      SCOPED_TRACE(std::string(CodecName(codec)) + " " + std::to_string(elements));
      const std::vector<std::byte> bytes = Encoded(codec, elements);
      const auto whole = ScreenContribution(codec, bytes, elements);
      ASSERT_TRUE(whole.ok());
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const auto screen = Arrive(codec, elements, bytes, seed);
        ASSERT_TRUE(screen.has_value());
        EXPECT_TRUE(screen->finite);
        EXPECT_EQ(screen->norm, whole->norm);
        EXPECT_EQ(screen->max_abs, whole->max_abs);
      }
    }
  }
}

TEST(ContributionScreener, FindsWhatIsNotFinite) {
  for (const CodecKind codec : kAll) {
    if (codec == CodecKind::kFp16 || codec == CodecKind::kBf16 || codec == CodecKind::kFp32) {
      const std::vector<std::byte> bytes = Encoded(codec, 3 * kCodecBlock, /*finite=*/false);
      const auto screen = Arrive(codec, 3 * kCodecBlock, bytes, 1);
      ASSERT_TRUE(screen.has_value());
      EXPECT_FALSE(screen->finite);
      EXPECT_EQ(screen->norm, 0);
    }
  }
}

TEST(ContributionScreener, SaysNothingOfATransferThatWasResumedOrIsNotWhole) {
  const size_t elements = 2 * kCodecBlock;
  const std::vector<std::byte> bytes = Encoded(CodecKind::kFp32, elements);
  const Bytes first = Bytes(bytes).first(1000), rest = Bytes(bytes).subspan(1000);
  ContributionScreener resumed(CodecKind::kFp32, elements);
  resumed.Update(1000, std::span(&rest, 1));
  EXPECT_FALSE(resumed.Finish().has_value());
  ContributionScreener twice(CodecKind::kFp32, elements);
  twice.Update(0, std::span(&first, 1));
  EXPECT_FALSE(twice.Finish().has_value());
  twice.Update(0, std::span(&first, 1));
  twice.Update(1000, std::span(&rest, 1));
  EXPECT_FALSE(twice.Finish().has_value());
  ContributionScreener longer(CodecKind::kFp32, elements);
  longer.Update(0, std::array{Bytes(bytes), first});
  EXPECT_FALSE(longer.Finish().has_value());
}

}  // namespace
}  // namespace atl
