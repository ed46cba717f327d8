// SPDX-License-Identifier: Apache-2.0
// The header of a contribution to one round, for tests of the round log and its seeds for fuzzing.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_STORE_SAMPLE_CONTRIBUTION_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_STORE_SAMPLE_CONTRIBUTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/store/round_log.h"

namespace atl {

inline ContributionHeader SampleContribution(const RoundKey& round, const std::string& worker,
                                             const std::vector<std::byte>& payload) {
  ContributionHeader header;
  header.job = round.job;
  header.worker = {worker};
  header.incarnation = {4};
  header.target = round.target;
  header.digest = DigestOf(payload);
  header.encoded_bytes = payload.size();
  header.codec = CodecKind::kBf16;
  header.tokens = 100;
  header.steps = 5;
  header.send_step = 40;
  header.cursors = {{{9}, 77}};
  return header;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_STORE_SAMPLE_CONTRIBUTION_H_
