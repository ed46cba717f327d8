#include "cli/checkpoint_commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/fragment_fetch.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "common/format/corpus_manifest.h"
#include "common/format/huggingface.h"
#include "common/plan/limits.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/resource_names.h"

namespace atl::cli {
namespace {

// A checkpoint's shape, checked: everything below may trust it.
struct Shape {
  JobId job;
  uint64_t step = 0;
  JobSpec spec;
  std::vector<TensorInfo> tensors;
  std::vector<uint64_t> fragment_elements;
  uint64_t elements = 0;
};

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat("the coordinator describes the checkpoint wrongly: ", what));
}

absl::Status ReadTensors(const v1::GetCheckpointResponse& response, Shape& shape) {
  for (const uint64_t n : response.fragment_elements()) {
    if (n > limits::kParameters || shape.elements + n > limits::kParameters) return Damaged("too many parameters");
    shape.fragment_elements.push_back(n);
    shape.elements += n;
  }
  std::vector<uint64_t> filled(shape.fragment_elements.size(), 0);
  for (const v1::TensorPlace& place : response.tensors()) {
    if (place.fragment() >= filled.size()) return Damaged("a tensor lies in no fragment");
    TensorInfo t;
    t.name = place.name();
    t.fragment = place.fragment();
    t.offset = place.offset_elements();
    t.elements = 1;
    for (const uint64_t n : place.shape()) {
      if (n == 0 || n > limits::kParameters / t.elements) return Damaged("a tensor has an impossible shape");
      t.elements *= n;
      t.shape.push_back(n);
    }
    if (t.offset != filled[t.fragment]) return Damaged("its tensors leave holes");
    filled[t.fragment] += t.elements;
    shape.tensors.push_back(std::move(t));
  }
  return filled == shape.fragment_elements ? absl::OkStatus() : Damaged("its tensors do not fill the fragments");
}

absl::StatusOr<v1::GetCheckpointResponse> Fetch(Session& session, const std::string& checkpoint) {
  ATOLL_ASSIGN_OR_RETURN(const std::string name, CheckpointResource(checkpoint));
  v1::GetCheckpointRequest request;
  request.set_name(name);
  return session.api.GetCheckpoint(request);
}

absl::StatusOr<Shape> ShapeOf(const v1::GetCheckpointResponse& response) {
  Shape shape;
  ATOLL_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(response.checkpoint().name()));
  shape.job = name.job;
  shape.step = name.step;
  if (const auto violations = JobSpecFromProto(response.spec(), false, shape.spec); !violations.empty()) {
    return Damaged(violations[0].field + " " + violations[0].problem);
  }
  ATOLL_RETURN_IF_ERROR(ReadTensors(response, shape));
  return shape;
}

// NotFound is fine, anything in it is not.
absl::Status RequireEmptyDirectory(const Files& files, const std::string& directory) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  if (names.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("the directory ", directory, " is not empty; name another or empty it first"));
}

absl::Status RequireSpace(const Files& files, const std::string& directory, uint64_t bytes) {
  const absl::StatusOr<Files::Space> space = files.SpaceAt(DirectoryOf(directory));
  if (!space.ok() || space->free_bytes > bytes) return absl::OkStatus();  // a wrong guess is found out when writing
  return absl::ResourceExhaustedError(absl::StrCat("the export needs ", HumanSize(static_cast<double>(bytes)),
                                                   " below ", directory, "; ",
                                                   HumanSize(static_cast<double>(space->free_bytes)), " are free"));
}

// Tensors from fragments that are fetched one after the other into a file beside the export.
class FragmentReader {
 public:
  FragmentReader(Session& session, const Shape& shape, std::string scratch, std::function<void(uint64_t)> on_bytes)
      : session_(session), shape_(shape), scratch_(std::move(scratch)), on_bytes_(std::move(on_bytes)) {}
  ~FragmentReader() { Drop(); }
  FragmentReader(const FragmentReader&) = delete;
  FragmentReader& operator=(const FragmentReader&) = delete;

