// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <utility>

#include "common/plan/limits.h"
#include "coordinator/core/explain.h"
#include "coordinator/engine/look_share.h"
#include "coordinator/engine/observer.h"
#include "coordinator/engine/read_fairness.h"

namespace atl {
namespace {

// The size of a message, counting the parts with a length that the sender chooses; the rest is a few
// kilobytes.
size_t BytesIn(const WorkerMessage& message) {
  size_t bytes = sizeof(message);
  if (const auto* lines = std::get_if<LogLines>(&message)) {
    for (const std::string& line : lines->lines) bytes += sizeof(std::string) + line.size();
  } else if (const auto* returned = std::get_if<LeaseReturn>(&message)) {
    bytes += returned->leases.size() * sizeof(LeaseCursor);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    bytes += ready->applied.size() * sizeof(FragmentVersion);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    for (const MetricSample& sample : heartbeat->metrics) bytes += sizeof(sample) + sample.name.size();
  }
  return bytes;
}

constexpr int64_t kStallsPerMembership = 4;  // a turn late by this part of the membership timeout is a stall
constexpr size_t kRecentLosses = 120;
// The time that rounds being merged get when the engine is asked to stop. The next start merges the
// unfinished ones from the log.
constexpr Duration kLastCommits = Seconds(5);

}  // namespace

absl::Status NoSuchJob(const JobId& job) { return absl::NotFoundError(NoSuchJobLine(job)); }

struct Engine::State {
  State(EngineOptions o, EngineParts p, RecoveredState recovered)
      : options(o),
        parts(p),
        mailbox(limits::kMailboxEvents, limits::kMailboxOfStream),
        completions(limits::kMailboxEvents, limits::kMailboxOfStream),
        observer(history, p.event_log, p.metrics, p.log, p.clock),
        core(std::make_unique<Core>(o.core, recovered, p.clock.Now())),
        pipeline({.executor = p.ledger_executor,
                  .commit =
                      [this](const std::vector<LedgerRecord>& records) {
                        const Instant began = parts.clock.Now();
                        absl::Status status = parts.ledger.Commit(records);
                        parts.metrics.Observe(Metric::kLedgerCommitDuration, ToSeconds(parts.clock.Now() - began));
                        return status;
                      },
                  .completed = [this](std::function<void()> work) { PostBeside(std::move(work)); },
                  .release = [this](Effects effects) { Release(effects); },
                  .fatal = p.fatal}) {
    p.data.rights().Recover(recovered);
    observer.Recover(recovered, p.ledger, [this](std::function<void()> work) { Post(std::move(work)); });
  }

  EngineOptions options;
  EngineParts parts;
  EngineMailbox mailbox, completions;  // input from outside; work that a hold does not delay
  History history;
  Observer observer;
  std::unique_ptr<Core> core;
  CommitPipeline pipeline;
  std::atomic<uint64_t> next_id{1};  // for connections, uploads, requests and watchers
  std::map<ConnectionId, std::shared_ptr<ControlSink>> controls;
  std::map<RequestId, std::function<void(const RequestAnswered&)>> requests;
  Watchers watchers;
  std::deque<Look> looks;
  size_t looks_left = kLooksAtOnce;  // before the mailbox must be emptied
  LookShare queries_share, watchers_share;
  ReadFairness hold;
  LogsWishes logs_wishes{[this](const WorkerId& worker, const LogsWanted& wanted) { return SendTo(worker, wanted); }};
  Instant looked{}, awaited = kNever;  // the last read of the clock; the latest time of the next one

  void Post(std::function<void()> work) { mailbox.PutAlways(std::move(work)); }
  void PostBeside(std::function<void()> work) {
    completions.PutAlways(std::move(work));
    Post([] {});  // wakes the engine
  }

  Effects TakeStep(const Event& event) {
    const Instant now = NoticeStall();
    return core->Step(event, now, parts.clock.WallNanos());
  }
  void Step(const Event& event) { Push(TakeStep(event)); }

  // Acceptances are flushed in parallel with the commit; pending loads and download rights take
  // effect now. All other effects wait for the commit.
  void Push(Effects effects) {
    parts.data.rights().Apply(effects.records);
    for (const Task& task : effects.tasks) {
      if (const auto* flush = std::get_if<FlushAcceptance>(&task)) parts.data.uploads().FlushAcceptance(flush->upload);
      if (const auto* load = std::get_if<PrepareParameters>(&task)) parts.data.Expect(load->job);
      if (const auto* load = std::get_if<RestoreCheckpoint>(&task)) parts.data.Expect(load->job);
    }
    pipeline.Push(std::move(effects));
  }

