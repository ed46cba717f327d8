// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/laws.h"

#include <optional>
#include <utility>

namespace atl {
namespace {

constexpr uint64_t kBalanceEvery = 64, kMovesEvery = 8;  // in looks
constexpr Duration kSurelyThere =
    Seconds(15);  // longest silence of a worker that cannot be lost: less than the membership timeout
constexpr size_t kPage = 1 << 20;

std::string Name(const RoundRecord& round) {
  return absl::StrCat("version ", round.reached.version.value, " of fragment ", round.reached.fragment.value,
                      " of job ", round.job.value, " in epoch ", round.epoch);
}

}  // namespace

void Laws::Break(const std::string& law) {
  if (broken_.empty()) broken_ = law;
}

void Laws::Committed(const std::vector<LedgerRecord>& records) {
  ++counts_.commits;
  for (const LedgerRecord& record : records) {
    Count(record);
    if (const auto* round = std::get_if<RoundRecord>(&record)) Record(*round);
    if (const auto* rollback = std::get_if<RollbackRecord>(&record)) {
      Record(*rollback);
      CheckRollback(*rollback, records);
    }
    if (const auto* job = std::get_if<JobRecord>(&record)) Record(*job);
    if (const auto* worker = std::get_if<WorkerRecord>(&record)) Record(*worker);
    if (const auto* lease = std::get_if<LeaseRecord>(&record)) Record(*lease);
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) Record(*checkpoint);
    if (const auto* refused = std::get_if<ScreenedRecord>(&record))
      screened_.insert({refused->job, refused->target, refused->worker});
    if (const auto* gone = std::get_if<WorkerForgotten>(&record)) workers_.erase(gone->worker);
    if (const auto* closed = std::get_if<LeaseClosed>(&record)) leases_[closed->lease].open = false;
  }
  for (const LeaseRecord& granted : std::exchange(granted_, {})) CheckHeld(granted);
}

void Laws::Count(const LedgerRecord& record) {
  counts_.leases += std::holds_alternative<LeaseRecord>(record) ? 1 : 0;
  counts_.evaluations += std::holds_alternative<EvaluationRecord>(record) ? 1 : 0;
  const auto* const checkpoint = std::get_if<CheckpointRecord>(&record);
  counts_.checkpoints += checkpoint != nullptr && checkpoint->complete ? 1 : 0;
}

void Laws::Record(const RoundRecord& round) {
  ++counts_.rounds;
  ++rounds_of_[round.job];
  counts_.contributions += round.contributions.size();
  if (round.boot.value < boot_) Break(absl::StrCat("I10: ", Name(round), " is of an older boot than one before it"));
  boot_ = round.boot.value;
  Fragment& fragment = fragments_[{round.job, round.reached.fragment.value}];
  if (round.epoch != fragment.epoch) Break(absl::StrCat("I6: ", Name(round), " is of another epoch than its job"));
  if (round.reached.version.value != fragment.version + 1)
    Break(absl::StrCat("I6: ", Name(round), " comes after version ", fragment.version));
  fragment.version = round.reached.version.value;
  fragment.hashes[fragment.version] = round.hash;
  const auto job = jobs_.find(round.job);
  if (job == jobs_.end()) return Break(absl::StrCat("I5: ", Name(round), " is of a job that the ledger does not have"));
  if (round.contributions.empty() && round.dropped.empty()) Break(absl::StrCat("I8: ", Name(round), " is empty"));
  uint64_t& clock = clocks_[{round.job, round.epoch}];
  if (round.clock_step < clock) Break(absl::StrCat("the clock of ", Name(round), " goes back from ", clock));
  clock = std::max(clock, round.clock_step);
  const JobRecord& ruled = job->second;
  if (ruled.state == JobState::kRunning && ruled.spec_revision == round.spec_revision &&
      ruled.spec.experiment.pool == PoolSchedule::kConstant && ruled.dataset_samples == UINT64_MAX &&
      round.contributions.size() + round.dropped.size() < ruled.spec.workers.min)
    Break(absl::StrCat("I8: ", Name(round), " has fewer workers than workers.min"));
  double weights = 0;
  for (const CommittedContribution& c : round.contributions) {
    weights += c.weight;
    if (c.header.target.version.value + 1 != round.reached.version.value || c.header.job != round.job)
      Break(absl::StrCat("I1: ", Name(round), " merges a contribution to another round"));
    if (!merged_.insert({round.job, round.epoch, c.header.target, c.header.worker}).second)
      Break(absl::StrCat("I1: ", Name(round), " merges a contribution of worker ", c.header.worker.value, " again"));
    if (ruled.fragments == 1) CheckCounted(round, c.header);
    for (const LeaseCursor& cursor : c.header.cursors) CheckSamples(round, cursor);
  }
  const FragmentVersion made{round.reached.fragment, Version{round.reached.version.value - 1}};
  for (auto told = acknowledged_.lower_bound({round.job, made, WorkerId{}}); told != acknowledged_.end(); ++told) {
    if (std::get<JobId>(told->first) != round.job || std::get<FragmentVersion>(told->first) != made) break;
    CheckTakenIn(told->second.second);
  }
  if (!round.contributions.empty() && std::abs(weights - 1) > 1e-9)
    Break(absl::StrCat("I4: the weights of ", Name(round), " add up to ", weights));
}

