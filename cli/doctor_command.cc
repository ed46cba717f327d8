// SPDX-License-Identifier: Apache-2.0
// `atoll doctor`: checks whether this machine can reach the coordinator, measures the link, and
// checks whether a worker would fit.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command_tree.h"
#include "cli/output.h"
#include "common/base/host_memory.h"
#include "common/base/host_port.h"
#include "common/config/options.h"
#include "common/preflight/coordinator_check.h"
#include "common/preflight/job_fit.h"

namespace atl::cli {
namespace {

int Doctor(Session& session, std::string bulk_endpoint, const std::string& version) {
  if (bulk_endpoint.empty()) bulk_endpoint = PortAfter(session.endpoint, 1);
  if (const absl::Status bulk = CompleteEndpoint(bulk_endpoint, kBulkPort); !bulk.ok())
    return FailUsage(session, absl::StrCat("--bulk-endpoint ", bulk.message()));
  const absl::StatusOr<std::string> passphrase = session.passphrases.Of(session.identity);
  if (!passphrase.ok()) return Fail(session, passphrase.status());
  const CoordinatorCheck check{.control_address = session.endpoint,
                               .bulk_address = bulk_endpoint,
                               .identity = session.identity,
                               .passphrase = *passphrase,
                               .version = version};
  const bool lines = session.format == OutputFormat::kTable;
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  const TellFinding tell = [&](const Finding& finding) {
    if (lines) {
      session.out << FindingLine(finding) << std::endl;  // flushed, because the next step may take seconds
    } else {
      findings.push_back(
          {{"verdict", VerdictName(finding.verdict)}, {"check", finding.check}, {"sentence", finding.sentence}});
    }
  };
  const CoordinatorCheckResult result = CheckCoordinator(check, session.clock, tell);
  const absl::StatusOr<uint64_t> available = AvailableHostMemory();
  for (const JobOffer& offer : result.offers)
    tell(available.ok() ? JudgeMemory(offer, *available) : FailedFinding("memory", available.status()));
  if (!lines) PrintJson(session, nlohmann::ordered_json{{"good", result.good}, {"findings", findings}}.dump());
  return result.good ? kExitOk : kExitRefused;
}

}  // namespace

void AddDoctorCommand(CLI::App& root, const std::string& version, Command& command) {
  CLI::App& doctor = *root.add_subcommand(
      "doctor", "check the connection to the coordinator: reachability, TLS, clocks, rates, jobs, memory");
  const auto bulk = std::make_shared<std::string>();
  doctor.add_option("--bulk-endpoint", *bulk, "bulk port of the coordinator; default: the port after --endpoint's")
      ->type_name("HOST[:PORT]");
  doctor.callback(
      [=, &command] { command = Takes(kDocumentForms, [=](Session& s) { return Doctor(s, *bulk, version); }); });
}

}  // namespace atl::cli