  void Release(const Effects& effects) {
    for (const LedgerRecord& record : effects.records) {
      if (const auto* round = std::get_if<RoundRecord>(&record)) {
        const RoundMeasures measures = parts.data.MeasuresOf(round->job, round->reached.fragment);
        observer.OnRound(*round, measures);
        parts.data.Committed(*round);
      }
    }
    observer.Committed(effects.records);
    for (const JobNote& note : effects.notes) Note(note);
    for (const Task& task : effects.tasks) Run(task);
    for (const UploadVerdict& verdict : effects.verdicts) Deliver(verdict);
    for (const Send& send : effects.sends) {
      const auto it = controls.find(send.connection);
      if (it != controls.end()) it->second->Send(send.message);
    }
    for (const CloseConnection& close : effects.closes) {
      const auto it = controls.find(close.connection);
      if (it != controls.end()) it->second->Close();
    }
    for (const RequestAnswered& answered : effects.answers) {
      const auto it = requests.find(answered.request);
      if (it == requests.end()) continue;
      const auto answer = std::move(it->second);
      requests.erase(it);
      answer(answered);
    }
  }

  // Whether a round may still be in its merge or commit; any waiting work counts as one. A pass
  // posts its result to the mailbox before it ends.
  bool Merges() { return parts.data.Merges() || !mailbox.empty() || !completions.empty() || !pipeline.idle(); }

  void Note(const JobNote& note) {
    observer.Note(note);
    watchers.MakeDue(note.job, parts.clock.Now());
  }

  void Run(const Task& task) {
    struct Visitor {
      State& state;
      void operator()(const PrepareParameters& t) const {
        const std::optional<JobView> view = state.core->ViewJob(t.job, state.parts.clock.Now());
        if (!view.has_value()) return;
        std::vector<FragmentHead> heads;
        for (const FragmentView& fragment : view->fragments) heads.push_back({fragment.version, fragment.hash});
        state.parts.data.Prepare(view->record, std::move(heads));
      }
      void operator()(const FlushAcceptance&) const {}  // done at Push
      void operator()(const CloseRound& t) const {
        state.parts.data.CloseRound(t, state.RecordOf(t.job), state.core->boot());
      }
      void operator()(const WriteCheckpoint& t) const { state.parts.data.WriteCheckpoint(t); }
      void operator()(const DropCheckpoint& t) const { state.parts.data.DropCheckpoint(t); }
      void operator()(const CheckCheckpoint& t) const {
        state.parts.data.CheckCheckpoint(t, state.RecordOf(t.job).spec);
      }
      void operator()(const RestoreCheckpoint& t) const {
        const std::optional<JobView> view = state.core->ViewJob(t.job, state.parts.clock.Now());
        if (view.has_value()) state.parts.data.RestoreCheckpoint(t, view->record);
      }
      void operator()(const ReleaseJob& t) const {
        state.parts.data.Release(t.job);
        if (t.ended) state.parts.data.DropEnded(*state.core->ViewJob(t.job, state.parts.clock.Now()), t.purged);
      }
    };
    std::visit(Visitor{*this}, task);
  }

  JobRecord RecordOf(const JobId& job) const { return core->ViewJob(job, parts.clock.Now())->record; }

  void Deliver(const UploadVerdict& verdict) {
    if (verdict.decision == UploadDecision::kGranted)
      return parts.data.uploads().Grant(verdict.upload, verdict.replaces);
    const auto upload = parts.data.uploads().End(verdict.upload);
    if (upload == nullptr) return;
    const ContributionHeader& header = upload->header;
    if (verdict.decision == UploadDecision::kAccepted) {
      observer.Uploaded(header.job, header.worker, header.encoded_bytes);
      upload->sink->Accepted();
    } else {
      observer.Refused(header.job, header.worker, verdict.status);
      upload->sink->Refused(verdict.status);
    }
  }

