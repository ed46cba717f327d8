// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/ledger_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl::audit {
namespace {

constexpr double kWeightSlack = 1e-9;

std::string NameOf(const LedgerRound& round) {
  return absl::StrCat("version ", round.reached.version.value, " of fragment ", round.reached.fragment.value,
                      " of job ", round.job.value, " in epoch ", round.epoch);
}

// Checks the fields of single rounds.
class RoundChecker {
 public:
  RoundChecker(const LedgerImage& image, Report& report) : image_(image), report_(report) {}

  void Check(const LedgerRound& round, const JobRecord& job) {
    const RoundRecord& record = *round.record;
    Expect(record.reached == round.reached, round, "holds the record of another version");
    Expect(record.spec_revision <= job.spec_revision, round,
           absl::StrCat("was made by spec revision ", record.spec_revision, ", which was never committed"));
    const bool empty = record.contributions.empty();
    Expect(!empty || !record.dropped.empty(), round, "has no contribution");
    uint64_t tokens = 0;
    double weights = 0;
    WorkerId worker;
    for (const CommittedContribution& c : record.contributions) {
      Expect(worker < c.header.worker, round, "does not name its workers in order, each once");
      worker = c.header.worker;
      tokens += c.header.tokens;
      weights += c.weight;
      const uint64_t incarnation = c.header.incarnation.value;
      const bool weighed = c.weight >= 0 && c.clip_factor > 0 && c.clip_factor <= 1;
      const bool known = incarnation > 0 && incarnation < image_.counters.next_incarnation;
      Expect(weighed && known, round,
             absl::StrCat("has an impossible weight, clip factor or incarnation for worker ", worker.value));
    }
    Expect(empty || std::fabs(weights - 1) < kWeightSlack, round,
           absl::StrCat("has weights that add up to ", weights, ", not 1"));
    Expect(tokens == record.tokens, round,
           absl::StrCat("says ", record.tokens, " tokens, its contributions have ", tokens));
  }

 private:
  // Reports `problem` of the round unless `holds`.
  void Expect(bool holds, const LedgerRound& round, absl::string_view problem) {
    if (holds) return;
    report_.Damage(
        {image_.path, std::nullopt, round.job.value, absl::StrCat(NameOf(round), " ", problem), kRestoreState});
  }

  const LedgerImage& image_;
  Report& report_;
};

class Checker {
 public:
  Checker(const LedgerImage& image, Report& report) : image_(image), report_(report) {}

  std::map<JobId, JobStanding> Run() {
    CheckJobs();
    FoldHistory();
    CheckSequence();
    CheckHolders();
    for (const auto& [name, standing] : standings_) CheckPool(*standing.job);
    return std::move(standings_);
  }

 private:
  void Wrong(const JobId& job, const std::string& problem) {
    report_.Damage({image_.path, std::nullopt, job.value, problem, kRestoreState});
  }
  // Reports `problem` unless `holds`.
  void Expect(bool holds, const JobId& job, const std::string& problem) {
    if (!holds) Wrong(job, problem);
  }

  void CheckJobs() {
    std::set<uint64_t> sequences;
    for (const auto& [id, job] : image_.jobs) {
      report_.Count("jobs");
      JobStanding& standing = standings_[id];
      standing.job = &job;
      for (uint32_t fragment = 0; fragment < job.fragments; ++fragment) standing.lines[{0, fragment}];
      Expect(job.state >= JobState::kPending && job.state <= JobState::kCancelled, id,
             absl::StrCat("job ", id.value, " has the unknown state ", static_cast<uint32_t>(job.state)));
      Expect(job.sequence < image_.counters.next_job_sequence && sequences.insert(job.sequence).second, id,
             absl::StrCat("job ", id.value, " has the sequence number ", job.sequence, ", which is not its own"));
      Expect(job.spec.name == id.value, id, absl::StrCat("job ", id.value, " has the spec of ", job.spec.name));
    }
  }

  JobStanding* Find(const JobId& job, const char* what) {
    const auto it = standings_.find(job);
    if (it != standings_.end()) return &it->second;
    Wrong(job, absl::StrCat(what, " belongs to job ", job.value, ", which is not in the ledger"));
    return nullptr;
  }