  absl::Status Read(size_t tensor, uint64_t begin, std::span<float> out) {
    const TensorInfo& t = shape_.tensors[tensor];
    if (file_ == nullptr || fragment_ != t.fragment) ATOLL_RETURN_IF_ERROR(Open(t.fragment));
    return file_->ReadAt((t.offset + begin) * sizeof(float), std::as_writable_bytes(out));
  }

 private:
  absl::Status Open(uint32_t fragment) {
    Drop();
    const uint64_t before = fetched_;
    const CheckpointFragmentKey key{.job = shape_.job, .step = shape_.step, .fragment = FragmentIndex{fragment}};
    const uint64_t elements = shape_.fragment_elements[fragment];
    ATOLL_RETURN_IF_ERROR(
        FetchFragment(session_, key, elements, scratch_, [&](uint64_t bytes) { on_bytes_(before + bytes); }));
    fetched_ += elements * sizeof(float);
    ATOLL_ASSIGN_OR_RETURN(file_, session_.files.OpenForRead(scratch_));
    fragment_ = fragment;
    return absl::OkStatus();
  }
  void Drop() {
    file_.reset();
    session_.files.Remove(scratch_).IgnoreError();  // a leftover is overwritten by the next export
  }

  Session& session_;
  const Shape& shape_;
  const std::string scratch_;
  std::function<void(uint64_t)> on_bytes_;
  std::unique_ptr<File> file_;
  uint32_t fragment_ = 0;
  uint64_t fetched_ = 0;
};

absl::StatusOr<std::map<std::string, std::string>> TokenizerFiles(Session& session, const DataSpec& data) {
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < data.tokenizer_files.size() && i < data.tokenizer_file_names.size(); ++i) {
    const std::string& name = data.tokenizer_file_names[i];
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos)
      return Damaged("a tokenizer file has the name " + name);
    ATOLL_ASSIGN_OR_RETURN(out[name], FetchBlob(session, data.tokenizer_files[i], limits::kTokenizerFileBytes));
  }
  return out;
}

// The end-of-text token that transformers should stop at, from the corpus' manifest.
absl::StatusOr<std::optional<uint32_t>> EndOfText(Session& session, const DataSpec& data) {
  if (data.corpora.empty()) return std::optional<uint32_t>();
  ATOLL_ASSIGN_OR_RETURN(const std::string json, FetchBlob(session, data.corpora[0].manifest, limits::kManifestBytes));
  ATOLL_ASSIGN_OR_RETURN(const CorpusManifest manifest, ParseManifest(json));
  return manifest.tokenizer.eot_id;
}

absl::StatusOr<NumberType> NumberTypeOf(const std::string& name) {
  if (name == "fp32") return NumberType::kF32;
  if (name == "fp16") return NumberType::kF16;
  if (name == "bf16") return NumberType::kBF16;
  return absl::InvalidArgumentError(absl::StrCat("--dtype is '", name, "'; it must be fp32, fp16 or bf16"));
}

absl::Status Export(Session& session, const ExportOptions& options, std::string& name) {
  ATOLL_ASSIGN_OR_RETURN(const NumberType type, NumberTypeOf(options.dtype));
  ATOLL_ASSIGN_OR_RETURN(const v1::GetCheckpointResponse response, Fetch(session, options.checkpoint));
  ATOLL_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(response));
  name = response.checkpoint().name();
  ATOLL_RETURN_IF_ERROR(RequireEmptyDirectory(session.files, options.directory));
  const uint64_t largest =
      *std::max_element(shape.fragment_elements.begin(), shape.fragment_elements.end()) * sizeof(float);
  ATOLL_RETURN_IF_ERROR(RequireSpace(session.files, options.directory, shape.elements * NumberBytes(type) + largest));
  ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, TokenizerFiles(session, shape.spec.data));
  HuggingFaceConfig config;
  config.model = shape.spec.model;
  config.max_positions = shape.spec.data.sequence_length;
  config.weights = type;
  ATOLL_ASSIGN_OR_RETURN(config.eos_id, EndOfText(session, shape.spec.data));
  ProgressLine progress(session.talk, "exporting", session.terminal.talk, false);
  const uint64_t total = shape.elements * sizeof(float);
  FragmentReader reader(session, shape, options.directory + ".fragment",
                        [&](uint64_t bytes) { progress.Update(bytes, total); });
  return WriteHuggingFaceDirectory(
      session.files, options.directory, config, shape.tensors, tokenizer,
      [&](size_t tensor, uint64_t begin, std::span<float> out) { return reader.Read(tensor, begin, out); });
}