void Laws::CheckCounted(const RoundRecord& round, const ContributionHeader& header) {
  const auto& merged = samples_[{round.job, round.epoch}];
  uint64_t samples = 0;
  for (const LeaseCursor& cursor : header.cursors) {
    const auto lease = leases_.find(cursor.lease);
    if (lease == leases_.end()) continue;  // CheckSamples reports it
    const auto before = merged.find(lease->second.begin);
    const uint64_t from = before == merged.end() ? lease->second.begin : before->second.end;
    samples += cursor.cursor - std::min(cursor.cursor, from);
  }
  const uint64_t tokens = samples * jobs_.at(round.job).spec.data.sequence_length;
  if (header.tokens > tokens || header.steps > samples)
    Break(absl::StrCat("I9: worker ", header.worker.value, " counts ", header.tokens, " tokens and ", header.steps,
                       " steps for ", Name(round), ", with ", tokens, " new tokens behind it"));
}

void Laws::CheckTakenIn(const ContributionHeader& header) {
  const bool rolled_back = EpochOf(header.job, header.target.fragment) > 0;  // its epoch is unknown
  if (rolled_back || header.target.version >= VersionOf(header.job, header.target.fragment)) return;
  if (damaged_.contains(header.job) || screened_.contains({header.job, header.target, header.worker})) return;
  if (!merged_.contains({header.job, 0, header.target, header.worker}))
    Break(absl::StrCat("I2: the contribution of worker ", header.worker.value, " to version ",
                       header.target.version.value, " of fragment ", header.target.fragment.value, " of job ",
                       header.job.value, " was accepted, and the round is made without it"));
}

void Laws::CheckSamples(const RoundRecord& round, const LeaseCursor& cursor) {
  const auto lease = leases_.find(cursor.lease);
  if (lease == leases_.end()) return Break(absl::StrCat("I9: ", Name(round), " has samples of an unknown lease"));
  const uint64_t begin = lease->second.begin;
  if (cursor.cursor <= begin) return;
  lease->second.used = true;
  auto& merged = samples_[{round.job, round.epoch}];
  const auto [mine, fresh] = merged.try_emplace(begin, Merged{cursor.cursor, cursor.lease});
  const bool other = !fresh && mine->second.lease != cursor.lease;
  mine->second.end = std::max(mine->second.end, cursor.cursor);
  const auto next = std::next(mine);
  const bool over_next = next != merged.end() && next->first < mine->second.end;
  const bool over_before = mine != merged.begin() && std::prev(mine)->second.end > begin;
  if (other || over_next || over_before)
    Break(absl::StrCat("I9: ", Name(round), " merges samples of lease ", cursor.lease.value, " from ", begin,
                       " on that another lease has brought already"));
}

