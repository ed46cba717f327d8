// Whether a job fits beside those that have not ended.
#include <algorithm>
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
  CoordinatorNeeds wanted = NeedsOf(spec, sizes);
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
      wanted.disk_bytes -= std::min(wanted.disk_bytes, taken);
      continue;
    }
    CoordinatorNeeds needs = NeedsOf(record.spec, known.job);
    needs.disk_bytes -= taken;
    others += needs;
  }
  return CheckCapacity(capacity, wanted, others, spec.workers.max);
}

}  // namespace atl
