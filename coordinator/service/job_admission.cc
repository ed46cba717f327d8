// SPDX-License-Identifier: Apache-2.0
// Decides whether a job fits with the unfinished ones, and submits it to the core.
#include <algorithm>
#include <optional>

#include "common/plan/limits.h"
#include "common/plan/model_layout.h"
#include "common/wire/job_spec_proto.h"
#include "coordinator/service/job_api.h"

namespace atl {
namespace {

// AlreadyExists if `made`, the job of this request id, has another name or spec. Ignores a generated name and updates.
absl::Status CheckIsSameRequest(const v1::SubmitJobRequest& request, const JobSpec& spec, const JobRecord& made) {
  const bool same_name = request.job_id().empty() || request.job_id() == made.job.value;
  const bool same_spec = made.spec_revision > 1 ||
                         (spec.labels == made.spec.labels &&
                          JobSpecToProto(spec).SerializeAsString() == JobSpecToProto(made.spec).SerializeAsString());
  if (request.request_id() != made.request_id || (same_name && same_spec)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "request id ", request.request_id().substr(0, limits::kLabelBytes), " has created jobs/", made.job.value,
      ", of another ", same_name ? "specification" : "name", " than this request; give each request its own id"));
}

}  // namespace

const JobApi::Sizes& JobApi::SizesOf(const JobRecord& record) {
  const auto it = sizes_.find(record.job);
  if (it != sizes_.end()) return it->second;
  const ModelLayout layout =
      MakeModelLayout(record.spec.model, record.spec.sync.pattern, record.spec.sync.layers_per_fragment);
  Sizes sizes{.job = atl::SizesOf(record.spec, layout), .fragment_elements = {}};
  for (const FragmentInfo& fragment : layout.fragments) sizes.fragment_elements.push_back(fragment.elements);
  return sizes_.emplace(record.job, std::move(sizes)).first->second;
}

absl::Status JobApi::CheckFits(const Core& core, const v1::SubmitJobRequest& request, const JobSpec& spec,
                               const JobSizes& sizes, const CoordinatorCapacity& capacity, Instant now) {
  const JobId job{spec.name};
  CoordinatorNeeds others;
  uint64_t taken_already = 0;
  for (const auto& [id, needs] : promised_) {
    if (id != job) others += needs;
  }
  for (const JobId& id : core.Jobs()) {
    const std::optional<JobView> view = core.ViewJob(id, now);
    const JobRecord& record = view->record;
    if (!request.request_id().empty() && record.request_id == request.request_id())
      return CheckIsSameRequest(request, spec, record);  // already submitted
    if (HasEnded(record.state) || promised_.contains(id)) continue;
    const Sizes& known = SizesOf(record);
    const auto complete = static_cast<uint64_t>(std::count_if(view->checkpoints.begin(), view->checkpoints.end(),
                                                              [](const CheckpointRecord& c) { return c.complete; }));
    const uint64_t taken =
        record.parameters_ready ? TakenOnDisk(record.spec, known.job, complete, view->rounds_committed) : 0;
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

absl::Status JobApi::CheckUpdateFits(const Core& core, const JobRecord& record, const JobSpec& spec,
                                     CoordinatorCapacity capacity, Instant now) {
  if (HasEnded(record.state)) return absl::OkStatus();  // the core reports it
  const JobSizes& sizes = SizesOf(record).job;
  const CoordinatorNeeds before = NeedsOf(record.spec, sizes), after = NeedsOf(spec, sizes);
  const bool more_memory = after.memory_bytes > before.memory_bytes, more_disk = after.disk_bytes > before.disk_bytes;
  if (!more_memory && !more_disk) return absl::OkStatus();
  if (!more_memory) capacity.memory_bytes = 0;
  if (!more_disk) capacity.disk_total_bytes = 0;
  return CheckFits(core, {}, spec, sizes, capacity, now);
}

void JobApi::SubmitPlanned(const v1::SubmitJobRequest& request, const JobPlan& plan, const JobSizes& sizes,
                           Answer<v1::SubmitJobResponse> answer) {
  v1::SubmitJobResponse response;
  for (const std::string& note : plan.notes) response.add_notes(note);
  if (request.validate_only()) {
    *response.mutable_job()->mutable_spec() = JobSpecToProto(plan.spec);
    response.mutable_job()->set_name(absl::StrCat("jobs/", plan.spec.name));
    response.mutable_job()->set_parameters(plan.layout.elements);
    response.mutable_job()->set_stop_step(plan.stop_step);
    response.mutable_job()->set_coordinator_memory_bytes(NeedsOf(plan.spec, sizes).memory_bytes);
    response.mutable_job()->set_coordinator_disk_bytes(NeedsOf(plan.spec, sizes).disk_bytes);
    return answer(absl::OkStatus(), std::move(response));
  }
  JobSubmitted event{.request_id = request.request_id(),
                     .spec = plan.spec,
                     .fragments = static_cast<uint32_t>(plan.layout.fragments.size()),
                     .stop_step = plan.stop_step,
                     .dataset_samples = plan.dataset_samples,
                     .held_out_samples = plan.held_out_samples,
                     .wall_nanos = clock_.WallNanos()};
  const JobId asked{plan.spec.name};
  promised_[asked] = NeedsOf(plan.spec, sizes);
  engine_.Ask(std::move(event), [this, request, spec = plan.spec, asked, response = std::move(response),
                                 answer = std::move(answer)](const RequestAnswered& answered) mutable {
    promised_.erase(asked);
    if (!answered.status.ok()) return answer(answered.status, {});
    engine_.Query([this, request, spec, job = answered.job, response, answer](const Core& core, const History&,
                                                                              Instant now) mutable {
      // Another request with the same id may have been submitted in between.
      const std::optional<JobView> view = core.ViewJob(job, now);
      const absl::Status same = view ? CheckIsSameRequest(request, spec, view->record) : absl::OkStatus();
      if (!same.ok()) return answer(same, {});
      *response.mutable_job() = JobMessage(job, now, true);
      answer(absl::OkStatus(), std::move(response));
    });
  });
}

// A broken copy is a violation: workers that stream from it would fail in the middle of the run. A missing
// copy is only a note, because the workers may have their own.
void JobApi::LookAtCopies(IntakeResult& planned) const {
  if (!options_.corpus_copy) return;
  for (size_t i = 0; i < planned.plan.manifests.size(); ++i) {
    const CorpusManifest& manifest = planned.plan.manifests[i];
    const CorpusCopy copy = options_.corpus_copy(manifest, planned.plan.spec.data.corpora[i].manifest);
    if (copy.state == CorpusCopyState::kBroken) {
      planned.violations.push_back(
          {absl::StrCat("data.corpora[", i, "].manifest"),
           absl::StrCat("is of corpus ", manifest.name, ", which is incomplete below the coordinator's data root: ",
                        copy.problem, "; copy the corpus again, or remove the rest if every worker has its own copy")});
    } else if (copy.state == CorpusCopyState::kAbsent) {
      planned.plan.notes.push_back(absl::StrCat("corpus ", manifest.name,
                                                ": the coordinator has none of its shards below its data root; each "
                                                "worker must have them below its own"));
    }
  }
}

}  // namespace atl