  // Folds rounds and history in commit order.
  void FoldHistory() {
    auto next = image_.history.begin();
    BootNumber boot;
    const auto fold_before = [&](uint64_t seq) {
      for (; next != image_.history.end() && next->first < seq; ++next)
        std::visit([this](const auto& record) { Fold(record); }, next->second);
    };
    for (const LedgerRound& round : image_.rounds) {
      fold_before(round.seq);
      Fold(round);
      Expect(round.boot >= boot && round.boot <= image_.boot, round.job,
             absl::StrCat(NameOf(round), " has the boot number ", round.boot.value, ", out of order"));
      boot = std::max(boot, round.boot);
    }
    fold_before(UINT64_MAX);
    for (const auto& [id, standing] : standings_) {
      Expect(standing.epoch == standing.job->epoch, id,
             absl::StrCat("job ", id.value, " is in epoch ", standing.job->epoch, ", but its rollbacks lead to epoch ",
                          standing.epoch));
    }
  }

  template <typename Record>
  void Fold(const Record&) {}  // other records change no standing

  void Fold(const LedgerRound& round) {
    report_.Count("rounds in the ledger");
    JobStanding* const standing = Find(round.job, "a round");
    if (standing == nullptr) return;
    const auto line = standing->lines.find({round.epoch, round.reached.fragment.value});
    if (round.epoch != standing->epoch || line == standing->lines.end())
      return Wrong(round.job, absl::StrCat(NameOf(round), " fits no epoch and fragment of the job"));
    Append(round, line->second);
  }

  // A version that is not the successor is not appended, and neither are those after it: reported once.
  void Append(const LedgerRound& round, FragmentLine& line) {
    if (round.reached.version.value == line.head + 1) {
      line.head = round.reached.version.value;
      line.rounds.push_back(&round);
    } else if (!std::exchange(line.broken, true)) {
      Wrong(round.job, absl::StrCat(NameOf(round), " follows version ", line.head));
    }
  }

  void Fold(const CheckpointDropped& dropped) {
    if (JobStanding* const standing = Find(dropped.job, "a checkpoint")) standing->checkpoints.erase(dropped.step);
  }

  void Fold(const CheckpointRecord& checkpoint) {
    JobStanding* const standing = Find(checkpoint.job, "a checkpoint");
    if (standing == nullptr) return;
    standing->checkpoints[checkpoint.step] = &checkpoint;
    const size_t fragments = standing->job->fragments;
    const bool fits =
        checkpoint.versions.size() == fragments && (!checkpoint.complete || checkpoint.hashes.size() == fragments);
    Expect(fits, checkpoint.job,
           absl::StrCat("the checkpoint at step ", checkpoint.step, " of job ", checkpoint.job.value, " does not have ",
                        fragments, " fragments"));
  }

  void Fold(const RollbackRecord& rollback) {
    report_.Count("rollbacks");
    JobStanding* const standing = Find(rollback.job, "a rollback");
    if (standing == nullptr) return;
    const std::string name = absl::StrCat("the rollback of job ", rollback.job.value, " to epoch ", rollback.epoch);
    if (rollback.versions.size() != standing->job->fragments || rollback.epoch != standing->epoch + 1)
      return Wrong(rollback.job, absl::StrCat(name, " follows epoch ", standing->epoch, " with ",
                                              rollback.versions.size(), " fragments"));
    standing->epoch = rollback.epoch;
    for (uint32_t f = 0; f < rollback.versions.size(); ++f) {
      const uint64_t version = rollback.versions[f].value;
      standing->lines[{rollback.epoch, f}] = {.base = version, .head = version, .rounds = {}};
    }
    for (const auto& [step, checkpoint] : standing->checkpoints) {
      if (checkpoint->complete && checkpoint->versions == rollback.versions)
        standing->started_from[rollback.epoch] = checkpoint;
    }
    Expect(standing->started_from.contains(rollback.epoch), rollback.job,
           absl::StrCat(name, " leads to versions of which there was no checkpoint"));
  }

  void Fold(const EvaluationRecord& evaluation) {
    const JobStanding* const standing = Find(evaluation.job, "an evaluation");
    if (standing == nullptr) return;
    Expect(
        evaluation.evaluation < standing->job->next_evaluation &&
            evaluation.versions.size() == standing->job->fragments,
        evaluation.job,
        absl::StrCat("evaluation ", evaluation.evaluation, " of job ", evaluation.job.value, " was never asked for"));
  }

