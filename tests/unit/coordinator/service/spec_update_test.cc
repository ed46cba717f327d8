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

TEST(MergeSpecUpdate, WhatAReplacedScheduleLeavesOutIsChosenAsAtSubmit) {
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

TEST(MergeSpecUpdate, RefusesAnUpdateOfNothing) {
  EXPECT_EQ(MergeSpecUpdate(Labelled(), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace atl
