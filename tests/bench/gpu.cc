// SPDX-License-Identifier: Apache-2.0
// bench_gpu [ROUNDS [ELEMENTS]]: measures the GPU's limits and the plugin's kernels over ELEMENTS
// parameters, as JSON for scripts/bench. Without a GPU it prints the reason and exits with status
// 77.
//
// There are two groups. The first has the card's name and the card's limits: copies within the
// device and over the bus, and bf16 matrix products, where "bytes" are floating-point operations.
// The second, "kernels", repeats the copy as the reference for the other variants. Bytes are the
// minimum traffic; n is the number of elements, e the encoded bytes:
//   copy                       8n
//   encode, decode             4n + e
//   form                       16n + e   outer copy, local parameters and residual read, the loss written
//   norm                       4n
//   AdamW                      32n parameters, gradients and moments read and written
//   AdamW, rounded to bf16     34n
// and for n bf16 values, as between the products of a model's pass:
//   judge                      4n        rows of scores become their gradients: 32,768 of them, 1,024 of small ranges
//   SwiGLU, its gradient       3n, 5n    of n gates and ups
//   rotary embedding           4n        32 heads of 128, 4 of small ranges
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "tests/bench/bench.h"
#include "tests/bench/plugin.h"
#include "worker/device/step_kernels.h"
#include "worker/model/tensors.h"

namespace atl::bench {
namespace {

constexpr int kNoDevice = 77;  // exit status of a skipped test program
constexpr int kLaunches = 20;  // per run, so that the final wait has little weight
constexpr TensorDevice kCard{true, 0};

struct Codec {
  CodecKind kind;
  atoll_gpu_codec of_plugin;
};
constexpr Codec kCodecs[] = {{CodecKind::kFp32, ATOLL_GPU_CODEC_FP32},   {CodecKind::kBf16, ATOLL_GPU_CODEC_BF16},
                             {CodecKind::kFp16, ATOLL_GPU_CODEC_FP16},   {CodecKind::kInt8, ATOLL_GPU_CODEC_INT8},
                             {CodecKind::kMxfp4, ATOLL_GPU_CODEC_MXFP4}, {CodecKind::kE3m0, ATOLL_GPU_CODEC_E3M0}};

void Require(const absl::Status& status) { ATOLL_CHECK(status.ok(), std::string(status.message()).c_str()); }

template <typename T>
T Require(absl::StatusOr<T> made) {
  Require(made.status());
  return *std::move(made);
}

// Values in [-1, 1] that differ from their neighbours: equal values need less power, and the card
// would run faster.
at::Tensor Uneven(int64_t elements) {
  at::Tensor index = at::arange(elements, at::TensorOptions().dtype(at::kDouble).device(ToTorch(kCard)));
  return index.mul_(index).mul_(0.37).sin_().to(at::kBFloat16);
}

// Kernels of the plugin and of LibTorch, on the default stream of the first device.
class Card {
 public:
  Card(const atoll_gpu_table& table, size_t elements) : table_(table), elements_(elements) {
    device_ = Require(OpenGpuDevice(&table, 0));
    ATOLL_CHECK(table_.device_open(0, &context_) == 0, "a device can be opened twice");
    for (std::unique_ptr<Arena>& arena : arenas_) arena = Require(Arena::Create(elements, kCard));
    constexpr size_t kSums = sizeof(atoll_gpu_block_sums) / sizeof(float);
    sums_ = Require(Arena::Create((elements / ATOLL_GPU_SUM_BLOCK + 1) * kSums, kCard));
    std::vector<float> values(elements);
    for (size_t i = 0; i < elements; ++i) values[i] = std::sin(static_cast<float>(i));
    for (const size_t filled : {0, 1}) Require(arenas_[filled]->Write(0, values));
    window_ = Require(device_->OpenWindow(arenas_[0]->memory()));
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
    side_ = std::clamp<int64_t>(root / 128 * 128, 128, 8192);
    for (at::Tensor& matrix : matrices_) matrix = Uneven(side_ * side_).view({side_, side_});
    shape_ = elements < kSmall ? PassShape{1024, 4, 2} : PassShape{32768, 32, 1024};
    const auto n = static_cast<int64_t>(elements / shape_.row * shape_.row);
    for (at::Tensor& held : of_pass_) held = Uneven(n);
    targets_ = at::full({n / shape_.row}, 7, matrices_[0].options().dtype(at::kLong));
  }
  ~Card() {
    window_.reset();
    table_.device_close(context_);
  }
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  Group Limits(size_t rounds) {
    const double bus = Bytes(4);
    return Interleave(device_->info().name, 1,
                      {Copy(),
                       {"to the device, pinned", bus, [this] { Over(window_->WriteBack(nullptr)); }, {}},
                       {"to the host, pinned", bus, [this] { Over(window_->Snapshot(nullptr)); }, {}},
                       Product()},
                      rounds);
  }

