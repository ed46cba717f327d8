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

constexpr uint64_t kLastState = 8;
constexpr uint64_t kMostFragments = 1024;  // per job
constexpr double kWeightSlack = 1e-9;

std::string NameOf(const LedgerRound& round) {
  return absl::StrCat("version ", round.version, " of fragment ", round.fragment, " of job ", round.job, " in epoch ",
                      round.epoch);
}

// Checks the fields of single rounds.
class RoundChecker {
 public:
  RoundChecker(const LedgerImage& image, Report& report) : path_(image.path), meta_(image.meta), report_(report) {}

  void Check(const LedgerRound& round, const LedgerJob& job) {
    const v1::RoundRecord& record = *round.record;
    Expect(record.reached().fragment() == round.fragment && record.reached().version() == round.version, round.job,
           absl::StrCat(NameOf(round), " holds the record of another version"));
    Expect(record.spec_revision() <= job.spec_revision, round.job,
           absl::StrCat(NameOf(round), " was made by spec revision ", record.spec_revision(),
                        ", which was never committed"));
    const bool empty = record.contributions_size() == 0;
    Expect(!empty || record.dropped_size() > 0, round.job, absl::StrCat(NameOf(round), " has no contribution"));
    uint64_t tokens = 0;
    double weights = 0;
    std::string worker;
    for (const v1::CommittedContribution& c : record.contributions()) {
      Expect(worker < c.worker(), round.job,
             absl::StrCat(NameOf(round), " does not name its workers in order, each once"));
      worker = c.worker();
      tokens += c.tokens();
      weights += c.weight();
      const bool weighed = c.weight() >= 0 && c.clip_factor() > 0 && c.clip_factor() <= 1;
      const bool known = c.incarnation() > 0 && c.incarnation() < meta_.next_incarnation;
      Expect(weighed && known, round.job,
             absl::StrCat(NameOf(round), " has an impossible weight, clip factor or incarnation for worker ", worker));
    }
    Expect(empty || std::fabs(weights - 1) < kWeightSlack, round.job,
           absl::StrCat("the weights of ", NameOf(round), " add up to ", weights, ", not 1"));
    Expect(tokens == record.tokens(), round.job,
           absl::StrCat(NameOf(round), " says ", record.tokens(), " tokens, its contributions have ", tokens));
  }

 private:
  // Reports `problem` unless `holds`.
  void Expect(bool holds, const std::string& job, const std::string& problem) {
    if (!holds) report_.Damage({path_, std::nullopt, job, problem, kRestoreState});
  }

  const std::string& path_;
  const LedgerMeta& meta_;
  Report& report_;
};

class Checker {
 public:
  Checker(const LedgerImage& image, Report& report) : image_(image), report_(report) {}

  std::map<std::string, JobStanding> Run() {
    CheckJobs();
    FoldHistory();
    CheckSequence();
    CheckHolders();
    for (const auto& [name, standing] : standings_) CheckPool(*standing.job);
    return std::move(standings_);
  }

 private:
  void Wrong(const std::string& job, const std::string& problem) {
    report_.Damage({image_.path, std::nullopt, job, problem, kRestoreState});
  }
  // Reports `problem` unless `holds`.
  void Expect(bool holds, const std::string& job, const std::string& problem) {
    if (!holds) Wrong(job, problem);
  }

  void CheckJobs() {
    std::set<uint64_t> sequences;
    for (const LedgerJob& job : image_.jobs) {
      report_.Count("jobs");
      JobStanding& standing = standings_[job.job];
      standing.job = &job;
      const bool can_be = job.fragments <= kMostFragments;
      for (uint32_t fragment = 0; can_be && fragment < job.fragments; ++fragment) standing.lines[{0, fragment}];
      Expect(can_be, job.job,
             absl::StrCat("job ", job.job, " has ", job.fragments, " fragments, more than the ", kMostFragments,
                          " that a job can have"));
      Expect(job.state >= 1 && job.state <= kLastState, job.job,
             absl::StrCat("job ", job.job, " has the unknown state ", job.state));
      Expect(job.sequence < image_.meta.next_job_sequence && sequences.insert(job.sequence).second, job.job,
             absl::StrCat("job ", job.job, " has the sequence number ", job.sequence, ", which is not its own"));
      Expect(job.spec.name() == job.job, job.job, absl::StrCat("job ", job.job, " has the spec of ", job.spec.name()));
    }
  }

  JobStanding* Find(const std::string& job, const char* what) {
    const auto it = standings_.find(job);
    if (it != standings_.end()) return &it->second;
    Wrong(job, absl::StrCat(what, " belongs to job ", job, ", which is not in the ledger"));
    return nullptr;
  }

