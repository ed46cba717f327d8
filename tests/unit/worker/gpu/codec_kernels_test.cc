// SPDX-License-Identifier: Apache-2.0
// The plugin's codecs on a real GPU: the bytes and bits of common/codec, at aligned and odd
// addresses.
#include <cstring>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/opened_plugin.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

using codec_cases::FirstDifference;
using codec_cases::kAllCodecs;

constexpr size_t kMostElements = 1'000'003;

atoll_gpu_codec OfPlugin(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32: return ATOLL_GPU_CODEC_FP32;
    case CodecKind::kFp16: return ATOLL_GPU_CODEC_FP16;
    case CodecKind::kBf16: return ATOLL_GPU_CODEC_BF16;
    case CodecKind::kInt8: return ATOLL_GPU_CODEC_INT8;
    case CodecKind::kMxfp4: return ATOLL_GPU_CODEC_MXFP4;
    case CodecKind::kE3m0: return ATOLL_GPU_CODEC_E3M0;
    default: return static_cast<atoll_gpu_codec>(7);
  }
}

std::string LastError() {
  char text[512] = "";
  Plugin().table->last_error(text, sizeof text);
  return text;
}

// Two ranges of device memory: values, and encoded bytes with space for any codec and shift.
class CodecKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU to run the codecs on: " << Plugin().reason;
    ASSERT_TRUE(ATOLL_GPU_HAS(Plugin().table, codec_decode));
    ASSERT_EQ(Plugin().table->device_open(0, &context_), 0) << LastError();
    auto values = Arena::Create(kMostElements + 8, {.gpu = true}),
         encoded = Arena::Create(kMostElements + 8, {.gpu = true});
    ASSERT_TRUE(values.ok() && encoded.ok()) << values.status() << encoded.status();
    values_ = *std::move(values), encoded_ = *std::move(encoded);
  }
  void TearDown() override {
    if (context_ != nullptr) Plugin().table->device_close(context_);
  }

  float* DeviceValues(size_t shift) { return values_->memory().data() + shift; }
  std::byte* DeviceBytes(size_t shift) { return reinterpret_cast<std::byte*>(encoded_->memory().data()) + shift; }

  // Copies through memory of whole floats, with the encoding's shift in bytes.
  void PutBytes(const std::vector<std::byte>& bytes, size_t shift) {
    std::vector<float> floats((bytes.size() + shift + 3) / 4);
    std::memcpy(reinterpret_cast<std::byte*>(floats.data()) + shift, bytes.data(), bytes.size());
    ASSERT_TRUE(encoded_->Write(0, floats).ok());
  }
  std::vector<std::byte> TakeBytes(size_t size, size_t shift) {
    std::vector<float> floats((size + shift + 3) / 4);
    EXPECT_TRUE(encoded_->Read(0, floats).ok());
    const std::byte* const from = reinterpret_cast<const std::byte*>(floats.data()) + shift;
    return {from, from + size};
  }

  void ExpectSameBytes(CodecKind kind, std::span<const float> values, size_t shift) {
    const std::vector<std::byte> wanted = codec_cases::ReferenceBytes(kind, values);
    PutBytes(std::vector<std::byte>(wanted.size() + 1, std::byte{0xa5}), shift);
    ASSERT_TRUE(values_->Write(shift, values).ok());
    ASSERT_EQ(Plugin().table->codec_encode(context_, OfPlugin(kind), DeviceValues(shift), values.size(),
                                           DeviceBytes(shift), wanted.size(), nullptr),
              0)
        << LastError();
    std::vector<std::byte> got = TakeBytes(wanted.size() + 1, shift);
    EXPECT_EQ(got.back(), std::byte{0xa5}) << CodecName(kind) << " writes beyond its end";
    got.pop_back();
    EXPECT_TRUE(got == wanted) << CodecName(kind) << ", " << values.size() << " elements, shift " << shift << ", byte "
                               << FirstDifference(got, wanted);
  }

  void ExpectSameBits(CodecKind kind, const std::vector<std::byte>& bytes, size_t elements, size_t shift) {
    const std::vector<uint32_t> wanted = codec_cases::ReferenceBits(kind, bytes, elements);
    PutBytes(bytes, shift);
    ASSERT_TRUE(values_->Write(shift, std::vector<float>(elements + 1, 12.5f)).ok());
    ASSERT_EQ(Plugin().table->codec_decode(context_, OfPlugin(kind), DeviceBytes(shift), bytes.size(),
                                           DeviceValues(shift), elements, nullptr),
              0)
        << LastError();
    std::vector<float> values(elements + 1);
    ASSERT_TRUE(values_->Read(shift, values).ok());
    EXPECT_EQ(values.back(), 12.5f) << CodecName(kind) << " writes beyond its end";
    values.pop_back();
    const std::vector<uint32_t> got = codec_cases::BitsOfAll(values);
    EXPECT_TRUE(got == wanted) << CodecName(kind) << ", " << elements << " elements, shift " << shift << ", element "
                               << FirstDifference(got, wanted);
  }

  void ExpectSame(std::span<const float> values, size_t shift) {
    for (const CodecKind kind : kAllCodecs) {
      ExpectSameBytes(kind, values, shift);
      ExpectSameBits(kind, codec_cases::ReferenceBytes(kind, values), values.size(), shift);
    }
  }

  atoll_gpu_context* context_ = nullptr;
  std::unique_ptr<Arena> values_, encoded_;
};

