// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/commit_pipeline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

// A pipeline with flushes triggered by the test.
struct Fixture {
  ManualExecutor executor;
  std::vector<size_t> transactions;  // records of each
  std::vector<std::string> released;
  std::vector<std::string> fatal;
  absl::Status next = absl::OkStatus();
  CommitPipeline pipeline{{.executor = executor,
                           .commit =
                               [this](const std::vector<LedgerRecord>& records) {
                                 transactions.push_back(records.size());
                                 return next;
                               },
                           .completed = [](const std::function<void()>& work) { work(); },
                           .release = [this](const Effects& effects) { released.push_back(effects.notes[0].kind); },
                           .fatal = [this](const absl::Status& status) { fatal.emplace_back(status.message()); }}};

  static Effects Step(const std::string& name, size_t records) {
    Effects effects;
    effects.notes.push_back({.job = {}, .kind = name, .text = {}, .fields = {}});
    for (size_t i = 0; i < records; ++i) effects.records.emplace_back(CountersRecord{});
    return effects;
  }
};

TEST(CommitPipeline, NothingLeavesBeforeItsRecordsAreDurable) {
  Fixture f;
  f.pipeline.Push(Fixture::Step("a", 1));
  EXPECT_TRUE(f.released.empty());
  f.executor.RunAll();
  EXPECT_EQ(f.released, std::vector<std::string>{"a"});
  EXPECT_TRUE(f.pipeline.idle());
}

TEST(CommitPipeline, StepsWithoutRecordsLeaveAtOnceButNeverOvertake) {
  Fixture f;
  f.pipeline.Push(Fixture::Step("free", 0));
  EXPECT_EQ(f.released, std::vector<std::string>{"free"});
  f.pipeline.Push(Fixture::Step("bound", 1));
  f.pipeline.Push(Fixture::Step("after", 0));
  EXPECT_EQ(f.released.size(), 1u);
  f.executor.RunAll();
  EXPECT_EQ(f.released, (std::vector<std::string>{"free", "bound", "after"}));
}

TEST(CommitPipeline, RecordsGatherWhileOneFlushIsUnderWay) {
  Fixture f;
  f.pipeline.Push(Fixture::Step("a", 1));
  f.pipeline.Push(Fixture::Step("b", 2));
  f.pipeline.Push(Fixture::Step("c", 3));
  f.executor.RunAll();
  EXPECT_EQ(f.transactions, (std::vector<size_t>{1, 5}));
  EXPECT_EQ(f.released, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(CommitPipeline, AFailedCommitReleasesNothingAndIsFatal) {
  Fixture f;
  f.next = absl::ResourceExhaustedError("the disk is full");
  f.pipeline.Push(Fixture::Step("a", 1));
  f.executor.RunAll();
  EXPECT_TRUE(f.released.empty());
  ASSERT_EQ(f.fatal.size(), 1u);
  EXPECT_NE(f.fatal[0].find("the disk is full"), std::string::npos);
  f.pipeline.Push(Fixture::Step("b", 0));
  f.executor.RunAll();
  EXPECT_TRUE(f.released.empty());
}

}  // namespace
}  // namespace atl