  // Folds all history tables, in commit order.
  void FoldHistory() {
    size_t rollback = 0, checkpoint = 0;
    uint64_t boot = 0;
    const auto before = [&](uint64_t seq) {
      for (; checkpoint < image_.checkpoints.size() && image_.checkpoints[checkpoint].seq < seq; ++checkpoint) {
        while (rollback < image_.rollbacks.size() &&
               image_.rollbacks[rollback].seq < image_.checkpoints[checkpoint].seq)
          Fold(image_.rollbacks[rollback++]);
        Fold(image_.checkpoints[checkpoint]);
      }
      while (rollback < image_.rollbacks.size() && image_.rollbacks[rollback].seq < seq)
        Fold(image_.rollbacks[rollback++]);
    };
    for (const LedgerRound& round : image_.rounds) {
      before(round.seq);
      Fold(round);
      Expect(round.boot >= boot && round.boot <= image_.meta.boot, round.job,
             absl::StrCat(NameOf(round), " has the boot number ", round.boot, ", out of order"));
      boot = std::max(boot, round.boot);
    }
    before(UINT64_MAX);
    for (const auto& [name, standing] : standings_) {
      Expect(standing.epoch == standing.job->epoch, name,
             absl::StrCat("job ", name, " is in epoch ", standing.job->epoch, ", but its rollbacks lead to epoch ",
                          standing.epoch));
    }
  }

  void Fold(const LedgerRound& round) {
    report_.Count("rounds in the ledger");
    JobStanding* const standing = Find(round.job, "a round");
    if (standing == nullptr) return;
    const auto line = standing->lines.find({round.epoch, round.fragment});
    if (round.epoch != standing->epoch || line == standing->lines.end())
      return Wrong(round.job, absl::StrCat(NameOf(round), " fits no epoch and fragment of the job"));
    Append(round, line->second);
  }

  // A version that is not the successor is not appended, and neither are those after it: reported once.
  void Append(const LedgerRound& round, FragmentLine& line) {
    if (round.version == line.head + 1) {
      line.head = round.version;
      line.rounds.push_back(&round);
    } else if (!std::exchange(line.broken, true)) {
      Wrong(round.job, absl::StrCat(NameOf(round), " follows version ", line.head));
    }
  }

  void Fold(const LedgerCheckpoint& checkpoint) {
    JobStanding* const standing = Find(checkpoint.job, "a checkpoint");
    if (standing == nullptr) return;
    standing->checkpoints.erase(checkpoint.step);
    if (checkpoint.dropped) return;
    standing->checkpoints[checkpoint.step] = &checkpoint;
    const size_t fragments = standing->job->fragments;
    const bool fits =
        checkpoint.versions.size() == fragments && (!checkpoint.complete || checkpoint.hashes.size() == fragments);
    Expect(fits, checkpoint.job,
           absl::StrCat("the checkpoint at step ", checkpoint.step, " of job ", checkpoint.job, " does not have ",
                        fragments, " fragments"));
  }

  void Fold(const LedgerRollback& rollback) {
    report_.Count("rollbacks");
    JobStanding* const standing = Find(rollback.job, "a rollback");
    if (standing == nullptr) return;
    const std::string name = absl::StrCat("the rollback of job ", rollback.job, " to epoch ", rollback.epoch);
    if (rollback.versions.size() != standing->job->fragments || rollback.epoch != standing->epoch + 1)
      return Wrong(rollback.job, absl::StrCat(name, " follows epoch ", standing->epoch, " with ",
                                              rollback.versions.size(), " fragments"));
    standing->epoch = rollback.epoch;
    for (uint32_t f = 0; f < rollback.versions.size(); ++f)
      standing->lines[{rollback.epoch, f}] = {.base = rollback.versions[f], .head = rollback.versions[f], .rounds = {}};
    for (const auto& [step, checkpoint] : standing->checkpoints) {
      if (checkpoint->complete && checkpoint->versions == rollback.versions)
        standing->started_from[rollback.epoch] = checkpoint;
    }
    Expect(standing->started_from.contains(rollback.epoch), rollback.job,
           absl::StrCat(name, " leads to versions of which there was no checkpoint"));
  }