absl::Status Download(Session& session, const std::string& checkpoint, const std::string& directory) {
  ATOLL_ASSIGN_OR_RETURN(const v1::GetCheckpointResponse response, Fetch(session, checkpoint));
  ATOLL_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(response));
  ATOLL_RETURN_IF_ERROR(RequireEmptyDirectory(session.files, directory));
  ATOLL_RETURN_IF_ERROR(RequireSpace(session.files, directory, shape.elements * sizeof(float)));
  ATOLL_RETURN_IF_ERROR(session.files.MakeDirectory(directory));
  ProgressLine progress(session.talk, "downloading", session.terminal.talk, false);
  uint64_t before = 0;
  for (uint32_t f = 0; f < shape.fragment_elements.size(); ++f) {
    const CheckpointFragmentKey key{.job = shape.job, .step = shape.step, .fragment = FragmentIndex{f}};
    const std::string path = JoinPath(directory, absl::StrFormat("fragment-%05d.f32", f));
    ATOLL_RETURN_IF_ERROR(FetchFragment(session, key, shape.fragment_elements[f], path, [&](uint64_t bytes) {
      progress.Update(before + bytes, shape.elements * sizeof(float));
    }));
    before += shape.fragment_elements[f] * sizeof(float);
  }
  // Written last: a directory without it is not a whole download.
  return WriteFileAtomically(session.files, JoinPath(directory, "checkpoint.json"), AsBytes(ToJson(response, false)));
}

}  // namespace

int ListCheckpoints(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::ListCheckpointsRequest request;
  request.set_job(*name);
  const absl::StatusOr<v1::ListCheckpointsResponse> response = session.api.ListCheckpoints(request);
  if (!response.ok()) return Fail(session, response.status());
  PrintCheckpoints(session, *response);
  return kExitOk;
}

int ExportCheckpoint(Session& session, const ExportOptions& options) {
  std::string name;
  if (const absl::Status status = Export(session, options, name); !status.ok()) return Fail(session, status);
  session.out << options.directory << "\n";
  session.talk << name << " is exported; load it with AutoModelForCausalLM.from_pretrained(\"" << options.directory
               << "\")\n";
  return kExitOk;
}

int DownloadCheckpoint(Session& session, const std::string& checkpoint, const std::string& directory) {
  if (const absl::Status status = Download(session, checkpoint, directory); !status.ok()) return Fail(session, status);
  session.out << directory << "\n";
  return kExitOk;
}

int ListWorkers(Session& session, const std::string& job, bool all) {
  v1::ListWorkersRequest request;
  if (!job.empty()) {
    const absl::StatusOr<std::string> name = JobResource(job);
    if (!name.ok()) return Fail(session, name.status());
    request.set_job(*name);
  }
  request.set_include_lost(all);
  const absl::StatusOr<v1::ListWorkersResponse> response = session.api.ListWorkers(request);
  if (!response.ok()) return Fail(session, response.status());
  PrintWorkers(session, *response);
  return kExitOk;
}

int DrainWorker(Session& session, const std::string& worker) {
  const absl::StatusOr<std::string> name = WorkerResource(worker);
  if (!name.ok()) return Fail(session, name.status());
  v1::DrainWorkerRequest request;
  request.set_name(*name);
  const absl::StatusOr<v1::DrainWorkerResponse> response = session.api.DrainWorker(request);
  if (!response.ok()) return Fail(session, response.status());
  if (!PrintMessage(session, response->worker())) session.out << *name << "\n";
  session.talk << "asked to leave: it finishes its step, sends what it has and returns its leases\n";
  return kExitOk;
}

}  // namespace atl::cli
