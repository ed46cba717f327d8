// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/plan/boot_lines.h"
#include "common/plan/model_layout.h"
#include "coordinator/store/rounds_at_start.h"
#include "tests/sim/world_parts.h"

namespace atl {
namespace {

constexpr Duration kKeepalive = Seconds(15);  // after which a silent connection is closed
constexpr int kLinkTurns = 4;
constexpr Duration kLeastStep = Microseconds(10);
constexpr uint64_t kPassesAtOnce = 1'000'000;

}  // namespace

World::World(uint64_t seed, bool sqlite, bool tell)
    : seed_(seed),
      sqlite_(sqlite),
      random_(StreamKey(seed, "world")),
      log_({.minimum = tell ? LogLevel::kDebug : LogLevel::kError}) {}

World::~World() {
  while (!workers_.empty()) KillWorker(workers_.begin()->first);
  if (coordinator_ != nullptr) KillCoordinator(Death::kKilled);
  older_.clear();
  // A transfer and its handler own each other until the transfer is notified of its end.
  for (; network_.Next() != kNever; near_.RunAll()) {
    clock_.shared.Set(std::max(clock_.Now(), network_.Next()));
    (void)network_.RunDue();
  }
}

std::unique_ptr<Ledger> World::OpenLedger() {
  const bool met_before = files_.met();
  if (!sqlite_) return MakeMemoryLedger(ledger_disk_, [this] { return files_.Meet("commit", "ledger"); });
  auto ledger = sqlite_files_.OpenLedger(DataDirectory(kRoot).LedgerPath());
  if (ledger.ok()) return *std::move(ledger);
  if (!files_.dead() && (met_before || !files_.met())) laws_.Break(absl::StrCat("I26: ", ledger.status().message()));
  return nullptr;
}

void World::StartCoordinator() {
  ATOLL_CHECK(coordinator_ == nullptr, "one coordinator at a time");
  const bool met_before = files_.met();
  const auto by_fault = [&] { return files_.dead() || (files_.met() && !met_before); };
  const auto died = [this] {
    if (files_.dead()) files_.Survive(seed_ + ++nonce_);
  };
  std::unique_ptr<Ledger> ledger = OpenLedger();
  if (ledger == nullptr || !SyncNames(files_, DataDirectory(kRoot)).ok()) return ledger.reset(), died();
  absl::StatusOr<RecoveredState> recovered = ledger->Recover();
  if (!recovered.ok() || files_.dead()) {
    if (!by_fault()) laws_.Break(absl::StrCat("I26: ", recovered.status().message()));
    return ledger.reset(), died();
  }
  laws_.Recovered(*ledger, *recovered);
  absl::StatusOr<RoundsAtStart> found;
  {
    RoundLog rounds(files_, DataDirectory(kRoot), recovered->boot, kSecret);
    found = ReadRoundsAtStart(rounds, files_, DataDirectory(kRoot), *ledger, *recovered);
    ATOLL_CHECK(found.ok(), "the rounds of a ledger cannot be read");
  }
  auto events = EventLog::Open(files_, {.directory = absl::StrCat(kRoot, "/events")});
  if (files_.dead() || !events.ok()) return ledger.reset(), died();
  laws_.CheckAcknowledged(*recovered, found->unusable);
  if (!found->unusable.empty() && !by_fault())
    laws_.Break(absl::StrCat("I25: a log is damaged: ", found->unusable.begin()->second));
  if (!found->damaged.empty() && !by_fault()) laws_.Break(absl::StrCat("I25: ", found->damaged.front().what));
  coordinator_ = std::make_unique<SimCoordinator>(
      SimCoordinatorParts{files_, clock_, work_.jobs, snapshot_work_.jobs, log_,
                          [this](const absl::Status& status) { EndByDisk(status); }},
      *std::move(recovered), std::make_unique<WatchedLedger>(*this, std::move(ledger)), *std::move(events));
  for (auto& [name, worker] : workers_) worker->rerouting->Lead(&coordinator_->bulk);
  nowhere_.Lead(&coordinator_->bulk);
  coordinator_->engine.Start(*found);
  poked_ = true;
}

void World::KillCoordinator(Death death, bool silent) {
  ATOLL_CHECK(coordinator_ != nullptr, "there is no coordinator to kill");
  if (files_.dead()) death = Death::kKilled;  // the fault already decided what the disk holds
  for (auto& [name, worker] : workers_) {
    worker->rerouting->Lead(nullptr);
    worker->down.quality.delay = worker->quality.delay + (silent ? kKeepalive : Duration{});
    worker->break_connection();
  }
  for (const auto& dead : remains_) dead->Lead(nullptr);
  nowhere_.Lead(nullptr);
  near_.RunAll();  // drains the transport; the dead process handles nothing
  for (auto& [name, worker] : workers_) worker->SetQuality(worker->quality);
  coordinator_.reset();
  work_.End();
  snapshot_work_.End();
  near_.RunAll();
  steps_to_live_.reset();
  stopped_until_ = {};
  if (files_.dead()) return files_.Survive(seed_ + ++nonce_);
  if (death == Death::kPowerCut) files_.Crash();
  if (death == Death::kTornPowerCut) files_.TearCrash(seed_ + ++nonce_);
}

World::Copy World::BackUp() const {
  Copy copy{.files = {}, .ledger = ledger_disk_, .laws = laws_};
  for (const std::string& path : files_.Paths()) copy.files[path] = files_.Content(path);
  return copy;
}

void World::Restore(const Copy& copy) {
  ATOLL_CHECK(!sqlite_, "a ledger in SQLite is not restored here");
  if (coordinator_ != nullptr) KillCoordinator(Death::kKilled);
  files_.CopyDiskOf(MemoryFiles());
  for (const auto& [path, content] : copy.files) files_.SetContent(path, content);
  ledger_disk_ = copy.ledger;
  // The operator's wall clock is correct.
  ledger_disk_.boot = NextLine(BootNumber{copy.ledger.boot}, clock_.shared.WallNanos() / 1'000'000'000).value;
  laws_.GoBackTo(copy.laws);
  acknowledged_.clear();
  acknowledged_seen_ = 0;
}

// The production program ends the process here.
void World::EndByDisk(const absl::Status& status) {
  if (!status.ok() && !files_.met() && !files_.dead())
    laws_.Break(absl::StrCat("the coordinator ends without a fault of its disk: ", status.message()));
  disk_failed_ = disk_failed_ || !status.ok();
  if (!status.ok()) files_.Die();
}

void World::StopCoordinator(Duration time) {
  stopped_until_ = clock_.Now() + time;
  poked_ = true;
}

void World::AskSoon(Event event) {
  if (coordinator_ == nullptr) return;
  std::optional<WorkerId> readmitted;
  if (const auto* steered = std::get_if<WorkerSteered>(&event); steered && steered->action == WorkerAction::kReadmit)
    readmitted = steered->worker;
  coordinator_->engine.Ask(std::move(event), [this, readmitted](const RequestAnswered& told) {
    if (readmitted) laws_.Readmitted(*readmitted);
    Trace(told.status.ok() ? 1 : 2);
  });
  poked_ = true;
}

void World::StartWorker(const std::string& name, const Machine& machine) {
  ATOLL_CHECK(!workers_.contains(name), "a worker of that name runs");
  auto worker = std::make_unique<Worker>(*this, name, ++nonce_, machine);
  if (coordinator_ != nullptr) worker->rerouting->Lead(&coordinator_->bulk);
  workers_[name] = std::move(worker);
}

void World::KillWorker(const std::string& name) {
  Worker& worker = *workers_.at(name);
  worker.rerouting->dead = true;
  worker.break_connection();
  near_.RunAll();
  worker.up.Open();
  worker.down.Open();
  worker.bulk_line.Open();
  remains_.push_back(worker.rerouting);
  workers_.erase(name);
  poked_ = true;
}

void World::LeaveWorker(const std::string& name) { workers_.at(name)->session.RequestLeave("asked by the simulation"); }

void World::StopWorker(const std::string& name, Duration time) {
  workers_.at(name)->stopped_until = clock_.Now() + time;
}

void World::SetLink(const std::string& name, const LineQuality& quality) { workers_.at(name)->SetQuality(quality); }

void World::Part(const std::string& name, bool up, bool down) {
  Worker& worker = *workers_.at(name);
  if (up) worker.up.Block();
  if (down) worker.down.Block();
  worker.bulk_line.Block();
}

void World::Join(const std::string& name) {
  Worker& worker = *workers_.at(name);
  worker.up.Open();
  worker.down.Open();
  worker.bulk_line.Open();
}

void World::StallTransfers(const std::string& name) { workers_.at(name)->bulk_line.Block(); }

void World::BreakStream(const std::string& name) { workers_.at(name)->break_connection(); }

void World::LoseStream(const std::string& name) {
  Worker& worker = *workers_.at(name);
  worker.up.quality.delay = worker.quality.delay + kKeepalive;  // the coordinator is notified late
  worker.break_connection();
  near_.RunAll();
  worker.SetQuality(worker.quality);
}

void World::RefuseUploads(const std::string& name, int count) { workers_.at(name)->rerouting->refusals = count; }
void World::CorruptUploads(const std::string& name, int count) { workers_.at(name)->rerouting->corruptions = count; }

const char* World::MeetStranger(Rng& rng) {
  const uint64_t way = rng.Below(8);
  if (way < 3 && !workers_.empty()) {
    Worker& worker = *std::next(workers_.begin(), static_cast<ptrdiff_t>(rng.Below(workers_.size())))->second;
    if (way == 0) {
      worker.rerouting->spoils = 1;
      return "stranger: a bit flips in what is fetched";
    }
    worker.meets_older = true;
    worker.break_connection();
    return "stranger: an older coordinator answers";
  }
  if (coordinator_ == nullptr || files_.dead() || acknowledged_seen_ == 0) return "stranger: nobody is there";
  const size_t back = std::min<size_t>(acknowledged_seen_, 1 + rng.Below(32));  // mostly rounds that may still be open
  Offer(nowhere_, ComesAgain(acknowledged_[acknowledged_seen_ - back], laws_, rng), laws_);
  poked_ = true;
  return "stranger: a contribution comes again";
}

const Session* World::session(const std::string& name) const {
  const auto it = workers_.find(name);
  return it == workers_.end() ? nullptr : &it->second->session;
}

void World::Heard(const std::string& worker, const WorkerMessage& message) {
  Trace(message.index());
  if (const auto* failure = std::get_if<JobFailure>(&message)) laws_.Failed(WorkerId{worker}, *failure);
}

void World::CheckBase(const ContributionHeader& header) {
  const Session* const from = session(header.worker.value);
  const JobRecord* const job = laws_.JobOf(header.job);
  const std::optional<Digest> published = laws_.HashOf(header.job, header.target);
  if (from == nullptr || job == nullptr || !published) return;
  const worker::Core& core = from->core();
  const uint32_t p = header.target.fragment.value;
  const bool same = core.incarnation() == header.incarnation && core.job() == header.job;
  const std::vector<worker::FragmentStatus> standings = core.fragments();
  if (!same || p >= standings.size()) return;  // the worker is preparing the job again
  const worker::FragmentStatus& standing = standings[p];
  if (standing.moving || standing.applied != header.target.version) return;
  const JobSpec& spec = job->spec;
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  const FragmentInfo& fragment = layout.fragments[p];
  const auto base = from->outer_parameters().subspan(fragment.offset, fragment.elements);
  if (ContentHash(base, header.target.version.value, layout.digest) != *published)
    laws_.Break(absl::StrCat("I4: worker ", header.worker.value, " measures its contribution to version ",
                             header.target.version.value, " of fragment ", p, " of job ", header.job.value,
                             " against other parameters than were published"));
}

bool World::HasLeft(const std::string& name) const {
  const Session* const of = session(name);
  return of == nullptr || of->exit().has_value();
}

std::vector<std::string> World::workers() const {
  std::vector<std::string> names;
  names.reserve(workers_.size());
  for (const auto& [name, worker] : workers_) names.push_back(name);
  return names;
}

bool World::Lives() { return coordinator_ != nullptr && stopped_until_ <= clock_.Now(); }

bool World::RunWork() {
  if (!Lives()) return false;
  // Two threads: a snapshot may be written at once, or long after the other jobs.
  const Instant now = clock_.Now();
  const bool soon = snapshot_work_.Next(now) == now && random_.Below(8) == 0;
  return (soon && snapshot_work_.RunOne(now, disk_delay_, random_)) || work_.RunOne(now, disk_delay_, random_) ||
         snapshot_work_.RunOne(now, disk_delay_, random_);
}

bool World::TurnCoordinator(bool moved) {
  if (coordinator_ == nullptr) return false;
  if (!Lives()) {
    next_ = std::min(next_, stopped_until_);
    return false;
  }
  next_ = std::min({next_, work_.Next(clock_.Now()), snapshot_work_.Next(clock_.Now())});
  if (!moved && !std::exchange(poked_, false) && clock_.Now() < coordinator_due_) {
    next_ = std::min(next_, coordinator_due_);
    return false;
  }
  poked_ = false;
  coordinator_->engine.Query([this](const Core& core, const History&, Instant now) { laws_.Looked(core, now); });
  coordinator_due_ = coordinator_->engine.Turn();
  next_ = std::min(next_, coordinator_due_);
  return coordinator_due_ <= clock_.Now();
}

bool World::TurnWorker(Worker& worker) {
  const Instant now = clock_.Now();
  if (worker.session.exit().has_value()) return false;
  if (worker.stopped_until > now) {
    next_ = std::min(next_, worker.stopped_until);
    return false;
  }
  const bool free = !worker.clock.busy();
  if (!worker.link_poked && !(worker.session_poked && free) && now < worker.due) {
    next_ = std::min(next_, worker.due);
    return false;
  }
  bool progressed = false;
  Instant session_due = worker.clock.busy_until();
  if (free) {
    worker.session_poked = false;
    const TurnResult turned = worker.session.Turn();
    worker.ear->Hear();
    worker.session.core().CheckInvariants();
    progressed = turned.progressed && !worker.clock.busy();
    session_due = worker.clock.busy() ? worker.clock.busy_until() : turned.next;
  }
  worker.link_poked = false;
  Instant link_due = worker.link.Turn();
  // One turn processes the session's messages; the next returns when to call again.
  for (int i = 0; i < kLinkTurns && link_due <= now; ++i) link_due = worker.link.Turn();
  worker.due = std::min(session_due, link_due);
  next_ = std::min(next_, worker.due);
  if (progressed) worker.session_poked = true;
  return worker.link_poked || (worker.session_poked && !worker.clock.busy());
}

bool World::Pass() {
  ++passes_;
  if (coordinator_ != nullptr && files_.dead()) KillCoordinator(Death::kKilled);
  next_ = kNever;
  size_t moved = network_.RunDue() + near_.RunAll();
  moved += RunWork() ? 1 : 0;
  if (steps_to_live_ && coordinator_ != nullptr && moved > 0 && (*steps_to_live_)-- == 0) {
    KillCoordinator(random_.Below(2) == 0 ? Death::kKilled : Death::kTornPowerCut);
    return true;
  }
  for (; acknowledged_seen_ < acknowledged_.size(); ++acknowledged_seen_) {
    Trace(acknowledged_[acknowledged_seen_].digest.low);
    laws_.Acknowledged(acknowledged_[acknowledged_seen_]);
    CheckBase(acknowledged_[acknowledged_seen_]);
  }
  bool again = TurnCoordinator(moved > 0);
  for (auto& [name, worker] : workers_) again = TurnWorker(*worker) || again;
  if (moved > 0) Trace(static_cast<uint64_t>(clock_.Now().ns));
  next_ = std::min(next_, network_.Next());
  return moved > 0 || again || near_.pending() > 0;
}

void World::Advance(Instant end) {
  const Instant now = clock_.Now();
  crawled_ += next_ <= now ? 1 : 0;
  if (crawled_ > kPassesAtOnce) laws_.Break("I21: time crawls");
  clock_.shared.Set(std::min(end, std::max(next_, now + kLeastStep)));
}

bool World::RunUntil(const std::function<bool()>& done, Duration limit) {
  const Instant end = clock_.Now() + limit;
  uint64_t at_once = 0;
  for (;;) {
    if (!laws_.broken().empty()) return false;
    const bool again = Pass();
    if (done()) return true;
    if (clock_.Now() >= end) return false;
    if (again) {
      if (++at_once > kPassesAtOnce) laws_.Break("I21: the run turns without end at one instant");
      continue;
    }
    at_once = 0;
    Advance(end);
  }
}

void World::RunFor(Duration time) {
  (void)RunUntil([] { return false; }, time);
}

void World::Look(const std::function<void(const Core&, Instant)>& look) {
  if (coordinator_ == nullptr || files_.dead()) return;
  bool looked = false;
  const auto life = std::make_shared<bool>(true);
  coordinator_->engine.Query([&looked, &look, life](const Core& core, const History&, Instant now) {
    if (!*life) return;
    look(core, now);
    looked = true;
  });
  for (int i = 0; i < 1000 && !looked && coordinator_ != nullptr && !files_.dead(); ++i) {
    (void)coordinator_->engine.Turn();
    if (!looked) (void)(work_.jobs.RunAll() + snapshot_work_.jobs.RunAll());
  }
  *life = false;
  poked_ = true;
}

std::optional<JobView> World::View(const JobId& job) {
  std::optional<JobView> view;
  Look([&](const Core& core, Instant now) { view = core.ViewJob(job, now); });
  return view;
}

std::vector<WorkerView> World::ViewWorkers() {
  std::vector<WorkerView> views;
  Look([&](const Core& core, Instant now) { views = core.ViewWorkers(now); });
  return views;
}

}  // namespace atl
