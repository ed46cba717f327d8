// SPDX-License-Identifier: Apache-2.0
#include "worker/model/pass_ops.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <vector>

#include "common/base/check.h"

namespace atl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Data saved for a backward pass must be a LibTorch value: this one wraps the kernels.
struct KeptKernels : torch::CustomClassHolder {
  explicit KeptKernels(PassKernels* of) : kernels(of) {}
  PassKernels* const kernels;
};
constexpr char kKernels[] = "kernels";
void Keep(AutogradContext* context, PassKernels* kernels) {
  context->saved_data[kKernels] = c10::IValue::make_capsule(c10::make_intrusive<KeptKernels>(kernels));
}
PassKernels& Kept(AutogradContext* context) {
  return *c10::static_intrusive_pointer_cast<KeptKernels>(context->saved_data[kKernels].toCapsule())->kernels;
}

struct GatedByKernels : torch::autograd::Function<GatedByKernels> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up, PassKernels* kernels) {
    Keep(context, kernels);
    const at::Tensor in = gate_up.contiguous();
    context->save_for_backward({in});
    std::vector<int64_t> sizes = in.sizes().vec();
    sizes.back() /= 2;
    at::Tensor out = at::empty(sizes, in.options());
    OrThrow(kernels->Gate({.type = TypeOf(in),
                           .width = static_cast<uint32_t>(sizes.back()),
                           .rows = static_cast<uint64_t>(out.numel() / sizes.back()),
                           .gate_up = in.const_data_ptr(),
                           .gradient = nullptr,
                           .out = out.data_ptr()}));
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor in = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
    at::Tensor out = at::empty_like(in);
    const int64_t width = in.size(-1) / 2;
    OrThrow(Kept(context).GateBack({.type = TypeOf(in),
                                    .width = static_cast<uint32_t>(width),
                                    .rows = static_cast<uint64_t>(in.numel() / (2 * width)),
                                    .gate_up = in.const_data_ptr(),
                                    .gradient = gradient.const_data_ptr(),
                                    .out = out.data_ptr()}));
    return {out, at::Tensor()};
  }
};

void SetStrides(const at::Tensor& x, uint64_t (&strides)[3]) {
  for (int64_t i = 0; i < 3; ++i) strides[i] = static_cast<uint64_t>(x.stride(i));
}

// to := from, rotated. Both [sequences, length, heads, head_dim]; `to` may be a part of a larger tensor.
void Turn(PassKernels& kernels, const at::Tensor& from, const at::Tensor& to, const at::Tensor& cosines,
          const at::Tensor& sines, bool back) {
  const at::Tensor in = from.stride(-1) == 1 ? from : from.contiguous();
  const int64_t half = in.size(3) / 2;
  ATOLL_CHECK(to.stride(-1) == 1 && cosines.is_contiguous() && sines.is_contiguous(), "heads and angles lie in a row");
  atoll_gpu_turning turning = {.type = TypeOf(in),
                               .back = back ? 1 : 0,
                               .sequences = static_cast<uint32_t>(in.size(0)),
                               .length = static_cast<uint32_t>(in.size(1)),
                               .heads = static_cast<uint32_t>(in.size(2)),
                               .head_dim = static_cast<uint32_t>(in.size(3)),
                               .in = in.const_data_ptr(),
                               .in_strides = {},
                               .out = to.data_ptr(),
                               .out_strides = {},
                               .cosines = cosines.const_data_ptr(),
                               .sines = sines.const_data_ptr(),
                               .angle_rows = static_cast<uint64_t>(cosines.numel() / half)};
  SetStrides(in, turning.in_strides);
  SetStrides(to, turning.out_strides);
  OrThrow(kernels.Turn(turning));
}

// Parts of the third dimension, in order.
Heads PartsOf(const at::Tensor& qkv, int64_t heads) {
  const int64_t kv = (qkv.size(2) - heads) / 2;
  return {qkv.narrow(2, 0, heads), qkv.narrow(2, heads, kv), qkv.narrow(2, heads + kv, kv)};
}

struct TurnedByKernels : torch::autograd::Function<TurnedByKernels> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, int64_t heads,
                               const at::Tensor& cosines, const at::Tensor& sines, PassKernels* kernels) {
    Keep(context, kernels);
    context->save_for_backward({cosines, sines});
    const Heads in = PartsOf(qkv, heads);
    const auto made = [](const at::Tensor& like) { return at::empty(like.sizes(), like.options()); };
    const at::Tensor queries = made(in.queries), keys = made(in.keys), values = made(in.values);
    Turn(*kernels, in.queries, queries, cosines, sines, /*back=*/false);
    Turn(*kernels, in.keys, keys, cosines, sines, /*back=*/false);
    at::Tensor(values).copy_(in.values);
    return {queries, keys, values};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &queries = gradients[0], &keys = gradients[1], &values = gradients[2];
    at::Tensor out = at::empty({queries.size(0), queries.size(1), queries.size(2) + 2 * keys.size(2), queries.size(3)},
                               queries.options());
    const Heads parts = PartsOf(out, queries.size(2));
    Turn(Kept(context), queries, parts.queries, saved[0], saved[1], /*back=*/true);
    Turn(Kept(context), keys, parts.keys, saved[0], saved[1], /*back=*/true);
    at::Tensor(parts.values).copy_(values);
    return {out, {}, {}, {}, {}};
  }
};

// x [sequences, length, heads, head_dim], with rotated halves (Hugging Face's rotate_half).
at::Tensor Rotate(const at::Tensor& x, const Positions& p) {
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::cat({halves[0] * p.cos - halves[1] * p.sin, halves[1] * p.cos + halves[0] * p.sin}, -1);
}

}  // namespace

void OrThrow(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

int32_t TypeOf(const at::Tensor& tensor) {
  const bool wide = tensor.scalar_type() == at::kFloat;
  ATOLL_CHECK(wide || tensor.scalar_type() == at::kBFloat16, "a pass computes in fp32 or bf16");
  return wide ? ATOLL_GPU_TYPE_FP32 : ATOLL_GPU_TYPE_BF16;
}

at::Tensor Gated(const at::Tensor& gate_up, PassKernels* kernels) {
  if (kernels != nullptr) return GatedByKernels::apply(gate_up, kernels);
  const std::vector<at::Tensor> halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

Heads RotatedHeads(const at::Tensor& qk, const at::Tensor& qkv, int64_t heads, const Positions& positions) {
  const at::Tensor turned = Rotate(qk, positions);
  const int64_t kv = qk.size(2) - heads;
  return {turned.narrow(2, 0, heads), turned.narrow(2, heads, kv), qkv.narrow(2, heads + kv, kv)};
}

Heads TurnedHeads(const at::Tensor& qkv, int64_t heads, const Positions& positions, PassKernels* kernels) {
  if (kernels != nullptr) {
    const variable_list out = TurnedByKernels::apply(qkv, heads, positions.cos, positions.sin, kernels);
    return {out[0], out[1], out[2]};
  }
  const int64_t kv = (qkv.size(2) - heads) / 2;
  return RotatedHeads(qkv.narrow(2, 0, heads + kv), qkv, heads, positions);
}

}  // namespace atl