  Group Kernels(size_t rounds) {
    std::vector<Variant> variants = {Copy()};
    for (const Codec& codec : kCodecs) {
      variants.push_back(Encode(codec));
      variants.push_back(Decode(codec));
    }
    variants.push_back(Norm());
    for (const Codec& codec : kCodecs) variants.push_back(Form(codec));
    for (const bool rounded : {false, true}) variants.push_back(Adamw(rounded));
    for (Variant& variant : OfPass()) variants.push_back(std::move(variant));
    return Interleave("kernels", 1, std::move(variants), rounds);
  }

 private:
  double Bytes(uint64_t of_element) const { return static_cast<double>(of_element * elements_); }
  float* At(size_t arena) { return arenas_[arena]->memory().data(); }

  void Over(const absl::Status& begun) {
    Require(begun);
    Require(window_->Wait());
  }

  // Launches `launch` many times and waits: reading a value waits for all work on the default
  // stream.
  Variant Launches(std::string name, double bytes, std::function<void()> launch) {
    return {std::move(name),
            bytes * kLaunches,
            [this, launch = std::move(launch)] {
              for (int i = 0; i < kLaunches; ++i) launch();
              float one = 0;
              Require(arenas_[0]->Read(0, {&one, 1}));
            },
            {}};
  }
  // The same for a function of the plugin's table, which must return 0.
  Variant Calls(std::string name, double bytes, std::function<int32_t()> call) {
    return Launches(std::move(name), bytes,
                    [call = std::move(call)] { ATOLL_CHECK(call() == 0, "a kernel of the plugin was not launched"); });
  }

  Variant Copy() {
    return Launches("copy", Bytes(8), [to = TensorOf(*arenas_[2]), from = TensorOf(*arenas_[0])] { to.copy_(from); });
  }
  Variant Product() {
    const auto side = static_cast<double>(side_);
    return Launches(absl::StrCat("product in bf16, ", side_, " wide"), 2 * side * side * side,
                    [this] { at::mm_out(matrices_[2], matrices_[0], matrices_[1]); });
  }
  Variant Encode(const Codec& codec) {
    const uint64_t encoded = EncodedSize(codec.kind, elements_);
    return Calls(absl::StrCat("encode ", CodecName(codec.kind)), Bytes(4) + static_cast<double>(encoded),
                 [this, codec, encoded] {
                   return table_.codec_encode(context_, codec.of_plugin, At(0), elements_, At(3), encoded, nullptr);
                 });
  }
  // Decodes the output of the previous variant.
  Variant Decode(const Codec& codec) {
    const uint64_t encoded = EncodedSize(codec.kind, elements_);
    return Calls(absl::StrCat("decode ", CodecName(codec.kind)), Bytes(4) + static_cast<double>(encoded),
                 [this, codec, encoded] {
                   return table_.codec_decode(context_, codec.of_plugin, At(3), encoded, At(2), elements_, nullptr);
                 });
  }
  Variant Norm() {
    return Calls("norm", Bytes(4), [this] { return table_.sum_squares(context_, At(1), elements_, At(3), nullptr); });
  }
  Variant Form(const Codec& codec) {
    const uint64_t encoded = EncodedSize(codec.kind, elements_);
    return Calls(
        absl::StrCat("form ", CodecName(codec.kind)), Bytes(16) + static_cast<double>(encoded), [this, codec, encoded] {
          const atoll_gpu_forming forming = {.codec = codec.of_plugin,
                                             .elements = elements_,
                                             .local = At(0),
                                             .outer = At(1),
                                             .residual = At(2),
                                             .lost = At(5),
                                             .encoded = At(3),
                                             .encoded_bytes = encoded,
                                             .sums = reinterpret_cast<atoll_gpu_block_sums*>(sums_->memory().data()),
                                             .scratch = nullptr,
                                             .scratch_bytes = 0};
          return table_.form_pass(context_, &forming, nullptr);
        });
  }
  // A rate of zero keeps the parameters, so every run has the same gradients.
  Variant Adamw(bool rounded) {
    const atoll_gpu_adamw factors = FactorsOf({.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8});
    return Calls(rounded ? "AdamW, rounded to bf16" : "AdamW", Bytes(rounded ? 34 : 32), [this, factors, rounded] {
      auto* const copy = rounded ? reinterpret_cast<uint16_t*>(At(5)) : nullptr;
      return table_.adamw_step(context_, &factors, At(0), At(1), At(2), At(4), copy, elements_, 0, nullptr);
    });
  }

