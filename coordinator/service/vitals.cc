// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/vitals.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/stop_wait.h"

namespace atl {
namespace {

bool IsThere(const std::shared_future<void>& answer, Duration limit) {
  return answer.wait_for(std::chrono::nanoseconds(limit.ns)) == std::future_status::ready;
}

}  // namespace

absl::Status Vitals::EngineAnswers() {
  std::shared_future<void> answer;
  {
    const MutexLock lock(mutex_);
    if (!answer_.valid() || IsThere(answer_, {})) {
      auto answered = std::make_shared<std::promise<void>>();
      answer_ = answered->get_future().share();
      parts_.probe([answered] { answered->set_value(); });
    }
    answer = answer_;
  }
  if (IsThere(answer, parts_.engine_limit)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the engine has not answered for ", ToSeconds(parts_.engine_limit), " s"));
}

absl::Status Vitals::Healthy() {
  const absl::Status engine = EngineAnswers();
  return engine.ok() ? parts_.ports.Answering() : engine;
}

void Vitals::Look() {
  parts_.ports.Dial();
  const absl::Status healthy = Healthy();
  if (!healthy.ok()) {
    if (!parts_.manager.alive_every()) return;
    parts_.log.Error("health not reported to the service manager", {{"reason", std::string(healthy.message())}});
    return;
  }
  const absl::Status told = parts_.manager.Alive();
  if (!told.ok() && !manager_deaf_) parts_.log.Warn("watchdog", {{"reason", std::string(told.message())}});
  manager_deaf_ = !told.ok();
}

void Vitals::Run(const std::stop_token& stop) {
  const Duration every = std::min(kLookEvery, parts_.manager.alive_every().value_or(kLookEvery));
  for (; !stop.stop_requested(); WaitForStop(stop, every)) Look();
}

}  // namespace atl
