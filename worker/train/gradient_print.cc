// SPDX-License-Identifier: Apache-2.0
#include "worker/train/gradient_print.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

constexpr int64_t kPrintBlock = 4096;

// Rows of one block each, then the remainder as a row.
std::vector<at::Tensor> Rows(const at::Tensor& arena) {
  std::vector<at::Tensor> rows;
  const int64_t whole = arena.numel() / kPrintBlock * kPrintBlock;
  if (whole > 0) rows.push_back(arena.narrow(0, 0, whole).view({-1, kPrintBlock}));
  if (whole < arena.numel()) rows.push_back(arena.narrow(0, whole, arena.numel() - whole).unsqueeze(0));
  return rows;
}

std::vector<float> OnHost(const std::vector<at::Tensor>& parts) {
  const at::Tensor all = at::cat(parts).cpu().contiguous();
  return {all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel()};
}

absl::Status Apart(const char* what, size_t block, double got, double wanted) {
  return absl::FailedPreconditionError(absl::StrCat("a recorded pass computes ", got, " of the ", what, " of block ",
                                                    block, " of the gradients, but single launches compute ", wanted));
}

}  // namespace

absl::StatusOr<GradientPrint> PrintOf(const Arena& gradients, double loss) {
  return Guarded("comparing gradients", [&]() -> absl::StatusOr<GradientPrint> {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> norms, sums;
    for (const at::Tensor& rows : Rows(TensorOf(gradients))) {
      norms.push_back(at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}));
      sums.push_back(rows.sum(at::IntArrayRef{1}));
    }
    return GradientPrint{loss, OnHost(norms), OnHost(sums)};
  });
}

absl::Status Agree(const GradientPrint& got, const GradientPrint& wanted) {
  ATOLL_CHECK(got.norms.size() == wanted.norms.size(), "prints of one arena are equally long");
  if (!(std::fabs(got.loss - wanted.loss) <= 1e-5 * std::fabs(wanted.loss))) {
    return absl::FailedPreconditionError(
        absl::StrCat("a recorded pass computes a loss of ", got.loss, ", but single launches compute ", wanted.loss));
  }
  double largest = 0;
  for (const float norm : wanted.norms) largest = std::max(largest, static_cast<double>(norm));
  for (size_t b = 0; b < wanted.norms.size(); ++b) {
    const double norm = static_cast<double>(wanted.norms[b]);
    const double most = 1e-2 * norm + 1e-6 * largest;
    const double got_norm = static_cast<double>(got.norms[b]), got_sum = static_cast<double>(got.sums[b]);
    if (!(std::fabs(got_norm - norm) <= most)) return Apart("norm", b, got_norm, norm);
    const double sum = static_cast<double>(wanted.sums[b]);
    if (!(std::fabs(got_sum - sum) <= most)) return Apart("sum", b, got_sum, sum);
  }
  return absl::OkStatus();
}

}  // namespace atl