  void OnWorkerMessage(ConnectionId connection, WorkerMessage message) {
    if (const auto* lines = std::get_if<LogLines>(&message)) {
      const WorkerId* const asked = logs_wishes.Asked(lines->request);
      if (asked != nullptr && ConnectionOf(*asked) == connection) logs_wishes.Answered(*lines);
      return;
    }
    if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) observer.Heard(connection, *heartbeat);
    Step(WorkerSaid{connection, std::move(message)});
  }

  std::optional<ConnectionId> ConnectionOf(const WorkerId& worker) const { return observer.ConnectionOf(worker); }
  // False: the worker is not connected.
  bool SendTo(const WorkerId& worker, const CoordinatorMessage& message) const {
    const std::optional<ConnectionId> connection = ConnectionOf(worker);
    const auto control = connection ? controls.find(*connection) : controls.end();
    if (control == controls.end()) return false;
    control->second->Send(message);
    return true;
  }

  JobGlance Glance(const JobId& job, uint64_t after_revision, Instant now);
  void Show();
  Instant NextLook() const;
  Instant NextDue() const;
  bool Holds(Instant now);
  Instant NoticeStall();
};

Engine::Engine(EngineOptions options, EngineParts parts, RecoveredState recovered)
    : state_(std::make_unique<State>(options, parts, std::move(recovered))) {
  state_->parts.data.SetEventSink(
      [this](Event event) { state_->mailbox.PutAlways([this, event = std::move(event)] { state_->Step(event); }); });
}

Engine::~Engine() {
  state_->parts.data.SetEventSink([](const Event&) {});
}

void Engine::Start(const RoundsAtStart& rounds) {
  for (const DamagedRound& round : rounds.cut) state_->Note({round.job, "round log cut", round.what, {}});
  for (const DamagedRound& round : rounds.damaged) state_->Note({round.job, "round log damaged", round.what, {}});
  state_->Push(state_->core->Start(state_->parts.clock.Now(), rounds.unusable));
  // Runs after the loads that the start requests: both wait for the commit of the start.
  Query([this](const Core& core, const History&, Instant now) {
    for (const JobId& job : core.Jobs()) state_->parts.data.DropLeftOvers(*core.ViewJob(job, now));
  });
}

Instant Engine::Turn() {
  state_->NoticeStall();
  for (const auto& work : state_->completions.TakeAll()) work();
  state_->Show();
  if (!state_->Holds(state_->NoticeStall())) {
    state_->looks_left = kLooksAtOnce;
    for (const auto& work : state_->mailbox.TakeAll()) work();
    if (state_->core->NextWake() <= state_->NoticeStall()) state_->Step(Tick{});
  }
  state_->Show();
  const Instant now = state_->NoticeStall();
  state_->logs_wishes.Serve(now);
  state_->observer.Publish(*state_->core, now);
  state_->NoticeStall();
  if (state_->Holds(now)) return now + ReadFairness::kFirst;  // or as soon as the ledger has flushed
  if (state_->mailbox.empty()) state_->awaited = state_->NextDue();
  return state_->awaited;
}

void Engine::Run(std::stop_token stop) {
  std::stop_callback wake(stop, [this] { state_->Post([] {}); });
  while (!stop.stop_requested()) {
    const Instant next = Turn();
    const Instant now = state_->parts.clock.Now();
    (state_->Holds(now) ? state_->completions : state_->mailbox).WaitFor(std::min(Seconds(1), next - now));
  }
  const Instant limit = state_->parts.clock.Now() + kLastCommits;
  Instant next = Turn();
  for (Instant now; (now = state_->parts.clock.Now()) < limit && (state_->Merges() || !state_->looks.empty());) {
    (state_->Holds(now) ? state_->completions : state_->mailbox).WaitFor(std::min(Milliseconds(100), next - now));
    next = Turn();
  }
  state_->parts.data.MergeNoMore();
}

ConnectionId Engine::OpenControl(Hello hello, std::shared_ptr<ControlSink> sink) {
  const ConnectionId id = state_->next_id++;
  state_->Post([this, id, hello = std::move(hello), sink = std::move(sink)]() mutable {
    state_->controls[id] = std::move(sink);
    const WorkerId worker = hello.worker;
    Effects effects = state_->TakeStep(WorkerConnected{id, std::move(hello)});
    const bool refused = std::any_of(effects.closes.begin(), effects.closes.end(),
                                     [id](const CloseConnection& close) { return close.connection == id; });
    if (!refused) state_->observer.Connected(id, worker);
    state_->Push(std::move(effects));
  });
  return id;
}

