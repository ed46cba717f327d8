// SPDX-License-Identifier: Apache-2.0
// Processor time, memory and descriptors of this process, under the names that Prometheus's client libraries use.
#ifndef ATOLL_COMMON_TELEMETRY_PROCESS_METRICS_H_
#define ATOLL_COMMON_TELEMETRY_PROCESS_METRICS_H_

#include <string>

namespace atl {

// In Prometheus's text format, from /proc/self; without those that cannot be read. Thread-safe.
std::string ProcessMetricsText();

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_PROCESS_METRICS_H_
