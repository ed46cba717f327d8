// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/spec_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

JobSpec Labelled() {
  JobSpec spec = TinySpec("tiny");
  spec.labels = {{"team", "a"}, {"user", "b"}};
  return spec;
}

TEST(MergeSpecUpdate, LabelsAreAddedChangedAndTakenAway) {
  v1::UpdateJobRequest request;
  (*request.mutable_set_labels())["team"] = "c";
  (*request.mutable_set_labels())["new"] = "";
  request.add_remove_labels("user");
  const auto spec = MergeSpecUpdate(Labelled(), request);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->labels, UnorderedElementsAre(Pair("team", "c"), Pair("new", "")));
  EXPECT_EQ(spec->name, "tiny");
}

TEST(MergeSpecUpdate, LabelsStayWhenSomethingElseChanges) {
  v1::UpdateJobRequest request;
  request.add_update_mask("priority");
  request.mutable_spec()->set_priority(7);
  const auto spec = MergeSpecUpdate(Labelled(), request);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->labels, Labelled().labels);
  EXPECT_EQ(spec->priority, 7);
}

TEST(MergeSpecUpdate, RefusesLabelsThatAreNotThereOrTooLong) {
  v1::UpdateJobRequest absent;
  absent.add_remove_labels("nobody");
  EXPECT_THAT(std::string(MergeSpecUpdate(Labelled(), absent).status().message()),
              HasSubstr("metadata.labels: has no 'nobody'"));
  v1::UpdateJobRequest longer;
  (*longer.mutable_set_labels())["team"] = std::string(257, 'x');
  EXPECT_EQ(MergeSpecUpdate(Labelled(), longer).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MergeSpecUpdate, TakesEachFieldOnce) {  // S38
  v1::UpdateJobRequest request;
  for (int i = 0; i < 3; ++i) {
    request.add_update_mask("nobody");
    request.add_update_mask(std::string(100'000, '.'));
  }
  EXPECT_EQ(MergeSpecUpdate(Labelled(), request).status().message(),
            std::string(256, '.') + ": no such field exists\nnobody: no such field exists");
}

TEST(MergeSpecUpdate, ReplacedScheduleGetsTheDefaultsOfSubmit) {
  JobSpec current = Labelled();
  (void)ResolveDefaults(current, current.model.vocab_size);
  ASSERT_GE(current.inner.schedule.total_steps, 1u);
  v1::UpdateJobRequest request;
  request.add_update_mask("inner_optimizer.schedule");
  request.mutable_spec()->mutable_inner_optimizer()->mutable_schedule()->set_kind(v1::SCHEDULE_KIND_LINEAR);
  const auto spec = MergeSpecUpdate(current, request);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->inner.schedule.total_steps, current.inner.schedule.total_steps);
}

v1::UpdateJobRequest Bounds(uint32_t min, uint32_t max) {
  v1::UpdateJobRequest request;
  request.add_update_mask("workers.min");
  request.add_update_mask("workers.max");
  request.mutable_spec()->mutable_workers()->set_min(min);
  request.mutable_spec()->mutable_workers()->set_max(max);
  return request;
}

TEST(MergeSpecUpdate, DefaultPlannedWorkersFollowNewBounds) {
  JobSpec current = Labelled();
  current.workers = {.min = 4, .max = 8};
  (void)ResolveDefaults(current, current.model.vocab_size);
  const auto planned = [&](uint32_t min, uint32_t max) {
    const auto spec = MergeSpecUpdate(current, Bounds(min, max));
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? spec->workers.planned : 0;
  };
  EXPECT_EQ(planned(1, 2), 2u);
  EXPECT_EQ(planned(6, 8), 6u);
  EXPECT_EQ(planned(1, 8), 4u);
  EXPECT_THAT(std::string(MergeSpecUpdate(current, Bounds(3, 2)).status().message()), HasSubstr("workers.max: is 2"));
}

TEST(MergeSpecUpdate, PlannedWorkersThatWereGivenAreHeldAgainstNewBounds) {
  JobSpec current = Labelled();
  current.workers = {.min = 1, .max = 8, .planned = 4};
  EXPECT_THAT(std::string(MergeSpecUpdate(current, Bounds(1, 2)).status().message()),
              HasSubstr("workers.planned: is 4; it must lie between workers.min (1) and workers.max (2)"));
}

TEST(MergeSpecUpdate, RefusesAnUpdateOfNothing) {
  EXPECT_EQ(MergeSpecUpdate(Labelled(), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace atl