  // Rounds and history share one sequence: each number is below next_seq and occurs once.
  void CheckSequence() {
    std::vector<uint64_t> numbers;
    for (const LedgerRound& round : image_.rounds) numbers.push_back(round.seq);
    for (const auto& [seq, record] : image_.history) numbers.push_back(seq);
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 0; i < numbers.size(); ++i) {
      Expect(numbers[i] < image_.next_seq && (i == 0 || numbers[i - 1] != numbers[i]), JobId(),
             absl::StrCat("a row has the number ", numbers[i], ", which another one has or which comes later"));
    }
  }

  void CheckHolders() {
    const CountersRecord& counters = image_.counters;
    for (const WorkerRecord& worker : image_.workers) {
      report_.Count("workers");
      const bool known = worker.job.value.empty() || standings_.contains(worker.job);
      Expect(
          known && worker.incarnation.value < counters.next_incarnation &&
              worker.leases_from.value <= counters.next_lease,
          worker.job,
          absl::StrCat("worker ", worker.worker.value, " has a job, an incarnation or leases that were never given"));
    }
    for (const LeaseRecord& lease : image_.leases) {
      report_.Count("leases");
      Expect(standings_.contains(lease.job) && lease.lease.value < counters.next_lease &&
                 lease.incarnation.value < counters.next_incarnation,
             lease.job,
             absl::StrCat("lease ", lease.lease.value, " has a job, a number or an incarnation that was never given"));
    }
  }

  // unleased + leased + consumed + abandoned = dataset, and no sample has two holders.
  void CheckPool(const JobRecord& job) {
    const auto found = image_.pools.find(job.job);
    const PoolRecord pool = found == image_.pools.end() ? PoolRecord{} : found->second;
    std::vector<std::pair<uint64_t, uint64_t>> owned;
    uint64_t unleased = job.dataset_samples - pool.frontier, leased = 0;
    for (const SampleRange& range : pool.returned) {
      owned.emplace_back(range.begin, range.end);
      unleased += range.end - range.begin;
    }
    for (const LeaseRecord& lease : image_.leases) {
      if (lease.job != job.job) continue;
      owned.emplace_back(lease.consumed_to, lease.range.end);
      leased += lease.range.end - lease.consumed_to;
      Expect(
          lease.range.begin <= lease.consumed_to, job.job,
          absl::StrCat("lease ", lease.lease.value, " is consumed to ", lease.consumed_to, ", before its beginning"));
    }
    std::sort(owned.begin(), owned.end());
    uint64_t end = 0;
    for (const auto& [first, last] : owned) {
      Expect(first < last && last <= pool.frontier && end <= first, job.job,
             absl::StrCat("samples ", first, " to ", last, " of job ", job.job.value,
                          " have two holders, or none that can be"));
      end = last;
    }
    Expect(pool.frontier <= job.dataset_samples, job.job,
           absl::StrCat("job ", job.job.value, " has leased ", pool.frontier, " of ", job.dataset_samples, " samples"));
    Expect(
        unleased + leased + pool.consumed + pool.abandoned == job.dataset_samples, job.job,
        absl::StrCat("the samples of job ", job.job.value, " do not balance: unleased ", unleased, " + leased ", leased,
                     " + consumed ", pool.consumed, " + abandoned ", pool.abandoned, " is not ", job.dataset_samples));
  }

  const LedgerImage& image_;
  Report& report_;
  std::map<JobId, JobStanding> standings_;
};

}  // namespace

RoundVisitor CheckingRounds(const StateFiles& state, Report& report) {
  return [&state, &report](const LedgerImage& image, const LedgerRound& round) {
    const auto job = image.jobs.find(round.job);
    if (job == image.jobs.end()) return false;  // CheckLedger reports it
    RoundChecker(image, report).Check(round, job->second);
    const auto files = state.jobs.find(round.job.value);
    return files != state.jobs.end() && files->second.segments.contains({round.epoch, round.reached.fragment.value,
                                                                         round.reached.version.value - 1});
  };
}

std::map<JobId, JobStanding> CheckLedger(const LedgerImage& image, Report& report) {
  return Checker(image, report).Run();
}

}  // namespace atl::audit