void Laws::Record(const LeaseRecord& lease) {
  const auto [at, is_new] = leases_.try_emplace(lease.lease, Granted{.begin = lease.range.begin});
  if (is_new) granted_.push_back(lease);
  Granted& granted = at->second;
  granted.left = lease.range.end - std::max(lease.range.begin, lease.consumed_to);
  granted.open = !lease.revoked;
  granted.revoked = granted.revoked || lease.revoked;
  LeaseId& answer =
      requests_.try_emplace({lease.job, lease.worker, lease.incarnation, lease.request}, lease.lease).first->second;
  const Granted& first = leases_[answer];
  if (answer != lease.lease && (first.open || first.used))
    Break(
        absl::StrCat("I9: request ", lease.request, " of worker ", lease.worker.value, " was answered by two leases"));
  answer = std::max(answer, lease.lease);
}

// Called at the end of the transaction, which may also commit samples that the worker held before.
void Laws::CheckHeld(const LeaseRecord& granted) {
  std::set<LeaseId>& held = held_[{granted.job, granted.worker}];
  held.insert(granted.lease);
  std::erase_if(held, [this](LeaseId id) { return !leases_.at(id).open; });
  const auto job = jobs_.find(granted.job);
  if (job == jobs_.end() || job->second.spec.experiment.drop_sync_probability > 0) return;
  const JobSpec& spec = job->second.spec;
  const uint64_t periods = uint64_t{spec.sync.max_unsynced_periods} + 1;
  const uint64_t most = periods * spec.sync.inner_steps * spec.batch.sequences_per_step;
  uint64_t samples = 0;
  for (const LeaseId id : held) samples += leases_.at(id).left;
  if (samples > most)
    Break(absl::StrCat("worker ", granted.worker.value, " is given lease ", granted.lease.value, " of job ",
                       granted.job.value, " and holds ", samples, " samples then, more than ", most));
}

void Laws::Record(const CheckpointRecord& checkpoint) { checkpoints_[{checkpoint.job, checkpoint.step}] = checkpoint; }

void Laws::CheckRollback(const RollbackRecord& rollback, const std::vector<LedgerRecord>& records) {
  bool set_back = false;
  for (const LedgerRecord& record : records) {
    const auto* const pool = std::get_if<PoolRecord>(&record);
    if (pool == nullptr || pool->job != rollback.job) continue;
    set_back = std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const auto& entry) {
      return entry.second.job == rollback.job && entry.second.versions == rollback.versions &&
             entry.second.pool_frontier == pool->frontier;
    });
  }
  if (!set_back) Break(absl::StrCat("I12: a rollback of job ", rollback.job.value, " leaves its samples as they were"));
}

void Laws::Record(const RollbackRecord& rollback) {
  ++counts_.rollbacks;
  for (uint32_t f = 0; f < rollback.versions.size(); ++f) {
    Fragment& fragment = fragments_[{rollback.job, f}];
    if (rollback.epoch != fragment.epoch + 1) Break("I6: a rollback does not begin the next epoch");
    if (rollback.versions[f].value > fragment.version) Break("I6: a rollback goes forward");
    fragment.epoch = rollback.epoch;
    fragment.version = rollback.versions[f].value;
    fragment.hashes.clear();
  }
}

void Laws::Record(const JobRecord& job) {
  const auto before = jobs_.find(job.job);
  if (before != jobs_.end() && HasEnded(before->second.state) && !HasEnded(job.state))
    Break(absl::StrCat("job ", job.job.value, " had ended and goes on"));
  if (HasEnded(job.state) && (before == jobs_.end() || !HasEnded(before->second.state))) ++counts_.ended_jobs;
  if (before == jobs_.end() || before->second.state != job.state) disturbed_.insert(job.job);
  jobs_[job.job] = job;
}

void Laws::Record(const WorkerRecord& worker) {
  workers_[worker.worker] = worker;
  if (worker.quarantine.empty()) {
    quarantined_.erase(worker.worker);
  } else {
    counts_.quarantines += quarantined_.insert(worker.worker).second ? 1 : 0;
  }
}

