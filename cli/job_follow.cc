// SPDX-License-Identifier: Apache-2.0
// watch, wait, logs: commands that keep running.
#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "cli/job_commands.h"
#include "cli/output.h"
#include "cli/watch_view.h"
#include "common/base/utf8.h"

namespace atl::cli {
namespace {

// Time limit for reconnecting, because a coordinator may be restarted during a watch.
constexpr Duration kReconnectLimit = Seconds(120);
constexpr Duration kReconnectPause = Milliseconds(500);

int ExitCodeOfState(v1::JobState state) {
  if (state == v1::JOB_STATE_FAILED) return kExitJobFailed;
  return state == v1::JOB_STATE_CANCELLED ? kExitJobCancelled : kExitOk;
}

// Follows a job until it has ended, through broken connections of less than kReconnectLimit each. `show` receives
// every message. `tell` receives a sentence when the connection is lost, and an empty one when it is restored.
// Messages with only events precede one with the job.
class Follower {
 public:
  using Tell = std::function<void(const std::string&)>;
  Follower(Session& session, std::string job, Tell tell) : session_(session), tell_(std::move(tell)) {
    request_.set_name(std::move(job));
  }

  template <typename Show>
  int Run(const Show& show) {
    for (;;) {
      const absl::Status status = session_.api.WatchJob(request_, [&](const v1::WatchJobResponse& message) {
        Note(message);
        show(message);
        return !IsTerminal(state_);
      });
      if (IsTerminal(state_)) return ExitCodeOfState(state_);
      if (!status.ok() && status.code() != absl::StatusCode::kUnavailable) return Fail(session_, status);
      if (const absl::Status left = CheckTimeIsLeft(session_); !left.ok()) return Fail(session_, left);
      if (!MayRetry(status)) {
        return Fail(session_, status.ok()
                                  ? absl::UnavailableError("the coordinator ended the stream before the job ended")
                                  : status);
      }
      session_.pause_before_retry(kReconnectPause);
    }
  }

 private:
  void Note(const v1::WatchJobResponse& message) {
    if (!lost_.empty()) tell_("");
    lost_.clear();
    seen_ = true;
    if (message.has_job()) state_ = message.job().state();
    for (const v1::JobEvent& event : message.events()) {
      if (event.revision() > request_.after_revision()) request_.set_after_revision(event.revision());
    }
  }

  bool MayRetry(const absl::Status& status) {
    const Instant now = session_.clock.Now();
    if (!seen_) return false;  // never connected: report the error at once
    if (lost_.empty()) {
      lost_ = status.ok() ? "the stream ended" : std::string(status.message());
      lost_since_ = now;
      tell_("connection lost, reconnecting: " + lost_);
    }
    return now - lost_since_ < kReconnectLimit;
  }

  Session& session_;
  const Tell tell_;
  v1::WatchJobRequest request_;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  bool seen_ = false;
  std::string lost_;
  Instant lost_since_{};
};

// Returns a `tell` for followers without a redrawn view: it writes to standard error.
Follower::Tell TellBeside(Session& session) {
  return [&session](const std::string& sentence) {
    session.talk << (sentence.empty() ? "reconnected" : sentence) << "\n";
  };
}

bool IsProgramFormat(OutputFormat format) { return format == OutputFormat::kJson || format == OutputFormat::kJsonl; }

void ShowEvents(Session& session, const v1::WatchJobResponse& message) {
  for (const v1::JobEvent& event : message.events()) {
    if (IsProgramFormat(session.format)) {
      session.out << ToJson(event, true);
    } else {
      session.out << EventLine(event) << "\n";
    }
  }
  session.out.flush();
}

std::string EndLine(const v1::Job& job) {
  std::string line = absl::StrCat(job.name(), " ", StateText(job.state()));
  if (!job.reason().empty()) absl::StrAppend(&line, ": ", Printable(job.reason()));
  return line;
}

using Seen = std::function<void(const v1::WatchJobResponse&)>;

// Returns "tokyo waits # s" for "tokyo waits 12 s": the part of a line that stays while its numbers
// change. Numbers in names are kept.
std::string WithoutFigures(const std::string& line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = absl::ascii_isdigit(static_cast<unsigned char>(line[i])) && (i == 0 || line[i - 1] == ' ');
    if (!begins) {
      out += line[i];
      continue;
    }
    out += '#';
    while (i + 1 < line.size() && (absl::ascii_isdigit(static_cast<unsigned char>(line[i + 1])) || line[i + 1] == '.'))
      ++i;
  }
  return out;
}

// Selects the waits to report without a redrawn view. A wait of a job that is pending, paused or waits for workers,
// or a wait for a silent worker, is reported at once; any other when it lasts longer than usual. The same cause is
// reported again only after a change of the job's state, or after it was absent (kForgotten).
class Waits {
 public:
  // Returns the line to report now; usually empty.
  std::string Line(const v1::WatchJobResponse& message, Instant now) {
    const v1::Job& job = message.job();
    const bool stands = job.state() == v1::JOB_STATE_PENDING || job.state() == v1::JOB_STATE_WAITING_FOR_WORKERS ||
                        job.state() == v1::JOB_STATE_PAUSED;
    const std::string& why = stands && message.waiting_line().empty() ? job.reason() : message.waiting_line();
    const std::string cause = stands ? why : WithoutFigures(why);
    if (job.state() != state_) told_.clear();
    const bool same = job.state() == state_ && cause == cause_;
    if (!same || job.rounds_committed() != rounds_) since_ = now;
    state_ = job.state();
    cause_ = cause;
    rounds_ = job.rounds_committed();
    if (why.empty() || IsTerminal(state_)) return "";
    const bool lasts = NamesSilent(message) || now - since_ >= kOrdinaryWait;
    const bool tell = stands ? !same : lasts && !ToldBefore(now);
    return tell ? absl::StrCat(StateText(state_), ": ", Printable(why)) : "";
  }

