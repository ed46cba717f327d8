// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/member.h"

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr int64_t kLongestStepNs = Seconds(3600).ns;  // cuts larger values, which would stretch every deadline

}  // namespace

void Member::Recover(Instant now) {
  heard_ = lost_at_ = fetch_since_ = now;
  lost_ = !record_.quarantine.empty();
}

void Member::BeginStream(uint64_t start_nonce) {
  draining_ = draining_ && !left_ && start_nonce == record_.start_nonce;
}

void Member::Return(Instant now) {
  heard_ = now;
  has_spoken_ = true;
  lost_ = left_ = false;
  barred_.clear();
  rests_from_ = {};
}

void Member::Lose(Instant now) {
  lost_ = true;
  lost_at_ = now;
}

void Member::Leave(Instant now) {
  Lose(now);
  left_ = true;
}

void Member::Excuse(Duration time, Instant now) {
  for (Instant* const at : {&heard_, &lost_at_, &fetch_since_}) *at = std::min(*at + time, now);
}

void Member::Join(const Hello& hello, Incarnation incarnation) {
  record_.incarnation = incarnation;
  record_.start_nonce = hello.start_nonce;
  record_.evaluate_only = hello.evaluate_only;
  record_.device = hello.device;
  heartbeat_ = {};
}

void Member::Readmit(Instant now) {
  if (!record_.quarantine.empty()) lost_at_ = now;
  record_.quarantine.clear();
  record_.cordoned = false;
}

void Member::Fetch(Instant now) {
  stage_ = Stage::kFetching;
  fetch_since_ = now;
  fetch_reports_ = 0;
  step_ = 0;
  Continue();
}

void Member::Train() {
  stage_ = Stage::kTraining;
  heartbeat_.activity = WorkerActivity::kTraining;
}

void Member::LeaveJob() {
  stage_ = Stage::kNone;
  Continue();
  unanswered_ = 0;
  step_ = 0;
  wish_.reset();
  link_too_slow_.clear();
  not_waited_for_ = false;
}

void Member::Finish(bool left_out) {
  finished_ = true;
  left_out_ = left_out_ || left_out;
}

void Member::SentAssignment() {
  if (stage_ == Stage::kTraining) ++unanswered_;  // otherwise it sends Ready once it has fetched
}

void Member::Resume() {
  unanswered_ = 1;          // whatever it is doing
  not_waited_for_ = false;  // the notice may be lost: sent again
}

bool Member::AnswerAssignment() {
  if (unanswered_ == 0) return false;
  --unanswered_;
  return true;
}

void Member::Reached(uint64_t step, Instant now) {
  if (step < step_) return;
  step_ = step;
  step_at_ = now;
}

void Member::Report(const Heartbeat& heartbeat) {
  heartbeat_ = heartbeat;
  heartbeat_.step_ns = std::clamp<int64_t>(heartbeat.step_ns, 0, kLongestStepNs);
}

void Member::Rest(const JobId& job, Instant until) {
  Bar(job);
  rests_from_ = job;
  rests_until_ = until;
}

void Member::Unbar(const JobId& job) {
  barred_.erase(job);
  if (rests_from_ == job) rests_from_ = {};
}

std::string SilenceOf(const Member& member, Duration heartbeat_interval, Instant now) {
  if (member.lost()) return "";
  if (!member.has_spoken()) return "not heard since the coordinator has started";
  const Duration age = now - member.heard();
  if (age <= heartbeat_interval * 5 / 2) return "";
  return absl::StrCat("no heartbeat for ", age.ns / Seconds(1).ns, " s");
}

}  // namespace atl
