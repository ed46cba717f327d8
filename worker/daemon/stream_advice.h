// SPDX-License-Identifier: Apache-2.0
// What a worker's owner can do about a coordinator that does not take the worker: the clause that follows the reason.
#ifndef ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_
#define ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"

namespace atl {

// Of a sentence that tells that the join token was revoked by which the worker enrolled: a token that is given is not
// looked at while there is an identity. Else empty.
std::string AdviceOnRevoked(const WorkerOptions& options, absl::string_view sentence);

// Of control streams that fail one after the other. Copies are advisers of their own.
class StreamAdvice {
 public:
  static constexpr Duration kLookInterval = Seconds(60), kIdleLookInterval = Seconds(10);
  StreamAdvice(const WorkerOptions& options, const Clock& clock) : options_(options), clock_(&clock) {}
  // Where the channel tells only that it did not come up, looks at the coordinator itself (FindTlsFault) and blocks as
  // long as that does: once in kLookInterval, and in kIdleLookInterval where there was nothing to find, as while a
  // coordinator is started again. Until then what fails with the same words has the same advice.
  std::string operator()(const absl::Status& why);

 private:
  WorkerOptions options_;
  const Clock* clock_;
  Instant look_at_ = {};
  std::string looked_for_, found_;  // the words of a failure, and the advice
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_STREAM_ADVICE_H_
