// SPDX-License-Identifier: Apache-2.0
// The options of `atoll-coordinator backup` and `atoll-coordinator restore`.
#include "absl/strings/str_cat.h"
#include "common/config/option_table.h"

namespace atl {
namespace {

constexpr char kBackup[] =
    "Copies the state directory of a coordinator, which may run meanwhile and notices nothing, flushes the copy and\n"
    "verifies it. PATH must not exist. After an interruption the same command goes on where it stopped.";
constexpr char kRestore[] =
    "Makes a state directory from a backup, flushes and verifies it. DIR must not exist. Workers that have seen\n"
    "more than the backup holds start over from it. After an interruption the same command goes on where it\n"
    "stopped.";

}  // namespace

CoordinatorCommandLine ParseBackupCommand(const std::vector<std::string>& arguments, const std::string& version) {
  CoordinatorCommandLine out;
  BackupCommand o{.restore = arguments[0] == "restore", .state_dir = {}, .backup = {}};
  const std::string program = "atoll-coordinator " + arguments[0];
  const std::string other = o.restore ? "from" : "to";
  OptionTable table(program, o.restore ? kRestore : kBackup, "");
  table.Text("state", o.state_dir, "DIR",
             o.restore ? "the state directory to make (required)" : "the coordinator's --state-dir (required)");
  table.Text(
      other, o.backup, "PATH",
      o.restore ? "a directory that 'atoll-coordinator backup' made (required)" : "the directory to make (required)");
  const OptionTable::Outcome outcome = table.Parse({arguments.begin() + 1, arguments.end()}, {}, version);
  out.text = outcome.text;
  out.exit_code = outcome.exit_code;
  if (!outcome.proceed) return out;
  if (o.state_dir.empty() || o.backup.empty()) {
    out.text = absl::StrCat(program, ": --", o.state_dir.empty() ? "state" : other, " is missing; both --state and --",
                            other, " are needed\nRun '", program, " --help' for the options.\n");
    out.exit_code = 2;
    return out;
  }
  out.backup = o;
  return out;
}

}  // namespace atl
