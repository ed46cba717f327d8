// SPDX-License-Identifier: Apache-2.0
// More workers come and go than the coordinator remembers, and the coordinator restarts. Jobs are never forgotten.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/plan/ledger_fold.h"
#include "common/plan/limits.h"
#include "coordinator/core/core.h"

namespace atl {
namespace {

const CoreOptions kOptions{limits::kHeartbeatInterval, limits::kMembershipTimeout};

class Visits {
 public:
  Visits() { Restart(); }

  void Restart() {
    core_ = std::make_unique<Core>(kOptions, ledger_.State(BootNumber{++boot_}), now_);
    ledger_.Apply(core_->Start(now_).records);
  }
  // Connects a worker; false if it is refused.
  bool Comes(const std::string& name) {
    Hello hello;
    hello.worker = WorkerId{name};
    hello.start_nonce = 7;
    const Effects effects = Step(WorkerConnected{++connection_, hello});
    return effects.closes.empty();
  }
  void Goes() { Step(WorkerSaid{connection_, Leaving{"it was only a visit"}}); }
  absl::Status Submits(const std::string& name, uint32_t fragments) {
    JobSubmitted e;
    e.spec.name = name;
    e.spec.stop.inner_steps = 100;
    e.fragments = fragments;
    e.dataset_samples = 1'000;
    return Step(e).answers.at(0).status;
  }
  std::vector<WorkerView> Workers() const { return core_->ViewWorkers(now_); }
  size_t Recorded() const { return ledger_.State(BootNumber{boot_}).workers.size(); }
  const std::vector<std::string>& forgotten() const { return forgotten_; }

 private:
  Effects Step(const Event& event) {
    now_ = now_ + Milliseconds(1);
    Effects effects = core_->Step(event, now_);
    core_->CheckInvariants();
    ledger_.Apply(effects.records);
    for (const JobNote& note : effects.notes) {
      if (note.kind == "worker forgotten") forgotten_.push_back(note.fields.at("worker"));
    }
    return effects;
  }

  Instant now_{};
  uint64_t boot_ = 0;
  ConnectionId connection_ = 0;
  LedgerFold ledger_;
  std::unique_ptr<Core> core_;
  std::vector<std::string> forgotten_;
};

TEST(Forgetting, WhoWentFirstIsForgottenFirst) {
  Visits visits;
  for (uint32_t i = 0; i < limits::kGoneWorkers + 3; ++i) {
    ASSERT_TRUE(visits.Comes(absl::StrCat("w", i)));
    visits.Goes();
  }
  EXPECT_EQ(visits.forgotten(), (std::vector<std::string>{"w0", "w1", "w2"}));
  EXPECT_EQ(visits.Workers().size(), limits::kGoneWorkers);
  EXPECT_EQ(visits.Recorded(), limits::kGoneWorkers);
  EXPECT_TRUE(visits.Comes("w1")) << "as a new one";
  EXPECT_EQ(visits.Recorded(), limits::kGoneWorkers + 1) << "who is there does not count as gone";
}

TEST(Forgetting, WhoIsOnlyRememberedKeepsNobodyOutAfterARestart) {
  Visits visits;
  for (uint32_t i = 0; i < limits::kWorkers; ++i) {
    ASSERT_TRUE(visits.Comes(absl::StrCat("w", i)));
    visits.Goes();
  }
  visits.Restart();
  EXPECT_TRUE(visits.Comes("another"));
}

// Ended jobs keep memory for each of their fragments (S39).
TEST(Forgetting, JobsOfVeryManyFragmentsInAllAreRefused) {
  Visits visits;
  for (int i = 0; i < 128; ++i) ASSERT_TRUE(visits.Submits(absl::StrCat("j", i), 1024).ok()) << i;
  const absl::Status refused = visits.Submits("one-more", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("jobs of 131073 fragments, ended ones too; its limit is 131072"),
            absl::string_view::npos)
      << refused;
}

}  // namespace
}  // namespace atl
