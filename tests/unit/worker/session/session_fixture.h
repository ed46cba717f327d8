// SPDX-License-Identifier: Apache-2.0
// A session in a world played by the test: control messages in, parameters changed.
#ifndef ATOLL_TESTS_UNIT_WORKER_SESSION_SESSION_FIXTURE_H_
#define ATOLL_TESTS_UNIT_WORKER_SESSION_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/codec.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/unit/worker/session/toy_job.h"
#include "worker/session/session.h"

namespace atl {

inline const JobId kJob{"toy"};

// A link with a hand-made coordinator: fragments at version 0, updates made by the test.
class TestLink final : public Link {
 public:
  void Say(WorkerMessage message) override { said.push_back(std::move(message)); }
  void CloseStream(const std::string& reason) override { closed = reason; }
  void SetHeartbeat(Heartbeat h) override { heartbeat = std::move(h); }
  void StartUpload(const ContributionUpload& contribution, SharedBytes bytes) override {
    const ContributionHeader& header = contribution.header;
    uploads[header.target.fragment.value] = {header, std::move(bytes)};
  }
  void SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) override {
    caps = {upload_bytes_per_second, download_bytes_per_second};
  }
  void CancelUpload(FragmentIndex) override { ++cancelled; }
  void FetchFragment(const JobId&, FragmentIndex fragment, uint64_t bytes, Version at_least) override {
    fragments[fragment.value] = bytes;
    least = at_least;
  }
  void FetchUpdate(const JobId&, FragmentVersion reached, uint64_t) override { updates.push_back(reached); }
  void DropFetches(FragmentIndex) override {}
  void DropAll() override { fragments.clear(); }

  struct Sent {
    ContributionHeader header;
    SharedBytes bytes;
  };
  std::vector<WorkerMessage> said;
  std::map<uint32_t, Sent> uploads;
  std::map<uint32_t, uint64_t> fragments;
  std::vector<FragmentVersion> updates;
  Version least;  // of the newest requested fragment
  std::pair<uint64_t, uint64_t> caps;
  Heartbeat heartbeat;
  std::string closed;
  int cancelled = 0;
};

inline SharedBytes BytesOf(std::span<const float> values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size_bytes());
  std::memcpy(bytes->data(), values.data(), values.size_bytes());
  return bytes;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() { Make(ToySpec()); }

  void Make(JobSpec spec) {
    spec_ = std::make_shared<const JobSpec>(std::move(spec));
    layout_ = MakeModelLayout(spec_->model, spec_->sync.pattern, spec_->sync.layers_per_fragment);
    global_.assign(layout_.elements, 0.0f);
    SessionOptions options;
    options.core.worker = WorkerId{"w1"};
    options.sample_wait = Duration{};
    options.on_letting_go = [this](bool device_lost) {
      EXPECT_FALSE(session_->exit().has_value());
      ++let_go_;
      let_go_lost_ = device_lost;
    };
    options.work_begins = [this](const JobId& job, const JobSpec&, TrainWork work) {
      EXPECT_TRUE(stepping_.empty() && !between_steps_) << "one piece at a time";
      if (work == TrainWork::kStep) {
        stepping_ = job.value;
      } else {
        between_steps_ = true;
      }
    };
    options.work_ended = [this] {
      stepping_.clear();
      between_steps_ = false;
    };
    options.on_step = [this](const StepTaken& step) { steps_.push_back(step); };
    session_ = std::make_unique<Session>(options, link_, factory_, executor_, clock_, log_, nullptr);
  }
  void Post(CoordinatorMessage message) { session_->Post(worker::Event(worker::Received{std::move(message)})); }
  // Runs up to `limit` turns. Parallel work finishes at once, unless `busy_`.
  void Turn(int limit = 1) {
    for (int i = 0; i < limit; ++i) {
      session_->Turn();
      if (!busy_ && executor_.RunAll() > 0) session_->Turn();
      clock_.Advance(Milliseconds(10));
    }
  }
  void Join(uint64_t clock_step = 0) {
    session_->Post(worker::Event(worker::StreamUp{}));
    Post(Welcome{BootNumber{1}, Incarnation{3}, false, Seconds(2), Seconds(20), {}});
    Post(Assignment{kJob, 1, spec_, clock_step, VersionVector(layout_.fragments.size(), Version{0})});
    Turn(2);
    for (uint32_t p = 0; p < layout_.fragments.size(); ++p) ServeFragment(p, 0);
    Turn();
  }
  std::span<float> Global(uint32_t p) {
    return std::span(global_).subspan(layout_.fragments[p].offset, layout_.fragments[p].elements);
  }
  Digest HashOf(uint32_t p, uint64_t version) { return ContentHash(Global(p), version, layout_.digest); }
  void ServeFragment(uint32_t p, uint64_t version) {
    session_->Post(
        FetchedBytes{kJob, {FragmentIndex{p}, Version{version}}, true, HashOf(p, version), BytesOf(Global(p))});
  }
  void Lease() {
    for (const WorkerMessage& message : link_.said) {
      const auto* wish = std::get_if<LeaseRequest>(&message);
      if (wish == nullptr || wish->request <= leases_) continue;
      leases_ = wish->request;
      Post(LeaseGranted{kJob,
                        wish->request,
                        LeaseId{leases_},
                        {leases_ * 1000, leases_ * 1000 + std::min(wish->samples, lease_samples_)}});
    }
  }
  void Train(uint64_t clock) {
    for (int i = 0; i < 50 && session_->core().clock_step() < clock; ++i) {
      Lease();
      Turn();
    }
    ASSERT_EQ(session_->core().clock_step(), clock);
    Turn();
  }
  // Outer SGD with rate 1 on the one contribution: the global fragment becomes the worker's
  // parameters.
  void Commit(uint32_t p, uint64_t version, std::vector<WorkerId> contributors) {
    const TestLink::Sent& sent = link_.uploads.at(p);
    session_->Post(worker::Event(worker::UploadEnded{sent.header.target, sent.header.digest, {}, ""}));
    std::vector<float> change(Global(p).size());
    Decode(CodecKind::kFp32, *sent.bytes, change);
    for (size_t i = 0; i < change.size(); ++i) {
      change[i] = -change[i];
      Global(p)[i] += change[i];
    }
    const FragmentVersion reached{FragmentIndex{p}, Version{version}};
    Post(UpdatePublished{kJob, reached, HashOf(p, version), change.size() * 4, std::move(contributors), 0});
    session_->Post(FetchedBytes{kJob, reached, false, HashOf(p, version), BytesOf(change)});
    Turn(2);
  }
  template <typename M>
  int Count() const {
    int n = 0;
    for (const WorkerMessage& m : link_.said) n += std::holds_alternative<M>(m) ? 1 : 0;
    return n;
  }

  std::shared_ptr<const JobSpec> spec_;
  ModelLayout layout_;
  std::vector<float> global_;
  TestLink link_;
  ToyFactory factory_{1.0f};
  ManualClock clock_;
  ManualExecutor executor_;
  bool busy_ = false;
  Log log_{[] {
    LogOptions options;
    options.to_stderr = false;
    return options;
  }()};
  std::unique_ptr<Session> session_;
  std::vector<StepTaken> steps_;
  std::string stepping_;  // the job of the current step
  bool between_steps_ = false;
  int let_go_ = 0;
  bool let_go_lost_ = false;
  uint64_t leases_ = 0;
  uint64_t lease_samples_ = 1000;  // at most, of one lease
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_SESSION_SESSION_FIXTURE_H_