 private:
  static constexpr Duration kOrdinaryWait = Seconds(10);
  static constexpr Duration kForgotten = Seconds(300);  // a cause that was absent for this long is reported again

  static bool NamesSilent(const v1::WatchJobResponse& message) {
    return std::any_of(message.workers().begin(), message.workers().end(), [&](const v1::WorkerStatus& w) {
      return w.state() == "silent" &&
             absl::StrContains(message.waiting_line(), w.name().substr(w.name().rfind('/') + 1));
    });
  }

  bool ToldBefore(Instant now) {
    std::erase_if(told_, [&](const auto& told) { return now - told.second >= kForgotten; });
    return !told_.insert_or_assign(cause_, now).second;
  }

  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  std::string cause_;
  uint64_t rounds_ = 0;
  Instant since_{};                      // start of this cause, without a round since
  std::map<std::string, Instant> told_;  // cause -> when it was last present
};

int WatchEvents(Session& session, const std::string& job, const Seen& seen) {
  Waits waits;
  return Follower(session, job, TellBeside(session)).Run([&](const v1::WatchJobResponse& message) {
    ShowEvents(session, message);
    if (!message.has_job()) return;
    seen(message);
    const std::string line = waits.Line(message, session.clock.Now());
    if (!line.empty()) session.talk << line << "\n";
  });
}

int WatchLive(Session& session, const std::string& job, const Seen& seen) {
  WatchPainter painter(session.out, session.terminal.color);
  v1::WatchJobResponse last;
  const auto draw = [&] {
    const WatchSize size{session.terminal.width(), session.terminal.height(), session.terminal.unicode};
    painter.Draw(RenderWatch(last, size), size);
  };
  // Messages between two views would corrupt them: the sentence replaces the waiting line.
  const auto tell = [&](const std::string& sentence) {
    last.set_waiting_line(sentence);
    draw();
  };
  return Follower(session, job, tell).Run([&](const v1::WatchJobResponse& message) {
    if (!message.has_job()) return;
    seen(message);
    last = message;
    draw();
  });
}

}  // namespace

int WatchJob(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  std::string end;
  const auto remember = [&end](const v1::WatchJobResponse& message) { end = EndLine(message.job()); };
  const bool live = session.terminal.out && session.format == OutputFormat::kTable;
  const int code = live ? WatchLive(session, *name, remember) : WatchEvents(session, *name, remember);
  if (!end.empty() && (code == kExitOk || code == kExitJobFailed || code == kExitJobCancelled))
    session.talk << end << "\n";
  return code;
}

int WaitForJob(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::Job last;
  const int code = Follower(session, *name, TellBeside(session)).Run([&](const v1::WatchJobResponse& message) {
    if (!message.has_job()) return;
    // Only a person can end this wait.
    if (message.job().state() == v1::JOB_STATE_PAUSED && last.state() != v1::JOB_STATE_PAUSED)
      session.talk << EndLine(message.job()) << "\n";
    last = message.job();
  });
  if (!IsTerminal(last.state())) return code;
  if (IsProgramFormat(session.format) || session.format == OutputFormat::kYaml) {
    PrintMessage(session, last);
  } else {
    // With -o name, `submit --wait` has already printed the result, so the outcome is written to standard error.
    (session.format == OutputFormat::kName ? session.talk : session.out) << EndLine(last) << "\n";
  }
  return code;
}

int JobLogs(Session& session, const LogsOptions& options) {
  v1::StreamJobLogsRequest request;
  const absl::StatusOr<std::string> name = JobResource(options.job);
  if (!name.ok()) return Fail(session, name.status());
  request.set_name(*name);
  if (!options.worker.empty()) {
    const absl::StatusOr<std::string> worker = WorkerResource(options.worker);
    if (!worker.ok()) return Fail(session, worker.status());
    request.set_worker(*worker);
  }
  request.set_tail(options.tail);
  request.set_follow(options.follow);
  bool any = false;
  const absl::Status status = session.api.StreamJobLogs(request, [&](const v1::StreamJobLogsResponse& message) {
    any = any || message.lines_size() > 0;
    if (IsProgramFormat(session.format)) {
      session.out << ToJson(message, true);
    } else {
      for (const std::string& line : message.lines()) session.out << Printable(line) << "\n";
    }
    session.out.flush();
    return true;
  });
  if (status.ok() && !any && options.worker.empty()) {
    session.talk << "the coordinator has logged no line about it since its start; 'atoll job describe " << options.job
                 << "' shows its newest events\n";
  }
  return status.ok() ? kExitOk : Fail(session, status);
}

}  // namespace atl::cli