  // One sequence number covers all history tables.
  void CheckSequence() {
    std::vector<std::pair<uint64_t, const std::string*>> numbers;  // with the job of each
    const auto check = [&](uint64_t seq, const std::string& job) { numbers.emplace_back(seq, &job); };
    for (const LedgerRound& row : image_.rounds) check(row.seq, row.job);
    for (const LedgerRollback& row : image_.rollbacks) check(row.seq, row.job);
    for (const LedgerCheckpoint& row : image_.checkpoints) check(row.seq, row.job);
    for (const LedgerEvaluation& row : image_.evaluations) {
      check(row.seq, row.job);
      const JobStanding* const standing = Find(row.job, "an evaluation");
      if (standing == nullptr) continue;
      Expect(row.evaluation < standing->job->next_evaluation && row.versions.size() == standing->job->fragments,
             row.job, absl::StrCat("evaluation ", row.evaluation, " of job ", row.job, " was never asked for"));
    }
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto& [seq, job] = numbers[i];
      Expect(
          seq < image_.meta.next_seq && (i == 0 || numbers[i - 1].first != seq), *job,
          absl::StrCat("a row of job ", *job, " has the number ", seq, ", which another one has or which comes later"));
    }
  }

  void CheckHolders() {
    for (const LedgerWorker& worker : image_.workers) {
      report_.Count("workers");
      const bool known = worker.job.empty() || standings_.contains(worker.job);
      Expect(known && worker.incarnation < image_.meta.next_incarnation && worker.leases_from <= image_.meta.next_lease,
             worker.job,
             absl::StrCat("worker ", worker.worker, " has a job, an incarnation or leases that were never given"));
    }
    for (const LedgerLease& lease : image_.leases) {
      report_.Count("leases");
      Expect(standings_.contains(lease.job) && lease.lease < image_.meta.next_lease &&
                 lease.incarnation < image_.meta.next_incarnation,
             lease.job,
             absl::StrCat("lease ", lease.lease, " has a job, a number or an incarnation that was never given"));
    }
  }

  // unleased + leased + consumed + abandoned = dataset, and no sample has two holders.
  void CheckPool(const LedgerJob& job) {
    const auto found = image_.pools.find(job.job);
    const LedgerPool pool = found == image_.pools.end() ? LedgerPool{} : found->second;
    std::vector<std::pair<uint64_t, uint64_t>> owned;
    uint64_t unleased = job.dataset_samples - pool.frontier, leased = 0;
    for (const LedgerRange& range : pool.ranges) {
      owned.emplace_back(range.first, range.last);
      unleased += range.last - range.first;
    }
    for (const LedgerLease& lease : image_.leases) {
      if (lease.job != job.job) continue;
      owned.emplace_back(lease.consumed_to, lease.range.last);
      leased += lease.range.last - lease.consumed_to;
      Expect(lease.range.first <= lease.consumed_to, job.job,
             absl::StrCat("lease ", lease.lease, " is consumed to ", lease.consumed_to, ", before its beginning"));
    }
    std::sort(owned.begin(), owned.end());
    uint64_t end = 0;
    for (const auto& [first, last] : owned) {
      Expect(
          first < last && last <= pool.frontier && end <= first, job.job,
          absl::StrCat("samples ", first, " to ", last, " of job ", job.job, " have two holders, or none that can be"));
      end = last;
    }
    Expect(pool.frontier <= job.dataset_samples, job.job,
           absl::StrCat("job ", job.job, " has leased ", pool.frontier, " of ", job.dataset_samples, " samples"));
    Expect(
        unleased + leased + pool.consumed + pool.abandoned == job.dataset_samples, job.job,
        absl::StrCat("the samples of job ", job.job, " do not balance: unleased ", unleased, " + leased ", leased,
                     " + consumed ", pool.consumed, " + abandoned ", pool.abandoned, " is not ", job.dataset_samples));
  }

  const LedgerImage& image_;
  Report& report_;
  std::map<std::string, JobStanding> standings_;
};

}  // namespace

RoundVisitor CheckingRounds(const StateFiles& state, Report& report) {
  return [&state, &report](const LedgerImage& image, const LedgerRound& round) {
    const auto job = std::lower_bound(image.jobs.begin(), image.jobs.end(), round.job,
                                      [](const LedgerJob& j, const std::string& name) { return j.job < name; });
    if (job == image.jobs.end() || job->job != round.job) return false;  // CheckLedger reports it
    RoundChecker(image, report).Check(round, *job);
    const auto files = state.jobs.find(round.job);
    return files != state.jobs.end() &&
           files->second.segments.contains({round.epoch, round.fragment, round.version - 1});
  };
}

std::map<std::string, JobStanding> CheckLedger(const LedgerImage& image, Report& report) {
  return Checker(image, report).Run();
}

}  // namespace atl::audit