void Laws::Recovered(const Ledger& ledger, const RecoveredState& state) {
  ++counts_.recoveries;
  lost_.clear();  // after a start every worker counts as alive
  standing_.clear();
  life_ = state.boot;
  if (state.boot.value <= boot_ && counts_.recoveries > 1) Break("I11: a boot number was given twice");
  const auto undecided = std::exchange(undecided_, {});
  const auto differs = [this](const RecoveredState& found) {
    for (const RecoveredJob& job : found.jobs) {
      for (uint32_t f = 0; f < job.heads.size(); ++f) {
        const auto known = fragments_.find({job.job.job, f});
        if (known != fragments_.end() &&
            (known->second.version != job.heads[f].version.value || known->second.epoch != job.job.epoch))
          return true;
      }
    }
    return found.jobs.size() != jobs_.size();
  };
  if (!undecided.empty() && differs(state)) Committed(undecided);
  if (differs(state)) return Break("I4: a coordinator does not find what was committed, or finds more");
  for (const auto& [key, fragment] : fragments_) CheckRounds(ledger, key.first, key.second, fragment);
}

void Laws::CheckRounds(const Ledger& ledger, const JobId& job, uint32_t fragment, const Fragment& known) {
  if (known.hashes.empty()) return;
  const Version before{known.hashes.begin()->first - 1};
  const auto rounds = ledger.Rounds(job, known.epoch, FragmentIndex{fragment}, before, kPage);
  if (!rounds.ok()) return Break(absl::StrCat("I26: the rounds cannot be read: ", rounds.status().message()));
  if (rounds->size() != known.hashes.size()) return Break("I4: a committed round is gone, or one came by itself");
  for (const RoundRecord& round : *rounds) {
    const auto hash = known.hashes.find(round.reached.version.value);
    if (hash == known.hashes.end() || hash->second != round.hash)
      return Break(absl::StrCat("I6: ", Name(round), " has become another one"));
  }
}

void Laws::Looked(const Core& core, Instant now) {
  core.CheckInvariants();
  if (counts_.looks % kMovesEvery == 0) CheckMoves(core, now);
  if (counts_.looks++ % kBalanceEvery != 0) return;
  CheckWorkers(core, now);
  for (const JobId& id : core.Jobs()) {
    const std::optional<JobView> view = core.ViewJob(id, now);
    const BalanceView& b = view->balance;
    if (b.unleased + b.leased + b.consumed + b.abandoned != b.dataset)
      Break(absl::StrCat("I12: the samples of job ", id.value, " do not add up"));
    auto& [epoch, consumed] = consumed_[id];
    if (view->record.epoch == epoch && b.consumed < consumed)
      Break(absl::StrCat("I12: job ", id.value, " has consumed less than before"));
    epoch = view->record.epoch;
    consumed = b.consumed;
    if (HasEnded(view->record.state) && b.leased != 0)
      Break(absl::StrCat("I12: job ", id.value, " has ended and holds leases"));
  }
}

void Laws::CheckWorkers(const Core& core, Instant now) {
  std::map<JobId, uint32_t> present;
  for (const WorkerView& worker : core.ViewWorkers(now)) {
    if (worker.state != WorkerState::kLost || worker.job.value.empty()) {
      const auto lost = lost_.find(worker.worker);
      if (worker.state == WorkerState::kLost && lost != lost_.end() && worker.incarnation == lost->second)
        Break(absl::StrCat("I10: worker ", worker.worker.value, " was lost and has its job no more, but incarnation ",
                           worker.incarnation.value, " of then"));
      lost_.erase(worker.worker);
    } else {
      lost_[worker.worker] = worker.incarnation;
    }
    if (worker.state != WorkerState::kLost && worker.state != WorkerState::kLeft) ++present[worker.job];
    if (!worker.cordoned) {
      cordoned_.erase(worker.worker);
      continue;
    }
    // A worker may appear with its earlier job late, when that job returns after a restart.
    JobId& job = cordoned_[worker.worker];
    if (!job.value.empty() && !worker.job.value.empty() && worker.job != job)
      Break(absl::StrCat("worker ", worker.worker.value, " was cordoned, and gets job ", worker.job.value));
    if (!worker.job.value.empty()) job = worker.job;
  }
  for (const JobId& id : core.Jobs()) {
    const std::optional<JobView> view = core.ViewJob(id, now);
    for (const FragmentView& fragment : view->fragments) {
      if (fragment.expected > fragment.accepted + present[id])
        Break(absl::StrCat("a round of job ", id.value, " waits for ", fragment.expected, " workers, of whom ",
                           fragment.accepted, " have contributed and ", present[id], " are there"));
    }
  }
}

