// Whether a job fits beside those that have not ended.
#include <optional>

#include "common/plan/model_layout.h"
#include "coordinator/service/job_api.h"

namespace atl {

const JobApi::Sizes& JobApi::SizesOf(const JobRecord& record) {
  const auto it = sizes_.find(record.job);
  if (it != sizes_.end()) return it->second;
  const ModelLayout layout =
      MakeModelLayout(record.spec.model, record.spec.sync.pattern, record.spec.sync.layers_per_fragment);
  Sizes sizes{.job = atl::SizesOf(record.spec, layout), .fragment_elements = {}};
  for (const FragmentInfo& fragment : layout.fragments) sizes.fragment_elements.push_back(fragment.elements);
  return sizes_.emplace(record.job, std::move(sizes)).first->second;
}

absl::Status JobApi::CheckFits(const Core& core, const JobId& job, const std::string& request_id, const JobSpec& spec,
                               const JobSizes& sizes, const CoordinatorCapacity& capacity, Instant now) {
  CoordinatorNeeds others;
  uint64_t taken_already = 0;
  for (const auto& [id, needs] : promised_) {
    if (id != job) others += needs;
  }
  for (const JobId& id : core.Jobs()) {
    const std::optional<JobView> view = core.ViewJob(id, now);
    const JobRecord& record = view->record;
    if (!request_id.empty() && record.request_id == request_id) return absl::OkStatus();  // it is here already
    if (HasEnded(record.state) || promised_.contains(id)) continue;
    const Sizes& known = SizesOf(record);
    const uint64_t taken = record.parameters_ready
                               ? TakenOnDisk(record.spec, known.job, view->checkpoints.size(), view->rounds_committed)
                               : 0;
    if (id == job) {
      taken_already = taken;
      continue;
    }
    CoordinatorNeeds needs = NeedsOf(record.spec, known.job);
    needs.disk_bytes -= taken;
    others += needs;
  }
  return CheckJobFits(capacity, spec, sizes, taken_already, others);
}

// A broken copy would fail the workers that stream from it, in mid-run; without any they may have copies of their own.
void JobApi::LookAtCopies(IntakeResult& planned) const {
  if (!options_.corpus_copy) return;
  for (size_t i = 0; i < planned.plan.manifests.size(); ++i) {
    const CorpusManifest& manifest = planned.plan.manifests[i];
    const CorpusCopy copy = options_.corpus_copy(manifest);
    if (copy.state == CorpusCopyState::kBroken) {
      planned.violations.push_back(
          {absl::StrCat("data.corpora[", i, "].manifest"),
           absl::StrCat("is of corpus ", manifest.name,
                        ", which is not whole below the coordinator's data root: ", copy.problem,
                        "; copy it there anew, or take the rest of it away if every worker has its own")});
    } else if (copy.state == CorpusCopyState::kAbsent) {
      planned.plan.notes.push_back(absl::StrCat("corpus ", manifest.name,
                                                ": the coordinator has none of its shards below its data root; each "
                                                "worker must have them below its own"));
    }
  }
}

}  // namespace atl
