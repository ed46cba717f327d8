// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <algorithm>

#include "common/base/advice.h"
#include "common/base/utf8.h"
#include "common/wire/resource_names.h"

namespace atl::cli {

bool TimeIsLeft(const Session& session) { return !session.deadline || session.clock.Now() < *session.deadline; }

absl::Status CheckTimeIsLeft(const Session& session) {
  return TimeIsLeft(session) ? absl::OkStatus() : TimeoutHasPassed();
}

absl::Status TimeoutHasPassed() { return absl::DeadlineExceededError("--timeout expired"); }

absl::Status PauseBeforeRetry(const Session& session, Duration length) {
  ATOLL_RETURN_IF_ERROR(CheckTimeIsLeft(session));
  if (session.deadline) length = std::min(length, *session.deadline - session.clock.Now());
  session.pause_before_retry(length);
  return absl::OkStatus();
}

int Fail(Session& session, const absl::Status& status) {
  const bool timed_out = status.code() == absl::StatusCode::kDeadlineExceeded && !TimeIsLeft(session);
  if (timed_out) {
    session.talk << "atoll: --timeout expired\n";
    return kExitTimeout;
  }
  if (status.code() == absl::StatusCode::kCancelled) {
    session.talk << "atoll: interrupted\n";
    return kExitInterrupted;
  }
  session.talk << "atoll: " << WithAdvice(status.message()) << "\n";
  return ExitCodeOf(status);
}

int FailUsage(Session& session, const std::string& sentence) {
  session.talk << "atoll: " << Printable(sentence, "\n\t") << "\n";
  return kExitUsage;
}

absl::StatusOr<std::string> JobResource(const std::string& text) {
  const std::string name = text.compare(0, 5, "jobs/") == 0 ? text : "jobs/" + text;
  ATOLL_ASSIGN_OR_RETURN(const JobId job, ParseJobName(name));
  return JobName(job);
}

absl::StatusOr<std::string> WorkerResource(const std::string& text) {
  const std::string name = text.compare(0, 8, "workers/") == 0 ? text : "workers/" + text;
  ATOLL_ASSIGN_OR_RETURN(const WorkerId worker, ParseWorkerName(name));
  return WorkerName(worker);
}

absl::StatusOr<std::string> CheckpointResource(const std::string& text) {
  std::string name = text;
  if (text.compare(0, 5, "jobs/") != 0) {
    const size_t slash = text.find('/');
    if (slash == std::string::npos) {
      name = absl::StrCat("jobs/", text, "/checkpoints/latest");
    } else {
      // A checkpoint's directory has leading zeros in its name, and people copy that.
      std::string step = text.substr(slash + 1);
      while (step.size() > 1 && step.front() == '0') step.erase(0, 1);
      name = absl::StrCat("jobs/", text.substr(0, slash), "/checkpoints/", step);
    }
  }
  ATOLL_ASSIGN_OR_RETURN(const CheckpointName checkpoint, ParseCheckpointName(name));
  return checkpoint.latest ? JobName(checkpoint.job) + "/checkpoints/latest"
                           : CheckpointNameOf(checkpoint.job, checkpoint.step);
}

}  // namespace atl::cli
