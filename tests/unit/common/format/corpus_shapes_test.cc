// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_shapes.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(ShapesOf, TakesOneSplitWithTheJobsWeights) {
  DataSpec data;
  data.corpora = {{.name = "web", .manifest = {}, .weight = 2}, {.name = "books", .manifest = {}, .weight = 1}};
  std::vector<CorpusManifest> manifests(2);
  for (const uint64_t tokens : {10u, 20u})
    manifests[0].files.push_back(
        {.name = "t", .split = CorpusSplit::kTrain, .bytes = 0, .sha256 = {}, .tokens = tokens});
  manifests[0].files.push_back({.name = "h", .split = CorpusSplit::kHeldOut, .bytes = 0, .sha256 = {}, .tokens = 5});
  const auto train = ShapesOf(data, manifests, CorpusSplit::kTrain);
  ASSERT_TRUE(train.ok());
  ASSERT_EQ(train->size(), 2u);
  EXPECT_EQ((*train)[0].name, "web");
  EXPECT_EQ((*train)[0].weight, 2);
  EXPECT_EQ((*train)[0].shard_tokens, (std::vector<uint64_t>{10, 20}));
  EXPECT_TRUE((*train)[1].shard_tokens.empty());
  EXPECT_EQ(ShapesOf(data, manifests, CorpusSplit::kHeldOut)->at(0).shard_tokens, std::vector<uint64_t>{5});
}

TEST(ShapesOf, RefusesAnotherNumberOfManifests) {
  DataSpec data;
  data.corpora = {{.name = "web", .manifest = {}, .weight = 1}};
  EXPECT_EQ(ShapesOf(data, {}, CorpusSplit::kTrain).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ShapesOf(data, std::vector<CorpusManifest>(2), CorpusSplit::kTrain).ok());
}

}  // namespace
}  // namespace atl
