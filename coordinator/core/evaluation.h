// SPDX-License-Identifier: Apache-2.0
// The evaluations of one job, as a machine of its own: the pending evaluation, the worker that makes it, the results.
// The schedule and the time allowed for a worker are functions of the spec and of the recorded state, so that a restart
// decides the same. Pure; owned by the engine thread.
//
//   NONE -- Start --> UNASSIGNED -- Advance: a worker is ready --> ASSIGNED -- Fail, Hear of a failure --> FAILED
//                         ^---- Advance: too slow, or lost; Take; Release ----'----------- the same ---------'
//
// Hear of a valid result, Drop, RollBack and Take at the fifth try end the pending evaluation: NONE. Restart:
// UNASSIGNED. Effects: Advance returns the worker that lost the evaluation and the one that got it, Hear whether a
// result was recorded. The parent (job.h) sends, logs and stores accordingly.
#ifndef ATOLL_COORDINATOR_CORE_EVALUATION_H_
#define ATOLL_COORDINATOR_CORE_EVALUATION_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"

namespace atl {

// Whether a commit that brings fragment 0 to `version` requires an evaluation.
bool EvaluationIsDue(const EvaluationSpec& rule, Version version);

// Whether the newest commit up to `version` that requires an evaluation has none in `done`: the
// evaluations so far, by number, without those undone by a rollback.
bool EvaluationIsOwed(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version);

// Whether an evaluation of fragment 0's `version` scores the tasks: the first, the last, and one in
// each `tasks_every_rounds` versions. `done`: as for EvaluationIsOwed.
bool TasksAreDue(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version, bool last);

// Why these cannot be the scores of the job's tasks; empty: they may. There is one score for each
// task, in order, with the job's number of examples.
std::string WhyImpossible(const EvaluationSpec& rule, const std::vector<TaskScore>& scores);

// Why the figures cannot result from an evaluation of `samples` held-out samples; empty: they may.
std::string WhyImpossible(const JobSpec& spec, uint64_t samples, const EvaluationDone& done);

// Held-out samples of one evaluation, at least 1.
uint64_t EvaluationSamples(const JobSpec& spec);

// The time for an evaluation by a worker with the inner step time `step` (0: unknown; then
// estimated from the model's size for a very slow machine). Generous, because a lost worker is
// detected otherwise; at most about two days.
Duration EvaluationAllowance(const JobSpec& spec, bool score_tasks, Duration step);

// The extension given when the holder's time has run out `times` times, if it is busy with the evaluation and
// no other worker can take it. Doubles each time, up to the longer of an hour and the allowance.
Duration EvaluationExtension(Duration allowance, uint32_t times);

// A worker of the job that makes evaluations: a trainer, or one that only evaluates.
struct Evaluator {
  WorkerId worker;
  bool evaluates_only = false;
  bool is_ready = false;  // has the parameters and its data
  Duration step{};        // of an inner step; 0: unknown
};

// Facts about the job and its fleet.
struct EvaluationFacts {
  const JobSpec& spec;
  VersionVector versions;                  // committed
  uint64_t clock_step = 0;                 // at these versions
  bool is_last = false;                    // the job is closing
  bool holder_is_able = false;             // in the job, and not lost
  bool holder_is_busy = false;             // its newest heartbeat reports that it evaluates
  std::vector<Evaluator> evaluators = {};  // by name; a worker that only evaluates is waited for, a trainer is not
};

// The evaluation was taken from its holder.
struct EvaluationTaken {
  uint64_t number = 0;
  WorkerId from;
  std::string failure;  // empty: it was too slow, or is lost
  Duration held{};
  uint32_t tries = 0;
  bool skipped = false;  // it was the last try
};

struct EvaluationStep {
  std::optional<Duration> extended;  // the holder gets that much more time
  std::optional<EvaluationTaken> taken;
  std::optional<WorkerId> given;  // its new holder
};

enum class EvaluationAnswer { kIgnored, kContradicted, kRecorded };

class Evaluation {
 public:
  void Restore(std::vector<EvaluationRecord> done) { done_ = std::move(done); }
  void Start(uint64_t number);    // unless one is pending
  void Restart(uint64_t number);  // makes a pending one unassigned: its workers have left the job
  void Drop() { pending_.reset(); }
  void RollBack(const VersionVector& versions);
  void ForgiveTries();  // they were for older versions
  EvaluationStep Advance(const EvaluationFacts& facts, Instant now);
  // A result, or a failure. `record` has the job, its trained tokens and the wall time; if the answer is kRecorded it
  // is completed as done().back(). `samples`: the assigned ones. Any worker that got the evaluation for these versions
  // may answer, and a failure counts only from the holder. The first result of a worker stands.
  EvaluationAnswer Hear(const WorkerId& worker, const EvaluationDone& message, const JobSpec& spec, uint64_t samples,
                        EvaluationRecord record);
  void Fail(std::string why);  // of the holder
  EvaluationTaken Take(const VersionVector& versions, Instant now);
  void Release() { pending_->held.reset(); }  // the holder left: this is no try
  void Excuse(Duration time, Instant now);    // does not count this time, until now: the coordinator did not run