// Considers only workers that cannot have been lost and returned since the last look.
void Laws::CheckMoves(const Core& core, Instant now) {
  std::map<WorkerId, Standing> there;
  std::map<JobId, uint32_t> before, stayed, moved, has;
  for (const WorkerView& worker : core.ViewWorkers(now)) {
    const bool gone = worker.state == WorkerState::kLost || worker.state == WorkerState::kLeft;
    if (gone || worker.state == WorkerState::kDraining || worker.evaluate_only) continue;
    there[worker.worker] = {worker.job, worker.incarnation, now - worker.heartbeat_age};
    ++has[worker.job];
  }
  for (const auto& [worker, was] : std::exchange(standing_, there)) {
    if (now - was.heard > kSurelyThere) continue;
    ++before[was.job];
    const auto is = there.find(worker);
    if (is == there.end() || is->second.incarnation != was.incarnation) continue;
    ++(is->second.job == was.job ? stayed : moved)[was.job];
  }
  for (const JobId& disturbed : std::exchange(disturbed_, {})) before.erase(disturbed);
  for (const auto& [id, count] : before) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.state != JobState::kRunning) continue;
    const uint32_t least = job->second.spec.workers.min;
    if (count >= least && moved[id] > 0 && stayed[id] + moved[id] == count && has[id] < least)
      Break(absl::StrCat("job ", id.value, " had ", count, " workers, of which others take ", moved[id], ": it has ",
                         has[id], " now, fewer than its workers.min of ", least));
  }
}

void Laws::NotBelieved(const ContributionHeader& header, const absl::Status& why) {
  Break(absl::StrCat("a contribution of worker ", header.worker.value, " to version ", header.target.version.value,
                     " of fragment ", header.target.fragment.value, " of job ", header.job.value,
                     " is refused for what it says: ", std::string(why.message())));
}

void Laws::Acknowledged(const ContributionHeader& header) {
  acknowledged_[{header.job, header.target, header.worker}] = {EpochOf(header.job, header.target.fragment), header};
  CheckTakenIn(header);
}

void Laws::Failed(const WorkerId& worker, const JobFailure& failure) {
  Break(absl::StrCat("worker ", worker.value, " leaves job ", failure.job.value, " with an error: ", failure.reason));
}

void Laws::CheckAcknowledged(const RecoveredState& state, const std::map<JobId, std::string>& damaged) {
  for (const auto& [job, why] : damaged) damaged_.insert(job);
  std::set<std::tuple<JobId, FragmentVersion, WorkerId, Digest>> accepted;
  for (const RecoveredJob& job : state.jobs) {
    for (const ContributionHeader& h : job.accepted) accepted.insert({h.job, h.target, h.worker, h.digest});
  }
  std::erase_if(acknowledged_, [this](const auto& told) { return !IsOpen(told.second.second, told.second.first); });
  for (const auto& [key, told] : acknowledged_) {
    const ContributionHeader& h = told.second;
    if (!damaged.contains(h.job) && !accepted.contains({h.job, h.target, h.worker, h.digest}))
      Break(absl::StrCat("I2: the contribution of worker ", h.worker.value, " to version ", h.target.version.value,
                         " of fragment ", h.target.fragment.value, " of job ", h.job.value,
                         " was accepted, and is lost"));
  }
}

