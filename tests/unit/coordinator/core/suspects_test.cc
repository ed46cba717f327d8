// SPDX-License-Identifier: Apache-2.0
// Samples on which two workers had non-finite losses are abandoned, however many were suspected
// before.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace atl {
namespace {

const JobId kJob{"j"};

class Failing {
 public:
  Failing() : core_({Seconds(2), Seconds(20)}, RecoveredState{BootNumber{1}, {}, {}, {}, {}}, now_) {
    core_.Start(now_);
    JobSubmitted e;
    e.spec.name = kJob.value;
    e.spec.sync.inner_steps = 100;
    e.spec.batch.sequences_per_step = 1;
    e.spec.stop.inner_steps = 10'000;
    e.fragments = 1;
    e.stop_step = 10'000;
    e.dataset_samples = 1'000'000;
    Give(e);
    Give(ParametersReady{kJob, {Digest{1, 1}}});
  }

  // A worker of that name joins the job.
  void Comes(const std::string& name) {
    Hello hello;
    hello.worker = WorkerId{name};
    hello.start_nonce = 7;
    connections_[name] = ++next_;
    Give(WorkerConnected{next_, hello});
    Says(name, Ready{kJob, 0, {}});
  }
  SampleRange Takes(const std::string& name, uint64_t samples) {
    const Effects effects = Says(name, LeaseRequest{kJob, ++next_, samples});
    for (const Send& send : effects.sends) {
      if (const auto* granted = std::get_if<LeaseGranted>(&send.message)) return granted->range;
    }
    return {};
  }
  void Fails(const std::string& name) { Says(name, JobFailure{kJob, "loss or gradient was not finite", false}); }
  uint64_t Abandoned() const { return core_.ViewJob(kJob, now_)->balance.abandoned; }

 private:
  Effects Says(const std::string& name, WorkerMessage message) {
    return Give(WorkerSaid{connections_.at(name), std::move(message)});
  }
  Effects Give(const Event& event) {
    Effects effects = core_.Step(event, now_);
    core_.CheckInvariants();
    return effects;
  }

  Instant now_{1'000'000'000};
  Core core_;
  std::map<std::string, ConnectionId> connections_;
  uint64_t next_ = 0;
};

// One worker stays to the end, so that the job continues. The other becomes non-finite on many
// samples, which the first has trained on since without a failure.
void FillTheList(Failing& job, size_t entries) {
  job.Comes("steady");
  job.Comes("fickle");
  for (size_t i = 0; i < entries; ++i) ASSERT_EQ(job.Takes("fickle", 1), (SampleRange{i, i + 1}));
  job.Fails("fickle");
  ASSERT_EQ(job.Takes("steady", entries), (SampleRange{0, entries}));
}

TEST(Suspects, TheOldestAreForgottenForNewerOnes) {
  Failing job;
  FillTheList(job, 64);
  job.Comes("a");
  job.Comes("b");
  EXPECT_EQ(job.Takes("a", 200), (SampleRange{64, 264}));
  job.Fails("a");
  EXPECT_EQ(job.Abandoned(), 0u) << "one worker alone proves nothing";
  EXPECT_EQ(job.Takes("b", 200), (SampleRange{64, 264}));
  job.Fails("b");
  EXPECT_EQ(job.Abandoned(), 200u);
}

TEST(Suspects, WhatWasAbandonedTakesNoPlace) {
  Failing job;
  FillTheList(job, 63);
  // Two workers fail, one after the other, on a hundred ranges.
  uint64_t abandoned = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string first = absl::StrCat("first-", i), second = absl::StrCat("second-", i);
    job.Comes(first);
    job.Comes(second);
    const SampleRange range = job.Takes(first, 100);
    job.Fails(first);
    EXPECT_EQ(job.Takes(second, 100), range);
    job.Fails(second);
    EXPECT_EQ(job.Abandoned(), abandoned += 100);
  }
  job.Fails("steady");
  EXPECT_EQ(job.Abandoned(), abandoned + 63) << "what was suspected first of all is still known";
}

TEST(Suspects, AWorkerThatFailsAgainAndAgainTakesNoPlaceOfOthers) {
  Failing job;
  job.Comes("steady");
  job.Comes("a");
  EXPECT_EQ(job.Takes("a", 10), (SampleRange{0, 10}));
  job.Fails("a");
  EXPECT_EQ(job.Takes("steady", 10), (SampleRange{0, 10}));
  for (int i = 0; i < 100; ++i) {
    job.Comes("again");  // a new stream is a new attempt
    EXPECT_EQ(job.Takes("again", 5), (SampleRange{10, 15}));
    job.Fails("again");
  }
  EXPECT_EQ(job.Abandoned(), 0u);
  job.Fails("steady");
  EXPECT_EQ(job.Abandoned(), 10u);
}

}  // namespace
}  // namespace atl
