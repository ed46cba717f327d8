// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/answer_budget.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace atl {
namespace {

absl::Status Refusal(const std::string& whose, size_t limit, const std::string& of) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the answers that wait for ", whose, " take ", limit >> 20, " MiB, the limit", of,
                   "; read them, or ask again in a second (this call was carried out, only its answer is missing)"));
}

}  // namespace

absl::StatusOr<AnswerBudget::Held> AnswerBudget::Take(const std::string& caller, size_t bytes) {
  if (bytes == 0) return Held();
  const MutexLock lock(taken_->mutex);
  const auto of = taken_->of.find(caller);
  const size_t of_one = of == taken_->of.end() ? 0 : of->second;
  if (bytes > limits_.of_one - of_one) {
    return Refusal(caller.empty() ? "callers without certificate" : caller, limits_.of_one, " of one caller");
  }
  if (bytes > limits_.all - taken_->all) return Refusal("their callers", limits_.all, "");
  taken_->of[caller] += bytes;
  taken_->all += bytes;
  return Held(taken_.get(), [taken = taken_, caller, bytes](const void*) {
    const MutexLock of_release(taken->mutex);
    taken->all -= bytes;
    const auto it = taken->of.find(caller);
    if ((it->second -= bytes) == 0) taken->of.erase(it);
  });
}

size_t AnswerBudget::taken() const {
  const MutexLock lock(taken_->mutex);
  return taken_->all;
}

}  // namespace atl