bool Engine::ControlSaid(ConnectionId connection, WorkerMessage message) {
  const size_t bytes = BytesIn(message);
  return state_->mailbox.Put(connection, bytes, [this, connection, message = std::move(message)]() mutable {
    state_->OnWorkerMessage(connection, std::move(message));
  });
}

void Engine::ControlClosed(ConnectionId connection) {
  state_->Post([this, connection] {
    state_->Step(ConnectionClosed{connection});
    state_->controls.erase(connection);
    state_->observer.Disconnected(connection);
  });
}

UploadId Engine::OfferUpload(ContributionHeader header, BootNumber boot, std::shared_ptr<UploadSink> sink) {
  const UploadId id = state_->next_id++;
  state_->Post([this, id, header = std::move(header), boot, sink = std::move(sink)]() mutable {
    const absl::Status known = state_->parts.data.uploads().Begin(id, header, sink);
    if (!known.ok()) {
      // Refusals are counted only under existing jobs, because a sender can invent names.
      state_->observer.Refused(state_->core->HasJob(header.job) ? header.job : JobId{}, header.worker, known);
      return sink->Refused(known);
    }
    state_->Step(UploadOffered{id, {std::move(header), boot}});
  });
  return id;
}

void Engine::BreakUpload(UploadId upload, absl::Status why) {
  state_->Post([this, upload, why = std::move(why)] {
    const auto broken = state_->parts.data.uploads().End(upload);
    if (broken == nullptr) return;
    if (IsRefusal(why)) state_->observer.Refused(broken->header.job, broken->header.worker, why);
    state_->Step(UploadBroken{upload});
  });
}

void Engine::Tell(Event event) {
  state_->Post([this, event = std::move(event)] { state_->Step(event); });
}

void Engine::Ask(Event event, std::function<void(const RequestAnswered&)> answer) {
  const RequestId id = state_->next_id++;
  std::visit(
      [id](auto& e) {
        if constexpr (requires { e.request; }) e.request = id;
      },
      event);
  state_->Post([this, id, event = std::move(event), answer = std::move(answer)]() mutable {
    state_->requests[id] = std::move(answer);
    state_->Step(event);
  });
}

void Engine::Query(std::function<void(const Core&, const History&, Instant)> look) {
  state_->Post([this, look = std::move(look)]() mutable {
    state_->looks.push_back({state_->parts.clock.Now(), [this, look = std::move(look)] {
                               look(*state_->core, state_->history, state_->parts.clock.Now());
                             }});
  });
}

void Engine::Probe(std::function<void()> answer) { state_->PostBeside(std::move(answer)); }

void Engine::QueryPast(JobId job, std::function<void(const Core&, const History&, Instant)> look) {
  state_->Post([this, job = std::move(job), look = std::move(look)] {
    state_->observer.WithPast(job, [this, look] { Query(look); });
  });
}

void Engine::CountDownload(JobId job, WorkerId worker, std::string kind, uint64_t bytes) {
  state_->Post([this, job = std::move(job), worker = std::move(worker), kind = std::move(kind), bytes] {
    if (state_->core->HasJob(job)) state_->observer.Downloaded(job, worker, kind, bytes);
  });
}

void Engine::WantLogs(WorkerId worker, uint32_t lines, int64_t since_wall_nanos, LogsWishes::Answer answer) {
  state_->Post([this, worker = std::move(worker), lines, since_wall_nanos, answer = std::move(answer)]() mutable {
    state_->logs_wishes.Want(worker, lines, since_wall_nanos, state_->parts.clock.Now(), std::move(answer));
  });
}

uint64_t Engine::Watch(JobId job, uint64_t after_revision, GlanceSink sink) {
  const uint64_t id = state_->next_id++;
  state_->Post([this, id, job = std::move(job), after_revision, sink = std::move(sink)]() mutable {
    if (!state_->core->HasJob(job)) return sink.show(NoSuchJob(job));
    if (state_->watchers.size() >= limits::kWatchers) {
      return sink.show(absl::ResourceExhaustedError(
          absl::StrCat(limits::kWatchers,
                       " calls watch jobs of this coordinator, the limit; end one, or ask with 'atoll job get'")));
    }
    if (after_revision == 0) {
      const JobHistory* known = state_->history.Find(job);
      after_revision = known == nullptr ? 0 : known->next_revision - 1;
    }
    state_->watchers.Add(id, job, after_revision, std::move(sink));
    state_->observer.WithPast(job, [this, id] { state_->watchers.MakeDue(id, state_->parts.clock.Now()); });
  });
  return id;
}

