// SPDX-License-Identifier: Apache-2.0
// Which workers may download which data, by the records alone and over a real engine.
#include "coordinator/engine/download_rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::HasSubstr;

struct DeafSink final : ControlSink {
  void Send(const CoordinatorMessage&) override {}
  void Close() override {}
};

Sha256 Hash(const std::string& text) { return Sha256Of(AsBytes(text)); }

JobRecord JobOn(const std::string& name, const std::string& corpus, const std::string& initial = "") {
  JobRecord record;
  record.job = JobId{name};
  record.spec.data.corpora = {{.name = corpus, .manifest = Hash(corpus)}};
  if (!initial.empty()) record.spec.init.safetensors = {Hash(initial)};
  return record;
}
WorkerRecord WorkerOf(const std::string& name, const std::string& job) {
  WorkerRecord record;
  record.worker = WorkerId{name};
  record.job = JobId{job};
  return record;
}
DownloadRequest Asked(DownloadKey key, const std::string& worker) {
  return {.key = std::move(key), .worker = WorkerId{worker}};
}
std::vector<DownloadKey> AllOf(const std::string& job, const std::string& corpus) {
  const FragmentVersion at{FragmentIndex{0}, Version{1}};
  return {UpdateKey{JobId{job}, at}, FragmentKey{JobId{job}, at, true}, CheckpointFragmentKey{JobId{job}, 10, {0}},
          BlockKey{JobId{job}, Hash(corpus), "train-00000.bin", 0}};
}

TEST(DownloadRights, MemberMayDownloadItsJobsFilesOnly) {
  DownloadRights rights;
  rights.Apply({JobOn("a", "tales"), JobOn("b", "news"), WorkerOf("w", "a")});
  for (const DownloadKey& key : AllOf("a", "tales")) EXPECT_TRUE(rights.Check(Asked(key, "w")).ok());
  for (const char* job : {"b", "none"}) {
    for (const DownloadKey& key : AllOf(job, "news")) {
      const absl::Status refused = rights.Check(Asked(key, "w"));
      EXPECT_EQ(refused, absl::UnavailableError(absl::StrCat("worker w is not assigned to job ", job,
                                                             "; request again after the assignment")));
    }
  }
  // The corpus of another job, under the name of its own corpus.
  const absl::Status other = rights.Check(Asked(BlockKey{JobId{"a"}, Hash("news"), "train-00000.bin", 0}, "w"));
  EXPECT_TRUE(absl::IsPermissionDenied(other)) << other;
}

TEST(DownloadRights, MovedWorkerHasOnlyItsNewRights) {
  DownloadRights rights;
  rights.Apply({JobOn("a", "tales"), JobOn("b", "news"), WorkerOf("w", "a")});
  const auto may = [&rights](const std::string& job) {
    return rights.Check(Asked(FragmentKey{JobId{job}, {}, true}, "w")).ok();
  };
  rights.Apply({WorkerOf("w", "b")});
  EXPECT_FALSE(may("a"));
  EXPECT_TRUE(may("b"));
  rights.Apply({WorkerOf("w", "")});
  EXPECT_FALSE(may("b"));
  rights.Apply({WorkerOf("w", "b"), WorkerForgotten{WorkerId{"w"}}});
  EXPECT_FALSE(may("b"));
}

TEST(DownloadRights, FilesAreForAllButThoseThatParametersWereMadeOf) {
  DownloadRights rights;
  rights.Apply({JobOn("a", "tales", "weights"), WorkerOf("w", "a")});
  for (const char* worker : {"w", "v"}) {
    EXPECT_TRUE(rights.Check(Asked(BlobKey{Hash("tales")}, worker)).ok());
    EXPECT_TRUE(rights.Check(Asked(Probe{100}, worker)).ok());
    const absl::Status refused = rights.Check(Asked(BlobKey{Hash("weights")}, worker));
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  }
  EXPECT_TRUE(rights.Check(Asked(BlobKey{Hash("weights")}, "")).ok());
}

TEST(DownloadRights, OtherRolesAreNotChecked) {
  DownloadRights rights;
  rights.Apply({JobOn("a", "tales")});
  for (const DownloadKey& key : AllOf("a", "tales")) EXPECT_TRUE(rights.Check(Asked(key, "")).ok());
}

class DownloadsOfMembers : public testing::Test {
 protected:
  static absl::Status Fragment(SmallCoordinator& c, const std::string& job, const std::string& worker) {
    absl::Status status = absl::UnknownError("no answer");
    c.data.OpenDownload(Asked(FragmentKey{JobId{job}, {}, true}, worker),
                        [&status](const auto& content) { status = content.status(); });
    c.RunWork();
    return status;
  }
  void Join(SmallCoordinator& c, const std::string& worker, uint32_t protocol = kProtocolRevision) {
    c.engine.OpenControl(
        Hello{.worker = WorkerId{worker}, .protocol_revision = protocol, .start_nonce = ++nonce_, .device = "cpu"},
        std::make_shared<DeafSink>());
    c.Settle();
  }
  static JobSpec SpecFor(const std::string& name, uint32_t workers) {
    JobSpec spec = TinySpec(name);
    spec.workers = {.min = 1, .max = workers, .planned = 1};
    return spec;
  }
  SmallDisk disk_;
  ManualClock clock_;
  uint64_t nonce_ = 0;
};

// S15, S17: two workers with a certificate each: one at work, and one without a job or without
// admission.
TEST_F(DownloadsOfMembers, BeginWithTheAssignmentAndEndWithIt) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(SpecFor("one", 1)).ok());
  c.Settle();
  EXPECT_TRUE(absl::IsUnavailable(Fragment(c, "one", "a"))) << "before it has joined";
  Join(c, "a");
  EXPECT_TRUE(Fragment(c, "one", "a").ok()) << "before it is ready: it fetches what it begins with";
  Join(c, "b");
  Join(c, "old", kProtocolRevision + 1);
  for (const char* other : {"b", "old", "nobody"}) {
    const absl::Status refused = Fragment(c, "one", other);
    EXPECT_TRUE(absl::IsUnavailable(refused)) << other << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is not assigned to job one"));
  }
  EXPECT_TRUE(Fragment(c, "one", "").ok()) << "people";

  ASSERT_TRUE(c.Submit(SpecFor("two", 1)).ok());
  c.Settle();
  EXPECT_TRUE(Fragment(c, "two", "b").ok());
  EXPECT_TRUE(absl::IsUnavailable(Fragment(c, "two", "a")));
  EXPECT_TRUE(absl::IsUnavailable(Fragment(c, "one", "b")));

  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"one"}, .action = JobAction::kPause}).ok());
  EXPECT_TRUE(absl::IsUnavailable(Fragment(c, "one", "a")));
}

TEST_F(DownloadsOfMembers, RightsAreRestoredBeforeTheMemberReturns) {
  {
    SmallCoordinator before(disk_, clock_);
    ASSERT_TRUE(before.Submit(SpecFor("one", 1)).ok());
    before.Settle();
    Join(before, "a");
  }
  SmallCoordinator c(disk_, clock_);
  const absl::Status loading = Fragment(c, "one", "a");
  EXPECT_TRUE(absl::IsUnavailable(loading));
  EXPECT_THAT(std::string(loading.message()), HasSubstr("is being loaded"));
  c.Settle();
  EXPECT_TRUE(Fragment(c, "one", "a").ok());
  EXPECT_TRUE(absl::IsUnavailable(Fragment(c, "one", "b"))) << "of whom the ledger knows nothing: it is to ask again";
}

}  // namespace
}  // namespace atl
