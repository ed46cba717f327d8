// SPDX-License-Identifier: Apache-2.0
// The options of `atoll-coordinator verify` and `atoll-coordinator replay`.
#include "absl/strings/str_cat.h"
#include "common/config/option_table.h"

namespace atl {

CoordinatorCommandLine ParseAuditCommand(const std::vector<std::string>& arguments, const std::string& version) {
  CoordinatorCommandLine out;
  AuditCommand o{.replay = arguments[0] == "replay", .state_dir = {}, .json = false};
  const std::string program = "atoll-coordinator " + arguments[0];
  OptionTable table(program,
                    o.replay
                        ? "Recomputes every committed round that is still held from its contributions, and compares\n"
                          "every bit with what was published. The coordinator must not run. Changes nothing."
                        : "Checks the ledger, the round log, snapshots, checkpoints and stored files of a state\n"
                          "directory. The coordinator must not run. Changes nothing.",
                    "");
  table.Text("state", o.state_dir, "DIR", "the coordinator's --state-dir (required)");
  table.Choice(
      "output", {"text", "json"}, 0, [&o](size_t i) { o.json = i == 1; }, "form of the report; -o is short for it");
  std::vector<std::string> flags(arguments.begin() + 1, arguments.end());
  for (std::string& flag : flags) {
    if (flag == "-o") flag = "--output";
  }
  const OptionTable::Outcome outcome = table.Parse(flags, {}, version);
  out.text = outcome.text;
  out.exit_code = outcome.exit_code;
  if (!outcome.proceed) return out;
  if (o.state_dir.empty()) {
    out.text = absl::StrCat(program, ": --state is missing; name the directory that keeps jobs and checkpoints\nRun '",
                            program, " --help' for the options.\n");
    out.exit_code = 2;
    return out;
  }
  out.audit = o;
  return out;
}

}  // namespace atl
