// SPDX-License-Identifier: Apache-2.0
// Advice for a worker's owner if the coordinator refuses the worker: the clause after the reason.
#ifndef ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_
#define ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"

namespace atl {

// Advice on an error message about a revoked join token: a new token has no effect while an
// identity exists. Empty for other messages.
std::string AdviceOnRevoked(const WorkerOptions& options, absl::string_view sentence);

// Advice on consecutive failures of control streams. Copies have their own state.
class StreamAdvice {
 public:
  static constexpr Duration kLookInterval = Seconds(60), kIdleLookInterval = Seconds(10);
  StreamAdvice(const WorkerOptions& options, const Clock& clock) : options_(options), clock_(&clock) {}
  // If the channel only reports that it did not come up, probes the coordinator (FindTlsFault) and blocks for that
  // time. Probes at most every kLookInterval, or every kIdleLookInterval after a probe without a result, as during
  // a restart of the coordinator. In between, failures with the same message get the same advice, others get none.
  std::string operator()(const absl::Status& why);

 private:
  WorkerOptions options_;
  const Clock* clock_;
  Instant look_at_ = {};
  std::string looked_for_, found_;  // the message of a failure, and its advice
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_
