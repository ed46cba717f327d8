// SPDX-License-Identifier: Apache-2.0
#include "worker/session/session.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "worker/session/session_state.h"

namespace atl {
namespace {

// Whether the error lies in the spec, so that the job fails on every worker.
bool IsPermanent(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kUnimplemented;
}

}  // namespace

// ---- turning ------------------------------------------------------------------------------------------------------

namespace {
// The only effects of events in Core::HeardInStep: they do not touch parameters, optimizer and the
// step's samples.
bool LeavesStepAlone(const Effect& effect) {
  return std::holds_alternative<worker::FetchUpdate>(effect) || std::holds_alternative<worker::FetchFragment>(effect) ||
         std::holds_alternative<worker::DropFetches>(effect) || std::holds_alternative<worker::Upload>(effect) ||
         std::holds_alternative<worker::AddLease>(effect) || std::holds_alternative<worker::Note>(effect);
}
// Events on which the core leaves.
bool IsLeave(const Event& event) {
  const auto* received = std::get_if<worker::Received>(&event);
  return std::holds_alternative<worker::LeaveWanted>(event) ||
         (received != nullptr && std::holds_alternative<DrainRequested>(received->message));
}

// Effects that wait for the device.
template <typename E>
constexpr bool kWaitsForDevice =
    std::is_same_v<E, worker::InstallFragment> || std::is_same_v<E, worker::ApplyUpdate> ||
    std::is_same_v<E, worker::ResolveUpdate> || std::is_same_v<E, worker::AdoptOuter> ||
    std::is_same_v<E, worker::BeginOptimizer> || std::is_same_v<E, worker::FormContribution> ||
    std::is_same_v<E, worker::Evaluate> || std::is_same_v<E, worker::ScoreTask>;
}  // namespace

void Session::State::BetweenSteps(const std::function<void()>& work) {
  if (options.work_begins) options.work_begins(job, *spec, TrainWork::kBetweenSteps);
  work();
  if (options.work_ended) options.work_ended();
}

void Session::State::Feed(const Event& event) {
  for (const Effect& effect : core.Step(event, clock.Now())) {
    ATOLL_CHECK(!in_step || LeavesStepAlone(effect), "what is heard in a step leaves the step alone");
    std::visit(
        [this]<typename E>(const E& e) {
          if constexpr (kWaitsForDevice<E>) {
            BetweenSteps([this, &e] { Do(e); });
          } else {
            Do(e);
          }
        },
        effect);
  }
}

void Session::State::DrainAnswers() {
  while (!answers.empty()) {
    const Event answer = std::move(answers.front());
    answers.pop_front();
    Feed(answer);
  }
}

// Thread-safe.
void Session::State::Post(SessionEvent entry) {
  inbox.Post(std::move(entry));
  if (wake) wake();
}

void Session::State::Take(LinkEvent event) {
  if (FetchedBytes* fetched = std::get_if<FetchedBytes>(&event)) {
    if (!replicas || fetched->job != job) return;
    const FragmentVersion at = fetched->at;
    const bool whole = fetched->whole;
    replicas->Keep(std::move(*fetched));
    if (whole) {
      Feed(worker::FragmentFetched{at.fragment, at.version});
    } else {
      Feed(worker::UpdateFetched{at});
    }
  } else {
    const Event& told = std::get<Event>(event);
    leaving = leaving || IsLeave(told);
    Feed(told);
  }
}

namespace {
bool HeardInStep(const SessionEvent& entry) {
  if (const auto* ended = std::get_if<FormingEnded>(&entry)) return ended->status.ok();
  if (std::holds_alternative<ApplyEnded>(entry)) return true;  // set aside until the step has ended
  const LinkEvent& event = std::get<LinkEvent>(entry);
  if (const auto* fetched = std::get_if<FetchedBytes>(&event)) return !fetched->whole;
  return worker::Core::HeardInStep(std::get<Event>(event));
}
}  // namespace

// Stops once an event has caused answers: the core must get these before the next event of the inbox.
void Session::State::ListenInStep() {
  MutexLock lock(step_mutex);
  while (stepping && answers.empty()) {
    std::optional<SessionEvent> entry = inbox.TakeFirstIf(HeardInStep);
    if (!entry) return;
    in_step = true;
    std::visit([this](auto& slot) { Take(std::move(slot)); }, *entry);
    in_step = false;
  }
}

void Session::State::PublishHeartbeat() {
  Heartbeat heartbeat = core.MakeHeartbeat(clock.Now());
  if (options.heartbeat_metrics) heartbeat.metrics = options.heartbeat_metrics();
  link.SetHeartbeat(std::move(heartbeat));
}

TurnResult Session::Turn() {
  State& s = *state_;
  s.worked = false;
  if (s.waiting_since != kNever) s.sync_wait = s.sync_wait + (s.clock.Now() - s.waiting_since);
  s.waiting_since = kNever;
  std::deque<SessionEvent> letters = s.inbox.TakeAll();
  letters.insert(letters.begin(), s.applied.begin(), s.applied.end());
  s.applied.clear();
  for (SessionEvent& entry : letters) {
    std::visit([&s](auto& slot) { s.Take(std::move(slot)); }, entry);
    s.DrainAnswers();
    if (s.exit) return {};
  }
  // A boundary that applies or sends is followed by another, until a step was taken or nothing remains to do.
  constexpr int kBoundaries = 8;
  for (int i = 0; i < kBoundaries && !s.worked && !s.exit; ++i) {
    s.Feed(worker::Boundary{});
    if (s.answers.empty()) break;
    s.DrainAnswers();
  }
  s.PublishHeartbeat();
  const Instant now = s.clock.Now();
  const bool waits = s.core.activity() == WorkerActivity::kWaiting;
  if (waits) s.waiting_since = now;
  if (waits && s.replicas) s.replicas->FinishApplies();
  // While the core waits, each turn publishes the wait's age for the next heartbeat: one turn per heartbeat at least.
  const Instant next = waits ? std::min(s.core.NextWake(), now + s.core.heartbeat_interval()) : s.core.NextWake();
  return {s.worked || !letters.empty() || next <= now, next};
}

// ---- the job ------------------------------------------------------------------------------------------------------

void Session::State::SetSpec(std::shared_ptr<const JobSpec> to) {
  spec = std::move(to);
  link.SetCaps(spec->sync.upload_bytes_per_second, spec->sync.download_bytes_per_second);
}

namespace {

// Hashes of two layouts would never agree: the worker would fetch every fragment again after each round.
absl::Status OtherLayout(const worker::PrepareJob& e, const ModelLayout& here) {
  return absl::FailedPreconditionError(absl::StrCat("job ", e.job.value, " has model layout ", e.layout.Hex(),
                                                    " at the coordinator and ", here.digest.Hex(),
                                                    " at this worker; run the same version of Atoll on both"));
}

}  // namespace

void Session::State::Do(const worker::PrepareJob& e) {
  worked = true;
  PublishHeartbeat();
  job = e.job;
  SetSpec(e.spec);
  auto made = factory.Prepare(e.job, *e.spec);
  if (made.ok() && e.layout != Digest{} && (*made)->layout.digest != e.layout) made = OtherLayout(e, (*made)->layout);
  if (made.ok()) {
    parts = *std::move(made);
    auto held = Replicas::Create(parts->layout, *e.spec, *parts->device, parts->model->parameters(),
                                 parts->model->compute_stream(), executor, parts->formed_by, options.sync_threads);
    if (held.ok()) {
      replicas = *std::move(held);
      told_refusal = false;
      TellRefusal();
      worker::JobPrepared prepared{job, {}};
      for (uint32_t p = 0; p < parts->layout.fragments.size(); ++p) {
        prepared.fragments.push_back(
            {replicas->FragmentBytes(FragmentIndex{p}), replicas->UpdateBytes(FragmentIndex{p})});
      }
      Answer(std::move(prepared));
      return;
    }
    made = held.status();
  }
  parts.reset();
  if (absl::IsCancelled(made.status())) return;  // stopped by a request to leave, which follows
  if (WorthAnotherTry(made.status())) {
    Answer(worker::JobDelayed{job, std::string(made.status().message())});
    return;
  }
  if (LosesDevice(made.status())) return;
  Answer(worker::JobBroken{job, std::string(made.status().message()), IsPermanent(made.status())});
}

void Session::State::Do(const worker::ChangeSpec& e) {
  SetSpec(e.spec);
  if (replicas) replicas->ChangeSpec(*spec);
}

void Session::State::Do(const worker::ReleaseJob&) {
  link.DropAll();
  if (leaving && parts) BetweenSteps([this] { parts->model->KeepOptimizer(optimizer_at, true); });
  if (leaving && parts && options.on_letting_go) options.on_letting_go(device_lost);
  replicas.reset();
  parts.reset();
  spec.reset();
  // The allocator would keep freed memory, and the next job, which reads the machine's free memory,
  // would find too little.
  malloc_trim(0);
  link.SetCaps(0, 0);
  job = JobId{};
  optimizer_at = {};
  step_ended = kNever;
}

void Session::State::LoseDevice(const absl::Status& why) {
  leaving = device_lost = true;
  Answer(worker::LeaveWanted{std::string(why.message())});
}

bool Session::State::LosesDevice(const absl::Status& status) {
  if (device_lost) return true;
  const absl::Status lost = factory.WhyLost(status);
  if (!lost.ok()) LoseDevice(lost);
  return device_lost;
}

void Session::State::Break(const absl::Status& status) {
  if (LosesDevice(status)) return;  // not the job's fault: a restart of this worker may help
  Answer(worker::JobBroken{job, std::string(status.message()), false});
}

// ---- synchronisation ----------------------------------------------------------------------------------------------

void Session::State::Do(const worker::FetchFragment& e) {
  link.FetchFragment(e.job, e.fragment, replicas->FragmentBytes(e.fragment), e.at_least);
}

void Session::State::Do(const worker::InstallFragment& e) {
  const absl::Status status = e.leap ? replicas->Leap(e.fragment, e.version) : replicas->Install(e.fragment, e.version);
  if (!status.ok()) log.Warn("fragment not installed", {{"fragment", e.fragment.value}, {"why", status.message()}});
  Answer(worker::FragmentInstalled{e.fragment, e.version, status.ok()});
}

void Session::State::Do(const worker::FetchUpdate& e) {
  link.FetchUpdate(e.job, e.reached, replicas->UpdateBytes(e.reached.fragment));
}

void Session::State::Do(const worker::DropFetches& e) {
  link.DropFetches(e.fragment);
  if (replicas) replicas->DropKept(e.fragment);
}

// An update that cannot be applied is answered like one with another hash: the core then fetches the whole fragment.
void Session::State::Do(const worker::ApplyUpdate& e) {
  if (e.beside) {
    replicas->BeginApply(e.reached, e.standing, e.expected_hash, ++errands,
                         [this](ApplyEnded ended) { Post(std::move(ended)); });
    return;
  }
  Answer(Applied(e.reached, replicas->Apply(e.reached, e.standing, e.expected_hash)));
}

worker::UpdateApplied Session::State::Applied(FragmentVersion reached, const absl::StatusOr<ApplyVerdict>& verdict) {
  if (!verdict.ok()) {
    log.Warn("update not applied", {{"fragment", reached.fragment.value}, {"why", verdict.status().message()}});
  }
  return {reached, verdict.ok() && *verdict == ApplyVerdict::kApplied};
}

// The core's reaction may change local parameters. So during a step the result is only stored, for the next turn.
void Session::State::Take(ApplyEnded ended) {
  if (in_step) return applied.push_back(std::move(ended));
  if (replicas && replicas->EndApply(ended)) Feed(Applied(ended.reached, ended.verdict));
}

void Session::State::Do(const worker::ResolveUpdate& e) {
  const double mix = e.late ? 1.0 : spec->sync.mix;
  if (e.dropped) {
    if (const auto status = replicas->KeepLocal(e.fragment); !status.ok()) Break(status);
    return;
  }
  if (const auto status = replicas->Resolve(e.fragment, e.standing, mix); !status.ok()) Break(status);
  TellRefusal();
  parts->model->ParametersChanged(e.fragment);
}

void Session::State::Do(const worker::AdoptOuter& e) {
  if (const auto status = replicas->AdoptOuter(e.fragment); !status.ok()) Break(status);
  parts->model->ParametersChanged(e.fragment);
}

void Session::State::Do(const worker::BeginOptimizer& e) {
  optimizer_at = {e.clock_step, e.versions, e.course};
  if (const auto status = parts->model->BeginOptimizer(optimizer_at); !status.ok()) Break(status);
}

void Session::State::Do(const worker::FormContribution& e) {
  replicas->BeginForm(e.target, ++errands, e.at_rest, [this](FormingEnded ended) { Post(std::move(ended)); });
}

// Logs once per job why the host synchronises although the device should.
void Session::State::TellRefusal() {
  if (told_refusal || replicas->forming_refused().ok()) return;
  told_refusal = true;
  log.Warn("GPU synchronisation disabled", {{"reason", std::string(replicas->forming_refused().message())}});
}

void Session::State::Take(FormingEnded ended) {
  if (!replicas || !replicas->EndForm(ended)) return;
  TellRefusal();
  if (!ended.status.ok()) {
    Feed(worker::ContributionFailed{ended.target, std::string(ended.status.message())});
    return;
  }
  const StoredContribution& formed = *replicas->unresolved(ended.target.fragment);
  std::optional<uint64_t> lost_nano;
  if (formed.norm > 0) {
    const double lost = formed.lost_norm / formed.norm;
    if (options.on_contribution) options.on_contribution(lost);
    if (std::isfinite(lost)) lost_nano = static_cast<uint64_t>(std::llround(std::min(lost, 1e6) * 1e9));
  }
  Feed(worker::ContributionFormed{ended.target, formed.digest, formed.encoded->size(), lost_nano});
}

void Session::State::Do(const worker::Upload& e) {
  const ContributionHeader& header = e.contribution.header;
  const StoredContribution* kept = replicas->unresolved(header.target.fragment);
  if (kept == nullptr || kept->digest != header.digest) {
    Answer(
        worker::UploadEnded{header.target, header.digest, worker::UploadResult::kRefused, "its bytes were released"});
    return;
  }
  link.StartUpload(e.contribution, kept->encoded);
}

void Session::State::Do(const worker::DropContribution& e) {
  if (replicas) BetweenSteps([&] { replicas->DropContribution(e.fragment); });
}

// ---- logs ---------------------------------------------------------------------------------------------------------

void Session::State::Do(const worker::AnswerLogs& e) {
  LogLines lines{e.wanted.request, {}};
  for (const LogLine& line : log.Recent(e.wanted.lines, e.wanted.since_wall_nanos)) {
    lines.lines.push_back(line.ToText());
  }
  link.Say(std::move(lines));
}

void Session::State::Do(const worker::Note& e) {
  const LogLevel level = e.level == worker::NoteLevel::kInfo      ? LogLevel::kInfo
                         : e.level == worker::NoteLevel::kWarning ? LogLevel::kWarning
                                                                  : LogLevel::kError;
  log.Write(level, e.event, {{"what", e.text}});
}

// ---- Session ------------------------------------------------------------------------------------------------------

Session::Session(SessionOptions options, Link& link, JobFactory& factory, Executor& executor, const Clock& clock,
                 Log& log, std::function<void()> wake)
    : state_(std::make_unique<State>(std::move(options), link, factory, executor, clock, log, std::move(wake))) {}
Session::~Session() = default;

void Session::Post(LinkEvent event) { state_->Post(std::move(event)); }
void Session::ListenInStep() { state_->ListenInStep(); }

void Session::RequestLeave(std::string reason) { Post(Event(worker::LeaveWanted{std::move(reason)})); }
const std::optional<SessionExit>& Session::exit() const { return state_->exit; }
const worker::Core& Session::core() const { return state_->core; }

std::span<const float> Session::outer_parameters() const {
  return state_->replicas ? std::span<const float>(state_->replicas->outer()) : std::span<const float>{};
}
std::span<const float> Session::local_parameters() const {
  return state_->parts ? std::span<const float>(state_->parts->model->parameters()) : std::span<const float>{};
}

}  // namespace atl
