// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.h"

#include <iterator>

#include "common/rpc/transport_log.h"

namespace atl::fuzz {

const std::vector<Target>& AllTargets() {
  static const std::vector<Target> all = [] {
    SilenceTransportLog();  // broken messages are expected here
    std::vector<Target> targets;
    for (auto* some : {&WireTargets, &FormatTargets, &StateTargets, &TextTargets, &RequestTargets, &GuardTargets}) {
      std::vector<Target> more = some();
      std::move(more.begin(), more.end(), std::back_inserter(targets));
    }
    return targets;
  }();
  return all;
}

}  // namespace atl::fuzz
