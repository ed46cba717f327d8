// SPDX-License-Identifier: Apache-2.0
// Which workers the rounds wait for, by what their links carry: one whose measured rates cannot move a period's
// contributions up and updates down within that period is not expected in any round (docs/design.md section 6). It goes
// on training and applying updates, and what it contributes in time is taken; but no round waits for it. Pure integers.
//
// The rates are the best of several recent transfers, so that one slow transfer judges nobody. A verdict does not flap:
// an admitted worker is refused when its transfers take more than 5/4 of a period, a refused one is admitted again when
// they fit into the period.
#ifndef ATOLL_COORDINATOR_CORE_ADMISSION_H_
#define ATOLL_COORDINATOR_CORE_ADMISSION_H_

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace atl {

// What one worker moves in a period: every fragment once up as a contribution and once down as an update. Encoded
// bytes; all 0: not known, and everybody is admitted.
struct PeriodTraffic {
  uint64_t upload_bytes = 0, download_bytes = 0;
  uint64_t largest_upload_bytes = 0, largest_download_bytes = 0;  // of the largest fragment, part of the above
};

// Bytes a second; 0: not measured, which speaks against nobody.
struct LinkRates {
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

struct LinkVerdict {
  bool admitted = true;
  LinkRates needed;    // with rates of at least these it is admitted; 0 while nothing is known
  std::string reason;  // names the worker, the measured and the needed rates; empty when admitted
};

// `period`: H times the worker's step; 0: not measured. `admitted`: the verdict that stands.
LinkVerdict JudgeLink(const WorkerId& worker, const PeriodTraffic& traffic, Duration period, const LinkRates& measured,
                      bool admitted);

// What the worker's transfers of a period take: up and down run beside each other, but the update of a fragment comes
// after its contribution. At most a day for each term.
Duration TransferTime(const PeriodTraffic& traffic, const LinkRates& rates);

// "850 kB/s", "12.5 MB/s"; rounded down.
std::string RateText(uint64_t bytes_per_second);
// "3 kB", rounded up; from a megabyte on "12 MB", rounded down.
std::string BytesText(uint64_t bytes);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ADMISSION_H_