bool Laws::IsOpen(const ContributionHeader& header, uint64_t epoch) const {
  const auto job = jobs_.find(header.job);
  if (job == jobs_.end() || HasEnded(job->second.state)) return false;
  const FragmentIndex fragment = header.target.fragment;
  return epoch == EpochOf(header.job, fragment) && header.target.version == VersionOf(header.job, fragment);
}

uint64_t Laws::EpochOf(const JobId& job, FragmentIndex fragment) const {
  const auto at = fragments_.find({job, fragment.value});
  return at == fragments_.end() ? 0 : at->second.epoch;
}

Version Laws::VersionOf(const JobId& job, FragmentIndex fragment) const {
  const auto at = fragments_.find({job, fragment.value});
  return Version{at == fragments_.end() ? 0 : at->second.version};
}

Incarnation Laws::IncarnationOf(const WorkerId& worker) const {
  const auto at = workers_.find(worker);
  return at == workers_.end() ? Incarnation{} : at->second.incarnation;
}

std::string Laws::OtherAccepted(const ContributionHeader& header) const {
  const auto told = acknowledged_.find({header.job, header.target, header.worker});
  if (told == acknowledged_.end() || told->second.second.digest == header.digest) return "";
  const bool may_be_gone = damaged_.contains(header.job) || screened_.contains(told->first);
  if (may_be_gone || !IsOpen(header, told->second.first)) return "";
  return absl::StrCat("I1: worker ", header.worker.value, " contributes twice to version ", header.target.version.value,
                      " of fragment ", header.target.fragment.value, " of job ", header.job.value);
}

std::string Laws::SenderVoid(const ContributionHeader& header) const {
  const auto worker = workers_.find(header.worker);
  if (worker == workers_.end() || header.incarnation < worker->second.incarnation)
    return absl::StrCat("I10: incarnation ", header.incarnation.value, " of worker ", header.worker.value,
                        " is void and contributes");
  for (const LeaseCursor& cursor : header.cursors) {
    const auto lease = leases_.find(cursor.lease);
    const bool known = lease != leases_.end() && lease->second.revoked;
    if (known || cursor.lease < worker->second.leases_from)
      return absl::StrCat("I9: worker ", header.worker.value, " contributes samples of lease ", cursor.lease.value,
                          ", which was taken back");
  }
  return "";
}

Laws::Void Laws::VoidBy(const ContributionHeader& header, BootNumber boot) const {
  Void reasons;
  reasons.job = header.job;
  reasons.epoch = EpochOf(header.job, header.target.fragment);
  reasons.boot = life_.value;
  reasons.screened = screened_.size();
  reasons.accepted = boot > life_ ? absl::StrCat("I11: a contribution is taken from who has seen boot ", boot.value)
                                  : OtherAccepted(header);
  reasons.granted = reasons.accepted.empty() ? SenderVoid(header) : reasons.accepted;
  return reasons;
}

bool Laws::StillHolds(const Void& reasons) const {
  return reasons.boot == life_.value && reasons.epoch == EpochOf(reasons.job, FragmentIndex{0}) &&
         reasons.screened == screened_.size();
}

const JobRecord* Laws::JobOf(const JobId& job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? nullptr : &at->second;
}

std::optional<Digest> Laws::HashOf(const JobId& job, const FragmentVersion& version) const {
  const auto fragment = fragments_.find({job, version.fragment.value});
  if (fragment == fragments_.end()) return std::nullopt;
  const auto hash = fragment->second.hashes.find(version.version.value);
  if (hash == fragment->second.hashes.end()) return std::nullopt;
  return hash->second;
}

void Laws::GoBackTo(const Laws& then) {
  Laws back = then;
  back.broken_ = std::move(broken_);
  back.counts_ = counts_;
  back.kept_ = std::move(kept_);
  *this = std::move(back);
}

uint64_t Laws::RoundsOf(const JobId& job) const {
  const auto it = rounds_of_.find(job);
  return it == rounds_of_.end() ? 0 : it->second;
}

}  // namespace atl
