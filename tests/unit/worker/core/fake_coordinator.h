// SPDX-License-Identifier: Apache-2.0
// A worker's core in a world played by the test. Effects are recorded as short lines and answered
// immediately, unless the test wants to answer itself.
#ifndef ATOLL_TESTS_UNIT_WORKER_CORE_FAKE_COORDINATOR_H_
#define ATOLL_TESTS_UNIT_WORKER_CORE_FAKE_COORDINATOR_H_

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/core/core.h"

namespace atl::worker {

inline JobSpec SmallSpec() {
  JobSpec spec;
  spec.name = "tiny";
  spec.sync.inner_steps = 4;
  spec.batch.sequences_per_step = 2;
  spec.stop.inner_steps = 1000;
  spec.inner.schedule.total_steps = 1000;
  return spec;
}

class World {
 public:
  explicit World(JobSpec spec = SmallSpec(), uint32_t fragments = 1, CoreOptions options = Options())
      : spec_(std::make_shared<const JobSpec>(std::move(spec))), fragments_(fragments), core_(std::move(options)) {}

  static CoreOptions Options() {
    return {.worker = WorkerId{"w1"}, .program_version = "test", .start_nonce = 7, .device = "cpu"};
  }

  // Processes one event, and answers its effects until none is left.
  void Give(const Event& event) {
    std::vector<Event> queue{event};
    for (size_t i = 0; i < queue.size(); ++i) {
      if (const auto* e = std::get_if<UpdateApplied>(&queue[i])) replicas_[e->reached.fragment.value].applying = false;
      for (const Effect& effect : core_.Step(queue[i], now_)) Take(effect, queue);
      core_.CheckInvariants();
    }
  }
  void Hear(CoordinatorMessage message) { Give(Received{std::move(message)}); }
  void Boundary() { Give(worker::Boundary{}); }
  void Wait(Duration d) { now_ = now_ + d; }
  // Passes boundaries until `more` further steps are taken, at most 200.
  void Steps(uint64_t more) {
    const uint64_t goal = steps_taken + more;
    for (int i = 0; i < 200 && steps_taken < goal; ++i) Boundary();
  }

  void Connect(bool resumed = false, uint64_t boot = 1, uint64_t incarnation = 5,
               std::vector<Welcome::Fate> fates = {}) {
    Give(StreamUp{});
    Hear(Welcome{{boot}, {incarnation}, resumed, Seconds(2), Seconds(20), std::move(fates), boot_nonce});
  }
  void Assign(VersionVector versions, uint64_t clock = 0, uint64_t revision = 1, Duration pace = {}) {
    assigned_ = versions;
    Hear(Assignment{JobId{"tiny"}, revision, spec_, clock, std::move(versions), pace, epoch});
  }
  // Connects; the job is assigned at version 0 and its fragments are fetched.
  void Start() {
    Connect();
    Assign(VersionVector(fragments_, Version{0}));
  }
  void Publish(uint32_t p, uint64_t v, std::vector<std::string> names, uint64_t clock = 0,
               std::vector<Digest> of = {}) {
    UpdatePublished published{JobId{"tiny"}, {{p}, {v}}, Digest{v, p + 1}, 16, {}, clock, std::move(of)};
    for (std::string& name : names) published.contributors.push_back(WorkerId{std::move(name)});
    Hear(std::move(published));
  }
  void Accept(uint32_t p) {
    const ContributionHeader& h = uploads.at(p).header;
    Give(UploadEnded{h.target, h.digest, UploadResult::kAccepted, ""});
  }

  bool Did(const std::string& line) const {
    for (const std::string& l : lines) {
      if (l.find(line) != std::string::npos) return true;
    }
    return false;
  }
  int Count(const std::string& line) const {
    int n = 0;
    for (const std::string& l : lines) n += l.find(line) != std::string::npos ? 1 : 0;
    return n;
  }
  Core& core() { return core_; }
  Instant now() const { return now_; }
  // The world's answers.
  bool grant_leases = true, finite = true, fetch_updates = true, finish_fetches = true, hash_matches = true;
  bool samples_there = true, prepare = true, evaluate = true, form_and_apply = true;
  uint64_t held_out_samples = 1000, lease_samples = 1000;
  uint64_t whole_bytes = 64, update_bytes = 20;  // of a fragment
  int64_t piece_micro_nats = 5'000'000;          // of held-out samples
  std::optional<Version> snapshot;               // the newest; empty: of the assigned version

