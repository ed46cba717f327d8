// SPDX-License-Identifier: Apache-2.0
// DeviceEncoder over the plugin's table of C functions.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "worker/device/device_encoder.h"
#include "worker/device/gpu_calls.h"

namespace atl {
namespace {

constexpr char kFormed[] = "waiting for a contribution or a merge";

constexpr CodecKind kLastOfPlugin = CodecKind::kE3m0;
static_assert(static_cast<int>(kLastOfPlugin) == ATOLL_GPU_CODEC_E3M0);
atoll_gpu_codec OfPlugin(CodecKind codec) { return static_cast<atoll_gpu_codec>(codec); }

uint64_t BlocksOf(uint64_t elements) { return (elements + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK; }

class GpuPinnedFloats final : public PinnedFloats {
 public:
  GpuPinnedFloats(const atoll_gpu_table& table, atoll_gpu_context* context, std::span<float> values)
      : table_(table), context_(context), values_(values) {
    std::ranges::fill(values_, 0.0f);
  }
  ~GpuPinnedFloats() override { table_.pinned_free(context_, values_.data()); }
  GpuPinnedFloats(const GpuPinnedFloats&) = delete;
  GpuPinnedFloats& operator=(const GpuPinnedFloats&) = delete;
  std::span<float> values() override { return values_; }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
  const std::span<float> values_;
};

class GpuWork final : public DeviceWork {
 public:
  GpuWork(const atoll_gpu_table& table, atoll_gpu_event* event) : table_(table), event_(event) {}
  ~GpuWork() override { static_cast<void>(Wait()); }
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;
  absl::Status Wait() override { return AwaitEvent(table_, event_, kFormed); }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_event* event_;
};

class GpuEncoder final : public DeviceEncoder {
 public:
  GpuEncoder(const atoll_gpu_table& table, atoll_gpu_context* context, const DeviceEncoderOptions& options)
      : table_(table), context_(context), options_(options) {}
  ~GpuEncoder() override {
    Settle();
    for (void* pinned : {encoded_, sums_}) {
      if (pinned != nullptr) table_.pinned_free(context_, pinned);
    }
    if (scratch_ != nullptr) table_.memory_free(context_, scratch_);
  }
  GpuEncoder(const GpuEncoder&) = delete;
  GpuEncoder& operator=(const GpuEncoder&) = delete;

  absl::Status Allocate() {
    const uint64_t most = options_.most_elements;
    if (table_.form_scratch(OfPlugin(options_.codec), most, options_.residual ? 1 : 0, &scratch_bytes_) != 0) {
      return Failed(table_, "querying the memory of a contribution");
    }
    if (table_.memory_allocate(context_, scratch_bytes_, &scratch_) != 0) {
      scratch_ = nullptr;
      return absl::ResourceExhaustedError(absl::StrCat(
          "no ", scratch_bytes_, " bytes of device memory for forming contributions: ", LastError(table_)));
    }
    ATOLL_RETURN_IF_ERROR(Pin(EncodedSize(options_.codec, most), encoded_));
    return Pin(BlocksOf(most) * sizeof(atoll_gpu_block_sums), sums_);
  }

  absl::StatusOr<std::unique_ptr<PinnedFloats>> OpenPinned(uint64_t elements) override {
    void* memory = nullptr;
    ATOLL_RETURN_IF_ERROR(Pin(elements * sizeof(float), memory));
    return std::unique_ptr<PinnedFloats>(
        std::make_unique<GpuPinnedFloats>(table_, context_, std::span(static_cast<float*>(memory), elements)));
  }

  absl::Status Begin(std::span<const float> local, const FormingPlaces& places, void* compute_stream) override {
    ATOLL_CHECK(local.size() <= options_.most_elements && places.outer.size() == local.size(),
                "a fragment is longer than the former was opened for, or not as long as its outer copy");
    ATOLL_CHECK(places.residual.empty() || (options_.residual && places.residual.size() == local.size()),
                "a residual that the former was not opened for");
    ATOLL_CHECK(places.lost.empty() || places.lost.size() == local.size(), "a loss is as long as its fragment");
    Settle();
    formed_ = {{static_cast<const std::byte*>(encoded_), EncodedSize(options_.codec, local.size())},
               {static_cast<const atoll_gpu_block_sums*>(sums_), BlocksOf(local.size())}};
    const atoll_gpu_forming forming = {.codec = OfPlugin(options_.codec),
                                       .elements = local.size(),
                                       .local = local.data(),
                                       .outer = places.outer.data(),
                                       .residual = places.residual.empty() ? nullptr : places.residual.data(),
                                       .lost = places.lost.empty() ? nullptr : places.lost.data(),
                                       .encoded = encoded_,
                                       .encoded_bytes = formed_.encoded.size(),
                                       .sums = static_cast<atoll_gpu_block_sums*>(sums_),
                                       .scratch = scratch_,
                                       .scratch_bytes = scratch_bytes_};
    if (table_.form(context_, &forming, compute_stream, &event_) == 0) return absl::OkStatus();
    event_ = nullptr;
    return Failed(table_, "forming a contribution");
  }

  absl::StatusOr<FormedParts> Wait() override {
    if (event_ == nullptr) return absl::FailedPreconditionError("no contribution is being formed on the device");
    ATOLL_RETURN_IF_ERROR(AwaitEvent(table_, event_, kFormed));
    return formed_;
  }

  void Settle() override { static_cast<void>(AwaitEvent(table_, event_, kFormed)); }

  absl::StatusOr<std::unique_ptr<DeviceWork>> BeginMerge(double mix, std::span<const float> outer,
                                                         std::span<float> local, void* compute_stream) override {
    ATOLL_CHECK(outer.size() == local.size(), "a fragment is as long as its outer copy");
    if (!ATOLL_GPU_HAS(&table_, merge)) return absl::UnimplementedError("the GPU plugin merges nothing");
    atoll_gpu_event* event = nullptr;
    if (table_.merge(context_, static_cast<float>(mix), static_cast<float>(1 - mix), outer.data(), local.data(),
                     local.size(), compute_stream, &event) != 0) {
      return Failed(table_, "a merge");
    }
    return std::unique_ptr<DeviceWork>(std::make_unique<GpuWork>(table_, event));
  }

 private:
  absl::Status Pin(uint64_t bytes, void*& out) {
    if (table_.pinned_allocate(context_, bytes, &out) == 0) return absl::OkStatus();
    out = nullptr;
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of pinned host memory for forming contributions: ", LastError(table_)));
  }

  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
  const DeviceEncoderOptions options_;
  void* scratch_ = nullptr;  // device memory
  uint64_t scratch_bytes_ = 0;
  void *encoded_ = nullptr, *sums_ = nullptr;  // pinned
  FormedParts formed_;
  atoll_gpu_event* event_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceEncoder>> OpenGpuEncoder(const atoll_gpu_table& table, atoll_gpu_context* context,
                                                              const DeviceEncoderOptions& options) {
  if (!ATOLL_GPU_HAS(&table, form)) {
    return absl::UnimplementedError(
        "the installed GPU plugin cannot form contributions; install the plugin of this worker's version");
  }
  if (options.codec > kLastOfPlugin)
    return absl::UnimplementedError(absl::StrCat("the GPU plugin does not encode ", CodecName(options.codec)));
  auto encoder = std::make_unique<GpuEncoder>(table, context, options);
  ATOLL_RETURN_IF_ERROR(encoder->Allocate());
  return std::unique_ptr<DeviceEncoder>(std::move(encoder));
}

}  // namespace atl
