// SPDX-License-Identifier: Apache-2.0
#include "worker/model/arena.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/hash.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

constexpr int64_t kFingerprintBlock = 4096;  // elements

at::TensorOptions Fp32On(at::Device device) { return at::TensorOptions().dtype(at::kFloat).device(device); }

std::span<float> SpanOf(const at::Tensor& t) { return {t.data_ptr<float>(), static_cast<size_t>(t.numel())}; }

// First line, without the stack that LibTorch appends.
std::string FirstLine(std::string text) {
  const size_t end = text.find('\n');
  if (end != std::string::npos) text.resize(end);
  return text;
}

}  // namespace

at::Device ToTorch(TensorDevice device) {
  if (!device.gpu) return at::Device(at::kCPU);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index));
}

absl::Status StatusOfException(const char* doing, const std::exception& error) {
  const std::string reason = FirstLine(error.what());
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                      dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                      reason.find("can't allocate memory") != std::string::npos;
  if (memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory while ", doing, ": ", reason,
                     "; use a smaller batch.micro_batch, data.sequence_length or model"));
  }
  return absl::InternalError(absl::StrCat("LibTorch failed while ", doing, ": ", reason));
}

Arena::Arena(TensorDevice device, std::unique_ptr<State> state, std::span<float> memory)
    : device_(device), memory_(memory), state_(std::move(state)) {}
Arena::~Arena() = default;

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(uint64_t elements, TensorDevice device) {
  return Guarded("creating an arena", [&]() -> absl::StatusOr<std::unique_ptr<Arena>> {
    if (device.gpu && !at::globalContext().hasCUDA()) {
      return absl::FailedPreconditionError(
          "a GPU was requested, but LibTorch finds none: open the CUDA plugin first, or use the CPU");
    }
    auto state = std::make_unique<State>();
    state->tensor = at::zeros({static_cast<int64_t>(elements)}, Fp32On(ToTorch(device)));
    const std::span<float> memory = SpanOf(state->tensor);
    return std::unique_ptr<Arena>(new Arena(device, std::move(state), memory));
  });
}

std::unique_ptr<Arena> Arena::Wrap(std::span<float> memory) {
  auto state = std::make_unique<State>();
  state->tensor = at::from_blob(memory.data(), {static_cast<int64_t>(memory.size())}, Fp32On(at::kCPU));
  return std::unique_ptr<Arena>(new Arena(TensorDevice{}, std::move(state), memory));
}

absl::Status Arena::Read(uint64_t offset, std::span<float> out) const {
  ATOLL_CHECK(offset <= elements() && out.size() <= elements() - offset, "the range lies in the arena");
  return Guarded("reading an arena", [&]() {
    const auto size = static_cast<int64_t>(out.size());
    at::from_blob(out.data(), {size}, Fp32On(at::kCPU))
        .copy_(state_->tensor.narrow(0, static_cast<int64_t>(offset), size));
    return absl::OkStatus();
  });
}

absl::Status Arena::Write(uint64_t offset, std::span<const float> values) {
  ATOLL_CHECK(offset <= elements() && values.size() <= elements() - offset, "the range lies in the arena");
  return Guarded("writing an arena", [&]() {
    const auto size = static_cast<int64_t>(values.size());
    // from_blob takes no const memory; the tensor is only read.
    const at::Tensor source = at::from_blob(const_cast<float*>(values.data()), {size}, Fp32On(at::kCPU));
    state_->tensor.narrow(0, static_cast<int64_t>(offset), size).copy_(source);
    return absl::OkStatus();
  });
}

absl::Status Arena::Zero() {
  return Guarded("clearing an arena", [&]() {
    state_->tensor.zero_();
    return absl::OkStatus();
  });
}

absl::StatusOr<uint32_t> Arena::Fingerprint() const {
  if (!device_.gpu) return static_cast<uint32_t>(DigestOf(AsBytes(host())).low);
  // Sums of bits, computed on the device; 8 bytes for every 16 KiB are copied to the host.
  return Guarded("comparing an arena", [&]() -> absl::StatusOr<uint32_t> {
    const at::Tensor bits = state_->tensor.view(at::kInt);
    const int64_t whole = bits.numel() / kFingerprintBlock * kFingerprintBlock;
    const at::Tensor blocks = bits.narrow(0, 0, whole).view({-1, kFingerprintBlock}).sum({1}, false, at::kLong);
    const at::Tensor rest = bits.narrow(0, whole, bits.numel() - whole).sum({0}, true, at::kLong);
    const at::Tensor sums = at::cat({blocks, rest}).cpu();
    const std::span<const int64_t> values(sums.const_data_ptr<int64_t>(), static_cast<size_t>(sums.numel()));
    return static_cast<uint32_t>(DigestOf(std::as_bytes(values)).low);
  });
}

void SetTensorThreads(int32_t threads) { at::set_num_threads(threads); }

}  // namespace atl
