// SPDX-License-Identifier: Apache-2.0
// atoll data verify: checks every hash, count and id of a corpus.
#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/progress_line.h"
#include "common/format/corpus_verify.h"

namespace atl::cli {
namespace {

// Returns DataLoss, and thus one exit code, for every fault of a corpus, also an unreadable manifest. Several faults
// are printed, one per line.
absl::Status Faulty(const std::string& directory, const std::vector<std::string>& faults, const absl::Status& status,
                    std::ostream& talk) {
  const char* const cure = "; copy the corpus again, or prepare it again with 'atoll data prepare'";
  if (faults.size() == 1) return absl::DataLossError(absl::StrCat(faults.front(), cure));
  if (faults.empty()) return absl::DataLossError(std::string(status.message()));
  for (const std::string& fault : faults) talk << fault << "\n";
  return absl::DataLossError(absl::StrCat(directory, " has ", faults.size(), " faulty files", cure));
}

}  // namespace

absl::Status RunDataVerify(const DataVerifyOptions& options, const Files& files, std::ostream& out,
                           std::ostream& talk) {
  absl::StatusOr<CorpusManifest> manifest = absl::UnknownError("not run");
  std::vector<std::string> faults;
  {
    ProgressLine progress(talk, "verifying", options.talk_is_terminal, options.quiet);
    manifest = VerifyCorpus(
        files, options.directory,
        [&](uint64_t done, uint64_t total) { progress.Update(done, total, HumanBytes(done)); },
        [&](const absl::Status& fault) { faults.emplace_back(fault.message()); });
  }
  if (!manifest.ok()) return Faulty(options.directory, faults, manifest.status(), talk);
  if (options.json) {
    auto json = SummaryJson(options.directory, *manifest);
    json["verified"] = true;
    out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return absl::OkStatus();
  }
  size_t blocks = 0;
  for (const CorpusFile& file : manifest->files) blocks += file.blocks.size();
  out << options.directory << " is complete: " << manifest->files.size() << " shards, " << HumanCount(blocks)
      << " blocks, " << HumanCount(manifest->train.tokens + manifest->held_out.tokens)
      << " tokens match the manifest\n";
  return absl::OkStatus();
}

}  // namespace atl::cli
