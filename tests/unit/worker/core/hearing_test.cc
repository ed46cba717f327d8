// SPDX-License-Identifier: Apache-2.0
// Messages that arrive during a step: parameters change only between steps.
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "worker/core/core.h"

namespace atl::worker {
namespace {

template <typename Variant, size_t... kIndices>
std::vector<Variant> OneOfEach(std::index_sequence<kIndices...>) {
  return {Variant(std::in_place_index<kIndices>)...};
}
template <typename Variant>
std::vector<Variant> OneOfEach() {
  return OneOfEach<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

TEST(HeardInStep, HandlesOnlyTransferAndSampleMessages) {
  for (const CoordinatorMessage& message : OneOfEach<CoordinatorMessage>()) {
    const bool heard = std::holds_alternative<UpdatePublished>(message) ||
                       std::holds_alternative<LeaseGranted>(message) || std::holds_alternative<LeaseDenied>(message);
    EXPECT_EQ(Core::HeardInStep(Received{message}), heard) << "message " << message.index();
  }
}

TEST(HeardInStep, HandlesOnlySuccessfulTasks) {
  for (const Event& event : OneOfEach<Event>()) {
    if (std::holds_alternative<Received>(event)) continue;
    const bool heard = std::holds_alternative<ContributionFormed>(event) ||
                       std::holds_alternative<UpdateFetched>(event) || std::holds_alternative<UploadEnded>(event);
    EXPECT_EQ(Core::HeardInStep(event), heard) << "event " << event.index();
  }
  EXPECT_TRUE(Core::HeardInStep(UploadEnded{.result = UploadResult::kAccepted}));
  EXPECT_FALSE(Core::HeardInStep(UploadEnded{.result = UploadResult::kRefused})) << "its drift may be given up";
}

}  // namespace
}  // namespace atl::worker
