// SPDX-License-Identifier: Apache-2.0
// Options that can be set by a flag (read by CLI11), an environment variable or a file. Private to
// common/config.
#ifndef ATOLL_COMMON_CONFIG_OPTION_TABLE_H_
#define ATOLL_COMMON_CONFIG_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace atl {

class OptionTable {
 public:
  // `program`: "atoll-coordinator". `prefix`: "ATOLL_COORDINATOR_", or empty for a command without
  // environment variables and without a file.
  OptionTable(const std::string& program, const std::string& description, std::string prefix);
  OptionTable(OptionTable&&) noexcept;
  ~OptionTable();

  // Each call binds --name to a variable that has the default and must outlive Parse. `help` is one
  // line without a full stop. `missing`: the advice if a required text is empty; without it the
  // text is optional.
  void Text(const std::string& name, std::string& value, const std::string& placeholder, const std::string& help,
            const std::string& missing = "");
  void Number(const std::string& name, uint32_t& value, uint32_t high, const std::string& help);
  void Number64(const std::string& name, uint64_t& value, const std::string& help);
  void Real(const std::string& name, double& value, double low, double high, const std::string& help);
  void Time(const std::string& name, Duration& value, const std::string& help);
  void Size(const std::string& name, uint64_t& value, const std::string& help);
  void Rate(const std::string& name, uint64_t& value, const std::string& help);
  // --name sets `value` to `meaning`.
  void Switch(const std::string& name, bool& value, bool meaning, const std::string& help);
  // One of `choices`, which are the values of `Choice` from 0 on.
  template <typename Choice>
  void OneOf(const std::string& name, const std::vector<std::string>& choices, Choice& value, const std::string& help) {
    AddChoice(
        name, choices, static_cast<size_t>(value), [&value](size_t i) { value = static_cast<Choice>(i); }, help);
  }

  // Parse then applies the file of --config to the options of `table`, in the variables bound there, and not to those
  // of this table. `table` must outlive Parse.
  void TakeFileOf(OptionTable& table) { file_table_ = &table; }

  // Sets the variables. False if `out` has a text to print instead. Reports all problems at once,
  // one line each; `check` runs only if all values could be read.
  bool Parse(const std::vector<std::string>& arguments, const Environment& environment, const std::string& version,
             CommandLine& out, const std::function<std::vector<std::string>()>& check = nullptr);

 private:
  using Set = std::function<absl::Status(const std::string&)>;
  struct Entry {
    std::string name, shown;
    CLI::Option* option;
    Set set;
    std::string source = "default";
  };
  void Add(const std::string& name, const std::string& placeholder, const std::string& shown, const std::string& help,
           Set set);
  template <typename Value, typename Read>
  void AddValue(const std::string& name, Value& value, const std::string& placeholder, const std::string& shown,
                const std::string& help, Read read);
  void AddChoice(const std::string& name, const std::vector<std::string>& choices, size_t chosen,
                 std::function<void(size_t)> set, const std::string& help);
  Entry* Find(const std::string& name);
  std::vector<std::string> Names() const;
  void Apply(Entry& entry, const std::string& value, const std::string& source);
  void ReadFlags(const std::vector<std::string>& arguments);
  void ApplyFile(const std::string& path);
  void ApplyEnvironment(const Environment& environment);

  std::unique_ptr<CLI::App> flags_;
  CLI::Option* config_ = nullptr;
  std::string prefix_;
  std::vector<Entry> entries_;
  std::vector<std::pair<const std::string*, std::string>> required_;  // the value, and the error message if it is empty
  std::vector<std::string> faults_;
  OptionTable* file_table_ = nullptr;
};

// Appends a line of `program` for each error and a hint at --help to `out.text`, and sets the exit code of wrong use.
void Refuse(const std::string& program, const std::vector<std::string>& faults, CommandLine& out);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_OPTION_TABLE_H_
