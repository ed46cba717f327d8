// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"

namespace atl {
namespace {

void Append(std::string& out, const char* name, const char* type, const char* help, double value) {
  absl::StrAppendFormat(&out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

// The fields of /proc/self/stat from the third on (man 5 proc); the second one may have spaces. Empty on failure.
std::vector<double> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream after(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string state;
  after >> state;
  return {std::istream_iterator<double>(after), {}};
}

// Seconds since 1970 at which the machine started; 0: unknown.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string name; file >> name; file.ignore(1 << 20, '\n')) {
    double seconds = 0;
    if (name == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

std::string ProcessMetricsText() {
  std::string out;
  constexpr size_t kUserTicks = 10, kSystemTicks = 11, kStartTicks = 18, kVirtualBytes = 19, kResidentPages = 20;
  const std::vector<double> stat = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (stat.size() > kResidentPages) {
    Append(out, "process_cpu_seconds_total", "counter", "Processor time of this process.",
           (stat[kUserTicks] + stat[kSystemTicks]) / ticks);
    Append(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
           stat[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
    Append(out, "process_virtual_memory_bytes", "gauge", "Virtual memory.", stat[kVirtualBytes]);
    if (const double boot = BootTime(); boot > 0) {
      Append(out, "process_start_time_seconds", "gauge", "Start of this process, in seconds since 1970.",
             boot + stat[kStartTicks] / ticks);
    }
  }
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (!error) {
    Append(out, "process_open_fds", "gauge", "Open descriptors.",
           static_cast<double>(std::distance(begin(descriptors), end(descriptors)) - 1));  // without the iterator's own
  }
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0)
    Append(out, "process_max_fds", "gauge", "Largest number of open descriptors.", static_cast<double>(limit.rlim_cur));
  return out;
}

}  // namespace atl