  std::vector<std::string> lines;  // effects, one each
  std::vector<WorkerMessage> said;
  std::map<uint32_t, ContributionUpload> uploads;  // newest of each fragment
  std::vector<TakeStep> steps;
  uint64_t steps_taken = 0, boot_nonce = 0, epoch = 0;  // of the next Welcome, of the next assignment
  JobCourse begun;                                      // of the newest optimizer

 private:
  static std::string As(Standing s) { return std::array{"missed", "contributor", "ahead"}[static_cast<size_t>(s)]; }
  void Log(const std::string& line) { lines.push_back(line); }

  // Records an effect and answers it.
  struct Visitor {
    World& w;
    std::vector<Event>& q;
    void operator()(const Say& e) { w.OnSaid(e.message, q); }
    void operator()(const CloseStream& e) { w.Log("close: " + e.reason); }
    void operator()(const PrepareJob& e) {
      w.Log("make job");
      if (!w.prepare) return q.push_back(JobDelayed{e.job, "the manifest of corpus text: not reached"});
      q.push_back(
          JobPrepared{e.job, std::vector<JobPrepared::FragmentSize>(w.fragments_, {w.whole_bytes, w.update_bytes})});
    }
    void operator()(const ChangeSpec&) { w.Log("change spec"); }
    void operator()(const ReleaseJob&) { w.Log("release"); }
    void operator()(const FetchFragment& e) {
      const uint64_t least = e.at_least.value;
      w.Log(absl::StrCat("fetch fragment ", e.fragment.value, least > 0 ? absl::StrCat(" from v", least) : ""));
      if (!w.finish_fetches) return;
      const Version newest = w.snapshot.value_or(w.assigned_[e.fragment.value]);
      if (newest < e.at_least) {
        q.push_back(FragmentFetchFailed{e.fragment, "an older snapshot"});
      } else {
        q.push_back(FragmentFetched{e.fragment, newest});
      }
    }
    void operator()(const InstallFragment& e) {
      if (e.leap) w.replicas_[e.fragment.value].applied_as = As(Standing::kNotContributor);
      w.Log(absl::StrCat(e.leap ? "leap " : "install ", e.fragment.value, " v", e.version.value));
      q.push_back(FragmentInstalled{e.fragment, e.version, true});
    }
    void operator()(const FetchUpdate& e) {
      w.Log(absl::StrCat("fetch update ", e.reached.fragment.value, " v", e.reached.version.value));
      if (w.fetch_updates) q.push_back(UpdateFetched{e.reached});
    }
    void operator()(const DropFetches& e) { w.Log(absl::StrCat("drop fetches ", e.fragment.value)); }
    void operator()(const ApplyUpdate& e) {
      const auto& [as, applying] = w.replicas_[e.reached.fragment.value] = {As(e.standing), true};
      const char* beside = e.beside ? " beside" : "";
      w.Log(absl::StrCat("apply ", e.reached.fragment.value, " v", e.reached.version.value, " ", as, beside));
      if (w.form_and_apply) q.push_back(UpdateApplied{e.reached, w.hash_matches});
    }
    void operator()(const ResolveUpdate& e) {
      EXPECT_EQ(As(e.standing), w.replicas_[e.fragment.value].applied_as) << "or the worker leaves its job";
      const std::string standing = e.dropped ? "dropped" : As(e.standing);
      w.Log(absl::StrCat("resolve ", e.fragment.value, " ", standing, e.late ? " late" : ""));
    }
    void operator()(const AdoptOuter& e) {
      EXPECT_FALSE(w.replicas_[e.fragment.value].applying) << "the replica may deviate, and has no outer copy then";
      w.Log(absl::StrCat("adopt ", e.fragment.value));
    }
    void operator()(const BeginOptimizer& e) {
      w.begun = e.course;
      w.Log("reset optimizer");
    }
    void operator()(const FormContribution& e) {
      w.Log(absl::StrCat("form ", e.target.fragment.value, " v", e.target.version.value, e.at_rest ? " at rest" : ""));
      if (w.form_and_apply) q.push_back(ContributionFormed{e.target, Digest{++w.digests_, 1}, 16});
    }
    void operator()(const Upload& e) {
      const auto& [header, boot] = e.contribution;
      w.Log(absl::StrCat("upload ", header.target.fragment.value, " v", header.target.version.value, " steps ",
                         header.steps, " boot ", boot.value));
      w.uploads[header.target.fragment.value] = e.contribution;
    }
    void operator()(const CancelUpload& e) { w.Log(absl::StrCat("cancel upload ", e.fragment.value)); }
    void operator()(const DropContribution& e) { w.Log(absl::StrCat("drop contribution ", e.fragment.value)); }
    void operator()(const AddLease& e) { w.Log(absl::StrCat("lease ", e.lease.value)); }
    void operator()(const RemoveLease& e) { w.Log(absl::StrCat("forget lease ", e.lease.value)); }
    void operator()(const TakeStep& e) {
      if (!w.samples_there) {
        q.push_back(SamplesMissing{"samples"});
        return;
      }
      w.steps.push_back(e);
      ++w.steps_taken;
      w.now_ = w.now_ + Milliseconds(10);
      q.push_back(StepDone{w.finite, 16, 2'000'000, Milliseconds(10)});
    }
    void operator()(const Evaluate& e) {
      w.Log(absl::StrCat("evaluate ", e.evaluation, ": ", e.first, "+", e.samples));
      if (!w.evaluate) return;
      const uint64_t end = std::min(e.first + e.samples, w.held_out_samples);
      q.push_back(HeldOutEvaluated{e.evaluation, end - e.first, w.piece_micro_nats, 10, 20});
    }
    void operator()(const ScoreTask& e) {
      w.Log(absl::StrCat("score ", e.task, " ", e.first, "+", e.examples));
      q.push_back(TaskScored{e.evaluation, e.examples / 2, e.task == 1 ? std::optional<uint64_t>(1) : std::nullopt});
    }
    void operator()(const AnswerLogs& e) { w.Log(absl::StrCat("logs ", e.wanted.lines)); }
    void operator()(const Note& e) { w.Log(absl::StrCat("note ", e.event, ": ", e.text)); }
    void operator()(const Exit& e) { w.Log(absl::StrCat("exit ", static_cast<int>(e.reason), ": ", e.text)); }
  };
  void Take(const Effect& effect, std::vector<Event>& queue) { std::visit(Visitor{*this, queue}, effect); }

