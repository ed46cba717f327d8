// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Workers, ListShowsStrikesQuarantineAndSilence) {
  Harness harness;
  v1::WorkerStatus& clean = *harness.fake.workers.add_workers();
  clean.set_name("workers/a");
  clean.set_job("jobs/tiny");
  v1::WorkerStatus& struck = *harness.fake.workers.add_workers() = clean;
  struck.set_name("workers/b");
  struck.set_screened("1 strike in fragment 0, the newest: it is large");
  v1::WorkerStatus& out = *harness.fake.workers.add_workers();
  out.set_name("workers/c");
  out.set_state("quarantined");
  out.set_waiting_for("an operator: worker c is quarantined, since it was large");
  out.set_screened("it was large");
  v1::WorkerStatus& silent = *harness.fake.workers.add_workers() = clean;
  silent.set_name("workers/d");
  silent.set_state("silent");
  silent.set_waiting_for("no heartbeat for 6 s");
  EXPECT_THAT(harness.Run({"worker", "list"}).out,
              AllOf(HasSubstr("c     quarantined"),
                    EndsWith("\nb: 1 strike in fragment 0, the newest: it is large\n"
                             "c: quarantined, since it was large; look at its machine, then 'atoll worker readmit c'\n"
                             "d: no heartbeat for 6 s\n")));
  EXPECT_THAT(harness.Run({"worker", "list", "-o", "json"}).out, HasSubstr("\"screened\": \"it was large\""));
}

TEST(Workers, CordonAndEvictNameTheWorkerAndTheWayBack) {
  Harness harness;
  const RunResult cordon = harness.Run({"worker", "cordon", "c"});
  EXPECT_EQ(cordon.code, 0);
  EXPECT_EQ(harness.fake.cordoned.name(), "workers/c");
  EXPECT_THAT(cordon.talk, HasSubstr("it keeps its present job and gets no other until 'atoll worker readmit'"));
  const RunResult evict = harness.Run({"worker", "evict", "d"});
  EXPECT_EQ(evict.code, 0);
  EXPECT_EQ(harness.fake.evicted.name(), "workers/d");
  EXPECT_THAT(evict.talk, HasSubstr("it is refused until 'atoll worker readmit'"));
  v1::WorkerStatus& worker = *harness.fake.workers.add_workers();
  worker.set_name("workers/c");
  worker.set_cordoned(true);
  EXPECT_THAT(harness.Run({"worker", "list"}).out,
              EndsWith("\nc: cordoned, so it gets no other job; 'atoll worker readmit c' ends the cordon\n"));
}

TEST(Workers, ReadmitNamesTheWorker) {
  Harness harness;
  const RunResult result = harness.Run({"worker", "readmit", "c"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(harness.fake.readmitted.name(), "workers/c");
  EXPECT_EQ(result.out, "workers/c\n");
  EXPECT_THAT(result.talk, HasSubstr("if it was refused, it joins by itself"));
  EXPECT_EQ(harness.Run({"worker", "readmit", "no/name"}).code, 2);
  harness.fake.error = absl::FailedPreconditionError("worker c is not quarantined");
  const RunResult refused = harness.Run({"worker", "readmit", "c"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.talk, HasSubstr("worker c is not quarantined"));
}

}  // namespace
}  // namespace atl::cli
