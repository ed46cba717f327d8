// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/check.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "common/base/advice.h"
#include "common/base/files.h"
#include "common/base/host_memory.h"
#include "common/plan/model_layout.h"
#include "common/preflight/coordinator_check.h"
#include "worker/daemon/exit_codes.h"
#include "worker/daemon/identity_keeper.h"
#include "worker/daemon/island_shares.h"
#include "worker/daemon/preparation.h"
#include "worker/daemon/stream_advice.h"
#include "worker/train/memory.h"

namespace atl {
namespace {

// Prints findings and remembers whether any failed.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}
  void Tell(const Finding& finding) {
    good_ = good_ && finding.verdict != Verdict::kFailed;
    out_ << FindingLine(finding) << std::endl;  // flushed at once: the next step may take seconds
  }
  bool good() const { return good_; }

 private:
  std::ostream& out_;
  bool good_ = true;
};

Finding FoldersFinding(const WorkerOptions& options, Files& files) {
  if (const absl::Status status = CheckFolders(options, files); !status.ok()) return FailedFinding("folders", status);
  if (const absl::Status status = TryCache(options, files); !status.ok())
    return {Verdict::kFailed, "folders", WithAdvice(status.message())};
  const absl::StatusOr<Files::Space> space = files.SpaceAt(options.cache_dir);
  if (!space.ok()) return FailedFinding("folders", space.status());
  const std::string text =
      absl::StrCat("cache ", options.cache_dir, " has ", GiBText(space->free_bytes), " free",
                   options.data_root.empty() ? "; data is streamed" : "; data below " + options.data_root);
  if (space->free_bytes >= options.cache_bytes) return {Verdict::kGood, "folders", text};
  return {Verdict::kWarning, "folders",
          absl::StrCat(text, ", less than --cache-limit of ", GiBText(options.cache_bytes),
                       "; free disk space, lower the limit, or use another --cache-dir")};
}

Finding DeviceFinding(const Device& device, uint64_t available_bytes, const std::string& why_on_cpu) {
  const std::string text = absl::StrCat(device.info().name, ", ", GiBText(device.info().memory_total_bytes),
                                        " of memory, ", GiBText(available_bytes), " for training");
  if (why_on_cpu.empty()) return {Verdict::kGood, "device", text};
  return {Verdict::kWarning, "device", absl::StrCat(text, "; ", why_on_cpu, "; ", kSayTheDevice)};
}

}  // namespace

Finding MemoryFinding(const JobOffer& offer, Device& device, const WorkerOptions& options, uint64_t available_bytes) {
  const ModelLayout layout =
      MakeModelLayout(offer.spec.model, offer.spec.sync.pattern, offer.spec.sync.layers_per_fragment);
  const TensorDevice tensors = ToTensorDevice(device.info());
  // Same estimate as TorchJobFactory::Prepare: each rank of an island has its share of a step and
  // of a machine's memory.
  const uint32_t ranks = options.island.size;
  const JobSpec share = ranks > 1 ? SpecOfShare(offer.spec, ranks) : offer.spec;
  if (!tensors.gpu) available_bytes /= std::max<uint32_t>(1, options.island.ranks_here);
  FormingMemory forming;
  if (tensors.gpu && options.form_on == FormChoice::kGpu) forming = EstimateFormingMemory(offer.spec, layout);
  const uint64_t left = available_bytes - std::min(available_bytes, forming.gpu_bytes);
  const bool records =
      ranks == 1 && tensors.gpu && options.cuda_graph == GraphChoice::kAuto && device.pass_recorder() != nullptr;
  const absl::StatusOr<PassChoice> choice =
      ChoosePasses(share, layout, tensors, left, records ? Passes::kRecorded : Passes::kLaunched);
  if (!choice.ok()) return FailedFinding("memory", Annotate(choice.status(), offer.job.value));
  const uint32_t micro_batch = choice->micro_batch;
  const TrainingMemory memory = EstimateTrainingMemory(share, layout, tensors, micro_batch, choice->passes);
  std::string text =
      absl::StrCat(offer.job.value, " takes ", GiBText(memory.total() + forming.gpu_bytes), " with ", micro_batch,
                   micro_batch == 1 ? " sequence" : " sequences", " a pass", ranks > 1 ? " on each rank" : "");
  if (!tensors.gpu) return {Verdict::kGood, "memory", text};
  const absl::StatusOr<uint64_t> host = AvailableHostMemory();
  const absl::Status fits =
      host.ok() ? CheckHostMemory(memory, *host - std::min(*host, forming.host_bytes)) : host.status();
  if (!fits.ok()) return FailedFinding("memory", Annotate(fits, offer.job.value));
  return {Verdict::kGood, "memory",
          absl::StrCat(text, " on the GPU, and ", GiBText(memory.host_total() + forming.host_bytes), " of ",
                       GiBText(*host), " of the host")};
}

int RunWorkerCheck(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                   const Clock& clock, Log& log, std::ostream& out) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  Report report(out);
  report.Tell(FoldersFinding(options, *files));
  const absl::StatusOr<std::shared_ptr<Device>> device = OpenChosenDevice(plugin, options);
  const absl::StatusOr<uint64_t> available =
      device.ok() ? MemoryForTraining(**device, options.memory_limit_bytes) : absl::StatusOr<uint64_t>(device.status());
  report.Tell(available.ok() ? DeviceFinding(**device, *available, WhyOnCpu(plugin, options))
                             : FailedFinding("device", available.status()));

  if (!options.identity.empty()) {
    const bool held = files->Exists(options.identity);
    if (const absl::Status status = EnsureIdentity(options, clock, log); !status.ok()) {
      report.Tell(FailedFinding("identity", status));
      return kWorkerPrecondition;
    }
    if (!held) {
      report.Tell({Verdict::kGood, "identity",
                   absl::StrCat("the join token was used to write ", options.identity,
                                ": start the worker with that --identity, as a user with permission to read it")});
    }
  }
  const CoordinatorCheckResult coordinator =
      CheckCoordinator({.control_address = options.coordinator,
                        .bulk_address = options.coordinator_bulk,
                        .enroll_address = options.coordinator_enroll,
                        .identity = options.identity,
                        .version = version,
                        .upload_bytes_per_second = options.upload_bytes_per_second,
                        .download_bytes_per_second = options.download_bytes_per_second,
                        .worker = options.name},
                       clock, [&](Finding finding) {
                         const std::string advice = AdviceOnRevoked(options, finding.sentence);
                         if (!advice.empty()) absl::StrAppend(&finding.sentence, ": ", advice);
                         report.Tell(finding);
                       });
  if (available.ok()) {
    for (const JobOffer& offer : coordinator.offers) report.Tell(MemoryFinding(offer, **device, options, *available));
  }
  return report.good() ? kWorkerLeft : kWorkerPrecondition;
}

}  // namespace atl
