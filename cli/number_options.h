// SPDX-License-Identifier: Apache-2.0
// Options with a number. CLI11's own conversion accepts a sign, octal digits and even an empty
// value. These options accept what ParseUnsigned and ParseReal accept, and errors name the option,
// its value and the range. Private to the command line.
#ifndef ATOLL_CLI_NUMBER_OPTIONS_H_
#define ATOLL_CLI_NUMBER_OPTIONS_H_

#include <cstdint>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace atl::cli {

// Adds a whole number from `low` to `high`, stored in `value`, which must outlive the parse.
CLI::Option* AddWhole(CLI::App& app, const std::string& name, uint32_t& value, const std::string& help,
                      uint32_t low = 0, uint32_t high = UINT32_MAX);
CLI::Option* AddWhole(CLI::App& app, const std::string& name, uint64_t& value, const std::string& help,
                      uint64_t low = 0, uint64_t high = UINT64_MAX);
// Adds a share: at least 0 and below 1.
CLI::Option* AddShare(CLI::App& app, const std::string& name, double& value, const std::string& help);

}  // namespace atl::cli

#endif  // ATOLL_CLI_NUMBER_OPTIONS_H_