void Engine::Unwatch(uint64_t watcher) {
  state_->Post([this, watcher] { state_->watchers.Remove(watcher); });
}

JobGlance Engine::GlanceAt(const JobId& job, uint64_t after_revision, Instant now) const {
  return state_->Glance(job, after_revision, now);
}

JobGlance Engine::State::Glance(const JobId& job, uint64_t after_revision, Instant now) {
  JobGlance glance;
  glance.view = *core->ViewJob(job, now);
  glance.workers = core->ViewWorkersOf(job, now);
  glance.events = history.EventsAfter(job, after_revision, History::kEventsKept);
  if (const JobHistory* of_job = history.Find(job)) {
    glance.totals.uploaded_bytes = of_job->uploaded_bytes;
    glance.totals.downloaded_bytes = of_job->downloaded_bytes;
    glance.totals.uploaded_total = of_job->uploaded_total;
    glance.totals.downloaded_total = of_job->downloaded_total;
    glance.totals.last_loss = of_job->last_loss;
    glance.totals.measures = of_job->measures;
    glance.totals.participation = of_job->participation;
    const auto losses = of_job->curves.find("loss");
    if (losses != of_job->curves.end()) {
      const auto& points = losses->second.points();
      for (size_t i = points.size() - std::min(points.size(), kRecentLosses); i < points.size(); ++i) {
        glance.recent_losses.push_back(points[i].value);
      }
    }
  }
  ObserveRates(glance, now, observer);
  return glance;
}

// People see committed state only: shows the core's state once the ledger has flushed it. Queries
// beyond kLooksAtOnce wait until the mailbox was emptied, and all looks wait for their share of the
// time, so that callers cannot stop the rounds.
void Engine::State::Show() {
  if (!pipeline.idle()) return;
  hold.Served();
  Instant now = parts.clock.Now();
  const auto took = [this, &now](LookShare& share) {
    const Instant began = std::exchange(now, parts.clock.Now());
    share.Took(now - began, now);
  };
  for (; looks_left > 0 && !looks.empty() && queries_share.Open(now); --looks_left) {
    const Look look = std::move(looks.front());
    looks.pop_front();
    look.show();
    took(queries_share);
  }
  const auto glance = [this, &now](const JobId& job, uint64_t after) { return Glance(job, after, now); };
  for (size_t left = kLooksAtOnce; left > 0 && watchers_share.Open(now) && watchers.ServeNext(now, glance); --left)
    took(watchers_share);
}

// The time of the next look; kNever if none waits.
Instant Engine::State::NextLook() const {
  const Instant query = looks.empty() ? kNever : std::max(looks.front().since, queries_share.opens());
  const Instant glance = watchers.NextDue();
  return std::min(query, glance == kNever ? kNever : std::max(glance, watchers_share.opens()));
}

// Whether new steps are on hold.
bool Engine::State::Holds(Instant now) {
  if (pipeline.idle()) return false;
  return hold.Holds(now, NextLook(),
                    ReadFairness::Longest(options.core.heartbeat_interval, options.core.membership_timeout));
}

// Detects that the clock was read so late, between turns or inside one, that a quiet worker could
// count as lost. The core gets the stall before it decides anything else, because no worker was
// heard during it.
Instant Engine::State::NoticeStall() {
  const Instant now = parts.clock.Now();
  const Duration late = options.core.membership_timeout / kStallsPerMembership;
  const bool stalled = awaited != kNever && now >= awaited + late;
  const Duration time = now - looked;
  looked = awaited = now;
  if (!stalled) return now;
  parts.log.Warn("coordinator was suspended", {{"seconds", absl::StrCat(time.ns / Seconds(1).ns)},
                                               {"what", "its process was stopped or its machine asleep"}});
  Push(core->Step(CoordinatorStalled{time}, now, parts.clock.WallNanos()));
  return now;
}

Instant Engine::State::NextDue() const {
  Instant next = std::min(core->NextWake(), observer.NextPublish());
  if (pipeline.idle()) next = std::min(next, NextLook());
  return std::min(next, logs_wishes.NextDue());
}

}  // namespace atl
