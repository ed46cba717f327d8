// atoll data verify: every hash, count and id of a corpus.
#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/progress_line.h"
#include "common/format/corpus_verify.h"

namespace atl::cli {

absl::Status RunDataVerify(const DataVerifyOptions& options, const Files& files, std::ostream& out,
                           std::ostream& talk) {
  absl::StatusOr<CorpusManifest> manifest = absl::UnknownError("not run");
  {
    ProgressLine progress(talk, "verifying", options.talk_is_terminal, options.quiet);
    manifest = VerifyCorpus(files, options.directory,
                            [&](uint64_t done, uint64_t total) { progress.Update(done, total, HumanBytes(done)); });
  }
  ATOLL_RETURN_IF_ERROR(manifest.status());
  if (options.json) {
    auto json = SummaryJson(options.directory, *manifest);
    json["verified"] = true;
    out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return absl::OkStatus();
  }
  size_t blocks = 0;
  for (const CorpusFile& file : manifest->files) blocks += file.blocks.size();
  out << options.directory << " is whole: " << manifest->files.size() << " shards, " << HumanCount(blocks)
      << " blocks, " << HumanCount(manifest->train.tokens + manifest->held_out.tokens)
      << " tokens match the manifest\n";
  return absl::OkStatus();
}

}  // namespace atl::cli
