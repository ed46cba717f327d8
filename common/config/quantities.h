// SPDX-License-Identifier: Apache-2.0
// Parses numbers with units, as people write them in flags and files. An error (InvalidArgument) is
// a clause with the allowed values, without the option's name.
#ifndef ATOLL_COMMON_CONFIG_QUANTITIES_H_
#define ATOLL_COMMON_CONFIG_QUANTITIES_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

// "90s", "250ms", "1.5h", "2m": a number with ns, us, ms, s, m, h or d. Never negative, below 292 years.
absl::StatusOr<Duration> ParseDuration(const std::string& text);
// The exact form in the largest of s, ms, us and ns that divides it: "90s", "250ms", "0s".
std::string FormatDuration(Duration d);

// Bytes: "512MiB", "10MB", "4096", with B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024).
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);
// Bytes per second: "10Mbit", "1Gbit/s", "1Gbps" (k, M, G, T: powers of 1000, 8 bits to a byte), or a
// form of ParseBytes with its unit, such as "12.5MB/s". A bare number above 0 is refused.
absl::StatusOr<uint64_t> ParseRate(const std::string& text);

// Decimal digits only, at most `high`.
absl::StatusOr<uint64_t> ParseUnsigned(const std::string& text, uint64_t high);
// A finite number.
absl::StatusOr<double> ParseReal(const std::string& text);
// true, false, yes, no, on, off, 1, 0.
absl::StatusOr<bool> ParseBool(const std::string& text);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_QUANTITIES_H_
