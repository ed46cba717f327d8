// SPDX-License-Identifier: Apache-2.0
// Judges from the measured link rates whether rounds wait for a worker. A worker that cannot transfer a period's
// contributions and updates within that period is not expected in any round, if the other workers suffice
// (docs/design.md section 6). It continues to train and to apply updates, and its timely contributions are accepted.
// Pure integer arithmetic.
//
// The rates are the best of several recent transfers, so that one slow transfer has no effect.
// Verdicts have hysteresis: an admitted worker is refused when its transfers take more than 5/4 of
// a period; a refused one is admitted again when they fit into the period.
#ifndef ATOLL_COORDINATOR_CORE_ADMISSION_H_
#define ATOLL_COORDINATOR_CORE_ADMISSION_H_

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace atl {

// The traffic of one worker in a period: every fragment once up as a contribution and once down as
// an update. Encoded bytes; all 0: unknown, and every worker is admitted.
struct PeriodTraffic {
  uint64_t upload_bytes = 0, download_bytes = 0;
  uint64_t largest_upload_bytes = 0, largest_download_bytes = 0;  // of the largest fragment, included above
};

// Bytes per second; 0: not measured, which never causes a refusal.
struct LinkRates {
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

struct LinkVerdict {
  bool admitted = true;
  LinkRates needed;    // with at least these rates it is admitted; 0 while unknown
  std::string reason;  // names the worker, the measured and the required rates; empty if admitted
};

// `period`: the worker's, at its pace; 0: not measured. `admitted`: the verdict before this one (hysteresis).
LinkVerdict JudgeLink(const WorkerId& worker, const PeriodTraffic& traffic, Duration period, const LinkRates& measured,
                      bool admitted);

// The time of the worker's transfers in a period: up and down run in parallel, but the update of a
// fragment follows its contribution. Each transfer counts as at most a day.
Duration TransferTime(const PeriodTraffic& traffic, const LinkRates& rates);

// "850.0 kB/s", "12.5 MB/s"; rounded down.
std::string RateText(uint64_t bytes_per_second);
// "3 kB", rounded up; from a megabyte on "12 MB", rounded down.
std::string BytesText(uint64_t bytes);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ADMISSION_H_
