// SPDX-License-Identifier: Apache-2.0
#include "common/config/quantities.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace atl {
namespace {

struct Unit {
  const char* name;
  double factor;
};

constexpr Unit kTimeUnits[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
                               {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
constexpr Unit kByteUnits[] = {{"", 1},
                               {"B", 1},
                               {"kB", 1e3},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", 1024},
                               {"MiB", 1048576.0},
                               {"GiB", 1073741824.0},
                               {"TiB", 1099511627776.0}};
constexpr Unit kBitUnits[] = {{"bit", 0.125}, {"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9},
                              {"bps", 0.125}, {"kbps", 125}, {"Mbps", 125e3}, {"Gbps", 125e6}, {"Tbps", 125e9}};

// Parses a decimal number without sign or exponent, then a unit. Returns the product, or -1 for any
// other text.
double NumberWithUnit(const std::string& text, std::span<const Unit> units) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits), unit = digits == std::string::npos ? "" : text.substr(digits);
  double value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != number.data() + number.size()) return -1;
  for (const Unit& u : units) {
    if (unit == u.name) return value * u.factor;
  }
  return -1;
}

absl::Status Refuse(const std::string& text, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("is '", text.substr(0, 64), "'; it must be ", expected));
}

constexpr double kTooManyBytes = 9.2e18;

}  // namespace

absl::StatusOr<Duration> ParseDuration(const std::string& text) {
  const double ns = NumberWithUnit(text, kTimeUnits);
  if (ns < 0 || ns >= 9.2e18) return Refuse(text, "a time such as 90s, 250ms or 1.5h");
  return Nanoseconds(static_cast<int64_t>(std::llround(ns)));
}

std::string FormatDuration(Duration d) {
  if (d.ns % 1'000'000'000 == 0) return absl::StrCat(d.ns / 1'000'000'000, "s");
  if (d.ns % 1'000'000 == 0) return absl::StrCat(d.ns / 1'000'000, "ms");
  if (d.ns % 1'000 == 0) return absl::StrCat(d.ns / 1'000, "us");
  return absl::StrCat(d.ns, "ns");
}

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  const double bytes = NumberWithUnit(text, kByteUnits);
  if (bytes < 0 || bytes >= kTooManyBytes) return Refuse(text, "a size such as 4096, 10MB or 512MiB");
  return static_cast<uint64_t>(bytes);
}

absl::StatusOr<uint64_t> ParseRate(const std::string& text) {
  const std::string rate =
      text.size() > 2 && text.substr(text.size() - 2) == "/s" ? text.substr(0, text.size() - 2) : text;
  const bool has_unit = rate.find_first_not_of("0123456789.") != std::string::npos;
  double bytes = NumberWithUnit(rate, kBitUnits);
  if (bytes < 0) bytes = NumberWithUnit(rate, kByteUnits);
  // A bare number is ambiguous: bits or bytes, powers of 1000 or of 1024.
  if (bytes < 0 || bytes >= kTooManyBytes || (!has_unit && bytes > 0)) {
    return Refuse(
        text,
        "a rate with its unit: bits per second (bit, kbit, Mbit, Gbit, or bps to Gbps) or bytes per second (B, kB, "
        "MB, GB, KiB, MiB, GiB), such as 100Mbit or 12.5MB/s");
  }
  return static_cast<uint64_t>(bytes);
}

absl::StatusOr<uint64_t> ParseUnsigned(const std::string& text, uint64_t high) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > high) {
    return Refuse(text, absl::StrCat("a whole number from 0 to ", high).c_str());
  }
  return value;
}

absl::StatusOr<double> ParseReal(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return Refuse(text, "a number");
  return value;
}

absl::StatusOr<bool> ParseBool(const std::string& text) {
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return Refuse(text, "true or false");
}

}  // namespace atl