  void OnSaid(const WorkerMessage& message, std::vector<Event>& queue) {
    said.push_back(message);
    if (std::holds_alternative<Ready>(message)) Log(absl::StrCat("ready ", std::get<Ready>(message).step));
    if (const auto* a = std::get_if<Applied>(&message)) {
      Log(absl::StrCat("applied ", a->applied.fragment.value, " v", a->applied.version.value,
                       a->hash_matches ? "" : " deviant"));
    }
    if (std::holds_alternative<LeaseReturn>(message)) Log("return leases");
    if (std::holds_alternative<Leaving>(message)) Log("leaving");
    if (const auto* f = std::get_if<JobFailure>(&message)) Log("failure: " + f->reason);
    if (const auto* done = std::get_if<EvaluationDone>(&message))
      Log(absl::StrCat("evaluation done", done->failure.empty() ? "" : ": ", done->failure));
    if (const auto* d = std::get_if<SyncDropped>(&message)) {
      Log(absl::StrCat("say dropped ", d->target.fragment.value, " v", d->target.version.value, " at ", d->send_step));
    }
    const auto* wish = std::get_if<LeaseRequest>(&message);
    if (wish == nullptr) return;
    Log(absl::StrCat("wish ", wish->request, " for ", wish->samples));
    if (!grant_leases) return;
    const uint64_t begin = next_position_;
    next_position_ += std::min(lease_samples, wish->samples);
    queue.push_back(Received{LeaseGranted{wish->job, wish->request, LeaseId{++leases_}, {begin, next_position_}}});
  }

  std::shared_ptr<const JobSpec> spec_;
  const uint32_t fragments_;
  VersionVector assigned_;
  struct Replica {
    std::string applied_as;  // the newest update
    bool applying = false;
  };
  std::map<uint32_t, Replica> replicas_;
  uint64_t digests_ = 0, leases_ = 0, next_position_ = 0;
  Instant now_{1'000'000'000};
  Core core_;
};

}  // namespace atl::worker

#endif  // ATOLL_TESTS_UNIT_WORKER_CORE_FAKE_COORDINATOR_H_