TEST_F(CodecKernels, EdgesAreAsOnTheHost) {
  ExpectSame(codec_cases::Sweep(), 0);
  ExpectSame(codec_cases::Ties(), 0);
}

TEST_F(CodecKernels, EverySizeAndAddressIsAsOnTheHost) {
  for (size_t size = 1; size <= 300; ++size) ExpectSame(codec_cases::Random(size, size), size % 5);
}

TEST_F(CodecKernels, ManyBlocksAreAsOnTheHost) {
  for (const size_t shift : {0, 1}) ExpectSame(codec_cases::Random(11, kMostElements), shift);
}

TEST_F(CodecKernels, EveryPatternDecodesAsOnTheHost) {
  for (const CodecKind kind : {CodecKind::kFp16, CodecKind::kBf16}) {
    ExpectSameBits(kind, codec_cases::AllWords(), 65536, 0);
    ExpectSameBits(kind, codec_cases::AllWords(), 65536, 1);
  }
  for (const CodecKind kind : kAllCodecs) {
    ExpectSameBits(kind, codec_cases::RandomBytes(kind, 9, 200'003), 200'003, 0);
  }
  for (const CodecKind kind : {CodecKind::kMxfp4, CodecKind::kE3m0}) {
    size_t elements = 0;
    const std::vector<std::byte> bytes = codec_cases::AllScales(kind, &elements);
    ExpectSameBits(kind, bytes, elements, 0);
  }
}

TEST_F(CodecKernels, RefusesSizesThatDoNotAgree) {
  const auto encode = [&](atoll_gpu_codec codec, uint64_t elements, uint64_t bytes) {
    return Plugin().table->codec_encode(context_, codec, DeviceValues(0), elements, DeviceBytes(0), bytes, nullptr);
  };
  EXPECT_EQ(encode(ATOLL_GPU_CODEC_MXFP4, 33, 19), 0) << LastError();
  EXPECT_EQ(encode(ATOLL_GPU_CODEC_INT8, 0, 0), 0) << LastError();
  EXPECT_NE(encode(ATOLL_GPU_CODEC_MXFP4, 33, 18), 0);
  EXPECT_EQ(LastError(), "18 encoded bytes given, but 33 elements take 19");
  EXPECT_NE(encode(static_cast<atoll_gpu_codec>(7), 1, 1), 0);
  EXPECT_EQ(LastError(), "the plugin does not know this codec");
  EXPECT_NE(encode(ATOLL_GPU_CODEC_FP32, UINT64_MAX, UINT64_MAX), 0);
  EXPECT_NE(
      Plugin().table->codec_decode(context_, ATOLL_GPU_CODEC_FP16, DeviceBytes(0), 3, DeviceValues(0), 1, nullptr), 0);
}

}  // namespace
}  // namespace atl
