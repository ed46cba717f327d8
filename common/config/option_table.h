// SPDX-License-Identifier: Apache-2.0
// A table of options that flags, environment and file fill in one way. Private to common/config.
#ifndef ATOLL_COMMON_CONFIG_OPTION_TABLE_H_
#define ATOLL_COMMON_CONFIG_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"

namespace atl {

class OptionTable {
 public:
  // `program`: "atoll-coordinator"; `prefix`: "ATOLL_COORDINATOR_", or empty for a command that has neither environment
  // nor file.
  OptionTable(std::string program, std::string description, std::string prefix);

  // Each binds --name to a variable that must outlive Parse and holds the default. `help` is one line without a full
  // stop.
  void Text(const std::string& name, std::string& value, const std::string& placeholder, const std::string& help);
  void Number(const std::string& name, uint32_t& value, uint32_t high, const std::string& help);
  void Number64(const std::string& name, uint64_t& value, const std::string& help);
  void Real(const std::string& name, double& value, double low, double high, const std::string& help);
  void Time(const std::string& name, Duration& value, const std::string& help);
  void Size(const std::string& name, uint64_t& value, const std::string& help);
  void Rate(const std::string& name, uint64_t& value, const std::string& help);
  // --name sets `value` to `meaning`.
  void Switch(const std::string& name, bool& value, bool meaning, const std::string& help);
  // One of `choices`; the index is given to `set`.
  void Choice(const std::string& name, const std::vector<std::string>& choices, size_t chosen,
              std::function<void(size_t)> set, const std::string& help);

  // The file is another table's: its options are known there, and set what is bound there. `table` must outlive Parse.
  void TakeFileOf(OptionTable& table) { file_table_ = &table; }

  struct Outcome {
    bool proceed = false;  // false: print `text` and exit with `exit_code`
    std::string text;
    int exit_code = 0;
    std::vector<std::string> resolved;
  };
  // Fills the variables. All faults are reported at once, one line each.
  Outcome Parse(const std::vector<std::string>& arguments, const Environment& environment, const std::string& version);

  std::string Help() const;

 private:
  struct Entry {
    std::string name, placeholder, help, shown, source = "default";
    bool is_switch = false;
    std::function<absl::Status(const std::string&)> set;
  };
  void Add(Entry entry);
  Entry* Find(const std::string& name);
  std::vector<std::string> Names() const;
  void Apply(Entry& entry, const std::string& value, const std::string& source, std::vector<std::string>& faults);
  void ReadFlags(const std::vector<std::string>& arguments, std::map<std::string, std::string>& flags,
                 std::vector<std::string>& faults);
  void ApplyFile(const std::string& path, std::vector<std::string>& faults);
  void ApplyEnvironment(const Environment& environment, std::vector<std::string>& faults);

  std::string program_, description_, prefix_;
  std::vector<Entry> entries_;
  OptionTable* file_table_ = nullptr;
};

// Of `verify` and `replay`, the first of `arguments`.
CoordinatorCommandLine ParseAuditCommand(const std::vector<std::string>& arguments, const std::string& version);
// Of `backup` and `restore`, likewise.
CoordinatorCommandLine ParseBackupCommand(const std::vector<std::string>& arguments, const std::string& version);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_OPTION_TABLE_H_