  // ---- the view of it
  const std::vector<EvaluationRecord>& done() const { return done_; }  // by number, without those undone by a rollback
  bool IsPending() const { return pending_.has_value(); }
  uint64_t number() const { return pending_->number; }
  bool scores_tasks() const { return pending_ && pending_->score_tasks; }
  WorkerId holder() const { return IsHeld() ? pending_->held->worker : WorkerId{}; }  // empty: unassigned
  Duration HeldFor(Instant now) const { return now - pending_->held->given; }
  bool IsWith(const WorkerId& worker) const { return IsHeld() && pending_->held->worker == worker; }
  bool IsUntouched() const { return done_.empty() && skipped_.empty(); }  // none was made, none was skipped
  // In an ending job: the last evaluation, at these versions, was neither made nor skipped.
  bool IsWanted(const EvaluationSpec& rule, const VersionVector& versions) const;
  // Whether nothing is due at `now`: no evaluation is pending, or its holder still has time.
  bool Waits(bool holder_is_able, Instant now) const;
  Instant Wake(Instant now) const;
  EvaluationAssigned Assignment(const JobId& job, uint64_t samples) const;  // to its holder

 private:
  struct Held {
    WorkerId worker;
    Instant given, deadline;
    std::string failure;  // why the worker cannot make it; empty: it may still make it
  };
  struct Pending {
    uint64_t number = 0;
    uint64_t clock_step = 0;
    VersionVector versions;    // of the newest assignment
    std::set<WorkerId> asked;  // all workers that got it for those versions: their results count
    uint32_t tries = 0;        // workers that were too slow, were lost or failed, and extensions
    bool score_tasks = false;
    std::optional<Held> held;
    WorkerId failed;  // the last worker that failed; it may get it again from retry_at on
    Instant retry_at{};
  };
  // The newest result since the start, and the worker that made it.
  struct Made {
    WorkerId by;
    EvaluationDone done;
    bool contradicted = false;  // by a second result of the same worker
  };
  bool IsHeld() const { return pending_ && pending_->held; }
  const Evaluator* Next(const std::vector<Evaluator>& evaluators) const;
  std::optional<Duration> Extend(const EvaluationFacts& facts, Instant now);
  void Give(const Evaluator& to, const EvaluationFacts& facts, Instant now);
  Duration Allowance(const JobSpec& spec, const Evaluator& worker) const;

  std::vector<EvaluationRecord> done_;
  std::optional<Pending> pending_;
  std::optional<Made> made_;
  VersionVector skipped_;  // no worker finished an evaluation of these
  WorkerId last_;          // the last worker that got one
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_EVALUATION_H_