  std::vector<Variant> OfPass() {
    const auto n = static_cast<uint64_t>(of_pass_[0].numel());
    void *const in = of_pass_[0].data_ptr(), *const out = of_pass_[1].data_ptr(), *const above = of_pass_[2].data_ptr();
    auto* const losses = reinterpret_cast<float*>(sums_->memory().data());
    const uint64_t rows = n / shape_.row, sequence = uint64_t{shape_.length} * shape_.heads * kHead;
    const atoll_gpu_judging judging = {ATOLL_GPU_TYPE_BF16,
                                       1,
                                       of_pass_[3].data_ptr(),
                                       targets_.const_data_ptr<int64_t>(),
                                       losses,
                                       rows,
                                       shape_.row,
                                       0,
                                       0};
    const atoll_gpu_gating gating = {ATOLL_GPU_TYPE_BF16, shape_.row / 2, rows, in, nullptr, out};
    const atoll_gpu_gating back = {ATOLL_GPU_TYPE_BF16, shape_.row / 2, rows, in, above, out};
    const atoll_gpu_turning turning = {ATOLL_GPU_TYPE_BF16,
                                       0,
                                       static_cast<uint32_t>(n / sequence),
                                       shape_.length,
                                       shape_.heads,
                                       kHead,
                                       in,
                                       {sequence, uint64_t{shape_.heads} * kHead, kHead},
                                       out,
                                       {sequence, uint64_t{shape_.heads} * kHead, kHead},
                                       above,
                                       above,
                                       shape_.length};
    const auto bytes = [](uint64_t of_value, uint64_t values) { return static_cast<double>(of_value * values); };
    return {Calls("judge scores", bytes(4, n), [this, judging] { return table_.judge(context_, &judging); }),
            Calls("SwiGLU", bytes(3, n), [this, gating] { return table_.gate(context_, &gating); }),
            Calls("SwiGLU, its gradient", bytes(5, n), [this, back] { return table_.gate_back(context_, &back); }),
            Calls("rotary embedding", bytes(4, turning.sequences * sequence),
                  [this, turning] { return table_.turn(context_, &turning); })};
  }

  static constexpr size_t kSmall = size_t{4} << 20;  // a sequence of heads
  static constexpr uint32_t kHead = 128;
  struct PassShape {
    uint32_t row = 0;  // length of a row of scores, or of gates and ups
    uint32_t heads = 0, length = 0;
  };

  const atoll_gpu_table& table_;
  const size_t elements_;
  std::unique_ptr<Device> device_;
  atoll_gpu_context* context_ = nullptr;
  std::array<std::unique_ptr<Arena>, 6> arenas_;
  std::unique_ptr<Arena> sums_;  // of the blocks of a contribution
  std::unique_ptr<HostWindow> window_;
  std::array<at::Tensor, 3> matrices_;
  std::array<at::Tensor, 4> of_pass_;  // in bf16; the last are scores, which are replaced by their gradients
  at::Tensor targets_;
  PassShape shape_;
  int64_t side_ = 0;
};

std::vector<Group> Run(const atoll_gpu_table& table, size_t rounds, size_t elements) {
  ATOLL_CHECK(ATOLL_GPU_HAS(&table, turn), "the plugin is of this version");
  Card card(table, elements);
  return {card.Limits(rounds), card.Kernels(rounds)};
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  const atl::GpuPlugin plugin = atl::bench::OpenPlugin();
  if (plugin.device_count == 0) {
    std::cerr << "bench_gpu: " << plugin.reason << "\n";
    return atl::bench::kNoDevice;
  }
  return atl::bench::Main(argc, argv, [&plugin](size_t rounds, size_t elements) {
    return atl::bench::Run(*plugin.table, rounds, elements);
  });
}
