// SPDX-License-Identifier: Apache-2.0
#include "cli/number_options.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>

#include "common/config/quantities.h"

namespace atl::cli {
namespace {

// `parse` returns the number for a text, or nullopt when the text breaks the rule. CLI11 writes the
// option's name before a check's message.
template <typename Number, typename Parse>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, Number& value, const std::string& help,
                       const std::string& rule, const Parse& parse) {
  const CLI::callback_t keep = [&value, parse](const CLI::results_t& words) {
    const std::optional<Number> number = parse(words.back());
    if (number.has_value()) value = *number;
    return number.has_value();
  };
  const std::function<std::string(const std::string&)> check = [parse, rule](const std::string& text) {
    if (parse(text).has_value()) return std::string();
    return absl::StrCat("is '", text.substr(0, 64), "'; it must be ", rule);
  };
  return app.add_option(name, keep, help, false, [&value] { return absl::StrCat(value); })->check(check);
}

template <typename Number>
CLI::Option* AddWholeOf(CLI::App& app, const std::string& name, Number& value, const std::string& help, Number low,
                        Number high) {
  const auto parse = [low, high](const std::string& text) -> std::optional<Number> {
    const absl::StatusOr<uint64_t> number = ParseUnsigned(text, high);
    if (!number.ok() || *number < low) return std::nullopt;
    return static_cast<Number>(*number);
  };
  return AddNumber(app, name, value, help, absl::StrCat("a whole number from ", low, " to ", high), parse);
}

}  // namespace

CLI::Option* AddWhole(CLI::App& app, const std::string& name, uint32_t& value, const std::string& help, uint32_t low,
                      uint32_t high) {
  return AddWholeOf(app, name, value, help, low, high);
}

CLI::Option* AddWhole(CLI::App& app, const std::string& name, uint64_t& value, const std::string& help, uint64_t low,
                      uint64_t high) {
  return AddWholeOf(app, name, value, help, low, high);
}

CLI::Option* AddShare(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  const auto parse = [](const std::string& text) -> std::optional<double> {
    const absl::StatusOr<double> number = ParseReal(text);
    if (!number.ok() || text.front() == '-' || *number >= 1) return std::nullopt;  // also refuses -0
    return *number;
  };
  return AddNumber(app, name, value, help, "at least 0 and below 1", parse);
}

}  // namespace atl::cli
