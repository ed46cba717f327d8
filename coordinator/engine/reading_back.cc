// SPDX-License-Identifier: Apache-2.0
// Reads the past of jobs from their event logs. At the start: all of unfinished jobs, and only the
// end of ended jobs, enough to list them. The rest is read on demand: there may be thousands of
// ended jobs with logs of 80 MiB each.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/explain.h"
#include "coordinator/core/run.h"
#include "coordinator/engine/event_lines.h"
#include "coordinator/engine/observer.h"

namespace atl {

// The content of one job's log lines.
struct Observer::Past {
  explicit Past(JobId j) : job(std::move(j)) {}
  void Take(const LoggedEvent& event);

  const JobId job;
  History history;
  LoggedVersions logged;
  std::string state;  // the newest
  bool whole = true;  // the log could be read; lines in it may be torn
};

namespace {

constexpr uint64_t kMostEndBytes = uint64_t{1} << 20;
constexpr uint64_t kEndsBytes[] = {uint64_t{64} << 10, kMostEndBytes};  // the second if the first shows too little
// The number of pasts adopted between two calls of Bound, because each call visits all jobs.
constexpr size_t kJobsBetweenBounds = 256;

}  // namespace

void Observer::Past::Take(const LoggedEvent& event) {
  JobHistory& of_job = history.Of(job);
  of_job.next_revision = std::max(of_job.next_revision, event.revision);
  history.AddEvent(job, {event.revision, event.wall_nanos, event.kind, event.text, event.fields});
  for (const LoggedPoint& point : event.points) {
    history.AddPoint(job, point.curve, {point.step, event.wall_nanos, point.value});
    if (point.curve == kLossCurve) of_job.last_loss = point.value;
  }
  if (event.kind == kRolledBack) history.DropPointsAfter(job, NumberOf(event.fields, "step"));
  of_job.uploaded_total = std::max(of_job.uploaded_total, NumberOf(event.fields, kUploadedField));
  of_job.downloaded_total = std::max(of_job.downloaded_total, NumberOf(event.fields, kDownloadedField));
  for (const LoggedTransfer& of : event.transfers) {
    of_job.uploaded_bytes[of.worker] = of.uploaded_bytes;
    of_job.downloaded_bytes[of.worker] = of.downloaded_bytes;
  }
  if (event.kind == kStateReached && event.fields.contains(kStateReached)) state = event.fields.at(kStateReached);
  if (event.kind != kRoundCommitted) return;
  const FragmentIndex fragment{static_cast<uint32_t>(NumberOf(event.fields, "fragment"))};
  logged[{NumberOf(event.fields, "epoch"), fragment}].insert(NumberOf(event.fields, "version"));
}

void Observer::Recover(const RecoveredState& recovered, const Ledger& ledger,
                       std::function<void(std::function<void()>)> post) {
  post_ = std::move(post);
  (void)ReadEnd(JobId{}, "");  // the fleet's log: its revisions continue
  size_t read = 0;
  for (const RecoveredJob& job : recovered.jobs) {
    if (++read % kJobsBetweenBounds == 0) history_.Bound();
    RecoverTimes(job);
    if (HasEnded(job.job.state) && ReadEnd(job.job.job, NameOf(job.job.state))) continue;
    const Past past = ReadLog(job.job.job);
    if (past.whole) WriteMissing(job, past.logged, ledger);
    if (HasEnded(job.job.state) && past.whole && past.state != NameOf(job.job.state)) WriteMissingEnd(job.job);
    // A crash may have lost the line of the rollback: its effect on the curves is repeated here.
    if (job.job.epoch > 0 && job.job.state == JobState::kPaused) DropPointsAfter(job.job.job, job.clock_step);
  }
  history_.Bound();
}

// Writes the line of the job's end, which marks the log as complete for the next start.
void Observer::WriteMissingEnd(const JobRecord& job) {
  AddFromLedger(StateNote(job.job, job.state, job.reason), job.end_wall_nanos);
}

// A log with the line of the job's end lacks no earlier line, because lines are written in order.
bool Observer::ReadEnd(const JobId& job, const std::string& state) {
  for (const uint64_t bytes : kEndsBytes) {
    Past past(job);
    const auto all = events_.ReadEnd(job, bytes, [&past](const LoggedEvent& event) { past.Take(event); });
    if (!all.ok() && state.empty()) WarnUnread(job, all.status());
    if (!all.ok() || (*all && !state.empty())) return false;  // the caller reads the whole log
    if (past.state != state) continue;
    // Without a loss in this part, the job may have none at all: reads more of the log once.
    if (!state.empty() && past.history.Of(job).last_loss == 0 && bytes < kMostEndBytes) continue;
    history_.Adopt(job, std::move(past.history));
    if (!*all) unread_[job];
    return true;
  }
  return false;
}

void Observer::WarnUnread(const JobId& job, const absl::Status& why) const {
  log_.Warn("event log not read", {{"job", job.value}, {"reason", std::string(why.message())}});
}

Observer::Past Observer::ReadLog(const JobId& job) {
  Past past(job);
  const auto read = events_.Read(job, [&past](const LoggedEvent& event) { past.Take(event); });
  if (!read.ok()) WarnUnread(job, read.status());
  past.whole = read.ok();
  history_.Adopt(job, std::move(past.history));
  return past;
}

void Observer::WithPast(const JobId& job, std::function<void()> then) {
  const auto unread = unread_.find(job);
  if (unread == unread_.end()) return then();
  unread->second.push_back(std::move(then));
  if (unread->second.size() > 1) return;
  const auto past = std::make_shared<Past>(job);
  events_.ReadLater(
      job, [past](const LoggedEvent& event) { past->Take(event); },
      [this, past](const absl::StatusOr<uint64_t>& read) {
        post_([this, past, why = read.status()] {
          if (why.ok()) {
            history_.Adopt(past->job, std::move(past->history));
            history_.Bound();
          } else {
            WarnUnread(past->job, why);
          }
          const auto waiting = unread_.extract(past->job);
          for (const std::function<void()>& each : waiting.mapped()) each();
        });
      });
}

}  // namespace atl
