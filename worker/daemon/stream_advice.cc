// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/stream_advice.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/preflight/coordinator_check.h"

namespace atl {

std::string AdviceOnRevoked(const WorkerOptions& options, absl::string_view sentence) {
  if (options.identity.empty() || !absl::StrContains(sentence, "was revoked")) return {};
  return absl::StrCat("move ", options.identity, " away and start this worker again with ",
                      options.join ? "a new join string" : "--join-token FILE");
}

std::string StreamAdvice::operator()(const absl::Status& why) {
  if (absl::IsUnimplemented(why)) {
    return absl::StrCat(
        "the server there accepts no workers; set --coordinator to the coordinator's control port (--control-port, "
        "default 7070)");
  }
  if (!absl::IsUnavailable(why)) return AdviceOnRevoked(options_, why.message());
  const Instant now = clock_->Now();
  if (now < look_at_) return why.message() == looked_for_ ? found_ : std::string();
  looked_for_ = std::string(why.message());
  found_ = std::string(FindTlsFault(options_.coordinator, options_.identity).message());
  look_at_ = now + (found_.empty() ? kIdleLookInterval : kLookInterval);
  return found_;
}

}  // namespace atl
