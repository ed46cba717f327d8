// SPDX-License-Identifier: Apache-2.0
#include "cli/checkpoint_commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/fragment_fetch.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "common/format/corpus_manifest.h"
#include "common/format/huggingface.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/plan/model_layout.h"
#include "common/plan/tokenizer_file_name.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/resource_names.h"

namespace atl::cli {
namespace {

// Fewer parameter bytes are fetched without a progress line.
constexpr uint64_t kQuietBytes = uint64_t{8} << 20;

// The description of a checkpoint after all checks of ShapeOf, on which the code below relies.
struct Shape {
  JobSpec spec;
  ModelLayout layout;
  std::vector<FragmentOfCheckpoint> fragments;
  uint64_t Bytes() const { return layout.elements * sizeof(float); }
};

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat("the coordinator describes the checkpoint wrongly: ", what,
                                          "; it may have another version than this program"));
}

absl::StatusOr<v1::GetCheckpointResponse> Fetch(Session& session, const std::string& checkpoint) {
  ATOLL_ASSIGN_OR_RETURN(const std::string name, CheckpointResource(checkpoint));
  v1::GetCheckpointRequest request;
  request.set_name(name);
  return session.api.GetCheckpoint(request);
}

// The coordinator's description of the arena must equal the layout computed from the spec.
absl::Status CompareLayout(const v1::GetCheckpointResponse& response, const ModelLayout& layout) {
  const size_t tensors = static_cast<size_t>(response.tensors_size());
  if (tensors != layout.tensors.size())
    return Damaged(absl::StrCat("it has ", tensors, " tensors instead of ", layout.tensors.size()));
  for (size_t i = 0; i < tensors; ++i) {
    const v1::TensorPlace& theirs = response.tensors(static_cast<int>(i));
    const TensorInfo& ours = layout.tensors[i];
    const bool same = theirs.name() == ours.name && theirs.fragment() == ours.fragment &&
                      theirs.offset_elements() == ours.offset - layout.fragments[ours.fragment].offset &&
                      std::equal(theirs.shape().begin(), theirs.shape().end(), ours.shape.begin(), ours.shape.end());
    if (!same) return Damaged(absl::StrCat("tensor ", i, " should be ", ours.name, " in fragment ", ours.fragment));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> ShapeOf(const v1::GetCheckpointResponse& response) {
  const v1::Checkpoint& checkpoint = response.checkpoint();
  ATOLL_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(checkpoint.name()));
  Shape shape;
  std::vector<Violation> violations = JobSpecFromProto(response.spec(), false, shape.spec);
  if (violations.empty()) violations = ValidateJobSpec(shape.spec, true);
  if (!violations.empty()) return Damaged(violations[0].field + " " + violations[0].problem);
  const ModelSpec& model = shape.spec.model;
  if (model.vocab_size == 0 || model.intermediate_size == 0 || model.kv_heads == 0 || model.head_dim == 0) {
    return Damaged("its model has sizes of 0");
  }
  shape.layout = MakeModelLayout(model, shape.spec.sync.pattern, shape.spec.sync.layers_per_fragment);
  ATOLL_RETURN_IF_ERROR(CompareLayout(response, shape.layout));
  const int fragments = static_cast<int>(shape.layout.fragments.size());
  if (checkpoint.versions_size() != fragments || checkpoint.content_hashes_size() != fragments) {
    return Damaged(absl::StrCat("it should have ", fragments, " fragments"));
  }
  for (int f = 0; f < fragments; ++f) {
    FragmentOfCheckpoint fragment;
    fragment.key = {.job = name.job, .step = name.step, .fragment = FragmentIndex{static_cast<uint32_t>(f)}};
    fragment.elements = shape.layout.fragments[static_cast<size_t>(f)].elements;
    fragment.version = checkpoint.versions(f);
    fragment.layout = shape.layout.digest;
    if (!Digest::FromHex(checkpoint.content_hashes(f), fragment.content_hash))
      return Damaged("a content hash has the wrong form");
    shape.fragments.push_back(fragment);
  }
  return shape;
}

// Allows a missing directory, but not an existing one with content.
absl::Status RequireEmptyDirectory(const Files& files, const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " cannot be used as a directory (",
                                                      std::string(names.status().message()), "); name a new one"));
  }
  if (names->empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("the directory ", directory, " is not empty; choose another directory or empty this one"));
}

// Refuses if too little space is free. Asks about an existing directory itself, because it may be a mount point.
absl::Status RequireSpace(const Files& files, const std::string& directory, uint64_t bytes) {
  const std::string there = files.Exists(directory) ? directory : DirectoryOf(directory);
  const absl::StatusOr<Files::Space> space = files.SpaceAt(there);
  if (!space.ok() || space->free_bytes > bytes) return absl::OkStatus();  // a wrong estimate is detected when writing
  return absl::ResourceExhaustedError(absl::StrCat("the export needs ", HumanSize(static_cast<double>(bytes)),
                                                   " below ", directory, "; ",
                                                   HumanSize(static_cast<double>(space->free_bytes)), " are free"));
}

// The directory of a result. The destructor deletes the written files unless Keep was called.
class ResultDirectory {
 public:
  // `path` must be missing or empty.
  ResultDirectory(Files& files, std::string path)
      : files_(files), path_(std::move(path)), was_there_(files_.Exists(path_)) {}
  ~ResultDirectory() {
    if (kept_) return;
    const absl::StatusOr<std::vector<std::string>> names = files_.List(path_);
    if (!names.ok()) return;
    // Best effort: the original error is the one to report.
    for (const std::string& name : *names) files_.Remove(JoinPath(path_, name)).IgnoreError();
    if (!was_there_) files_.Remove(path_).IgnoreError();
  }
  ResultDirectory(const ResultDirectory&) = delete;
  ResultDirectory& operator=(const ResultDirectory&) = delete;
  void Keep() { kept_ = true; }

 private:
  Files& files_;
  const std::string path_;
  const bool was_there_;
  bool kept_ = false;
};

// Name of a fragment's file while it is read. No file of an export has this name.
constexpr char kScratchName[] = ".fragment";

// Reads tensors from fragments, which are fetched one after another into a file in the export's
// directory.
class FragmentReader {
 public:
  FragmentReader(Session& session, const Shape& shape, std::string scratch, std::function<void(uint64_t)> on_bytes)
      : session_(session), shape_(shape), scratch_(std::move(scratch)), on_bytes_(std::move(on_bytes)) {}
  ~FragmentReader() { Drop().IgnoreError(); }  // best effort: a successful export has already called it
  FragmentReader(const FragmentReader&) = delete;
  FragmentReader& operator=(const FragmentReader&) = delete;

  absl::Status Read(size_t tensor, uint64_t begin, std::span<float> out) {
    const TensorInfo& t = shape_.layout.tensors[tensor];
    if (file_ == nullptr || fragment_ != t.fragment) ATOLL_RETURN_IF_ERROR(Open(t.fragment));
    const uint64_t in_fragment = t.offset - shape_.layout.fragments[t.fragment].offset;
    return file_->ReadAt((in_fragment + begin) * sizeof(float), std::as_writable_bytes(out));
  }
  // Removes the scratch file.
  absl::Status Drop() {
    file_.reset();
    return session_.files.Remove(scratch_);
  }

 private:
  absl::Status Open(uint32_t fragment) {
    ATOLL_RETURN_IF_ERROR(Drop());
    const uint64_t before = fetched_;
    ATOLL_RETURN_IF_ERROR(FetchFragment(session_, shape_.fragments[fragment], scratch_, FragmentUse::kScratch,
                                        [&](uint64_t bytes) { on_bytes_(before + bytes); }));
    fetched_ += shape_.fragments[fragment].elements * sizeof(float);
    ATOLL_ASSIGN_OR_RETURN(file_, session_.files.OpenForRead(scratch_));
    fragment_ = fragment;
    return absl::OkStatus();
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
    if (!IsTokenizerFileName(name)) return Damaged("a tokenizer file has the name " + name);
    ATOLL_ASSIGN_OR_RETURN(out[name], FetchBlob(session, data.tokenizer_files[i], limits::kTokenizerFileBytes));
  }
  return out;
}

// Returns the end-of-text token for transformers, from the corpus' manifest.
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
  uint64_t largest = 0;  // bytes of the largest fragment, which needs space in the directory while it is read
  for (const FragmentOfCheckpoint& f : shape.fragments) largest = std::max(largest, f.elements * sizeof(float));
  ATOLL_RETURN_IF_ERROR(
      RequireSpace(session.files, options.directory, shape.layout.elements * NumberBytes(type) + largest));
  ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, TokenizerFiles(session, shape.spec.data));
  HuggingFaceConfig config;
  config.model = shape.spec.model;
  config.max_positions = shape.spec.data.sequence_length;
  config.weights = type;
  ATOLL_ASSIGN_OR_RETURN(config.eos_id, EndOfText(session, shape.spec.data));
  ResultDirectory result(session.files, options.directory);
  ProgressLine progress(session.talk, "exporting", session.terminal.talk, shape.Bytes() < kQuietBytes);
  FragmentReader reader(session, shape, JoinPath(options.directory, kScratchName),
                        [&](uint64_t bytes) { progress.Update(bytes, shape.Bytes()); });
  ATOLL_RETURN_IF_ERROR(WriteHuggingFaceDirectory(
      session.files, options.directory, config, shape.layout.tensors, tokenizer,
      [&](size_t tensor, uint64_t begin, std::span<float> out) { return reader.Read(tensor, begin, out); }));
  ATOLL_RETURN_IF_ERROR(reader.Drop());
  result.Keep();
  return absl::OkStatus();
}

absl::Status Download(Session& session, const std::string& checkpoint, const std::string& directory,
                      std::string& name) {
  ATOLL_ASSIGN_OR_RETURN(const v1::GetCheckpointResponse response, Fetch(session, checkpoint));
  name = response.checkpoint().name();
  ATOLL_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(response));
  ATOLL_RETURN_IF_ERROR(RequireEmptyDirectory(session.files, directory));
  ATOLL_RETURN_IF_ERROR(RequireSpace(session.files, directory, shape.Bytes()));
  ResultDirectory result(session.files, directory);
  ATOLL_RETURN_IF_ERROR(session.files.MakeDirectory(directory));
  ProgressLine progress(session.talk, "downloading", session.terminal.talk, shape.Bytes() < kQuietBytes);
  uint64_t before = 0;
  for (const FragmentOfCheckpoint& fragment : shape.fragments) {
    const std::string path = JoinPath(directory, absl::StrFormat("fragment-%05d.f32", fragment.key.fragment.value));
    ATOLL_RETURN_IF_ERROR(FetchFragment(session, fragment, path, FragmentUse::kKept,
                                        [&](uint64_t bytes) { progress.Update(before + bytes, shape.Bytes()); }));
    before += fragment.elements * sizeof(float);
  }
  // Written last: a directory without it is incomplete.
  ATOLL_RETURN_IF_ERROR(
      WriteFileAtomically(session.files, JoinPath(directory, "checkpoint.json"), AsBytes(ToJson(response, false))));
  result.Keep();
  return absl::OkStatus();
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
  if (!PrintFields(session, {{"checkpoint", name}, {"directory", options.directory}}))
    session.out << options.directory << "\n";
  session.talk << name << " is exported; load it with AutoModelForCausalLM.from_pretrained(\"" << options.directory
               << "\")\n";
  return kExitOk;
}

int DownloadCheckpoint(Session& session, const std::string& checkpoint, const std::string& directory) {
  std::string name;
  if (const absl::Status status = Download(session, checkpoint, directory, name); !status.ok())
    return Fail(session, status);
  if (!PrintFields(session, {{"checkpoint", name}, {"directory", directory}})) session.out << directory << "\n";
  return kExitOk;
}

int DeleteCheckpoint(Session& session, const std::string& checkpoint) {
  const absl::StatusOr<std::string> name = CheckpointResource(checkpoint);
  if (!name.ok()) return Fail(session, name.status());
  v1::DeleteCheckpointRequest request;
  request.set_name(*name);
  const absl::StatusOr<v1::DeleteCheckpointResponse> response = session.api.DeleteCheckpoint(request);
  if (!response.ok()) return Fail(session, response.status());
  if (!PrintFields(session, {{"checkpoint", *name}})) session.out << *name << "\n";
  session.talk << "deleted; its disk space is freed when its files are removed\n";
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

namespace {

// Makes one call for a worker, and prints the worker and `done`.
template <typename Request, typename Response>
int AskOfWorker(Session& session, const std::string& worker,
                absl::StatusOr<Response> (CoordinatorApi::*call)(const Request&), const char* done) {
  const absl::StatusOr<std::string> name = WorkerResource(worker);
  if (!name.ok()) return Fail(session, name.status());
  Request request;
  request.set_name(*name);
  const absl::StatusOr<Response> response = (session.api.*call)(request);
  if (!response.ok()) return Fail(session, response.status());
  if (!PrintMessage(session, response->worker())) session.out << *name << "\n";
  session.talk << done << "\n";
  return kExitOk;
}

}  // namespace

int DrainWorker(Session& session, const std::string& worker) {
  return AskOfWorker(session, worker, &CoordinatorApi::DrainWorker,
                     "asked to leave: it finishes its step, sends its contributions and returns its leases");
}

int CordonWorker(Session& session, const std::string& worker) {
  return AskOfWorker(session, worker, &CoordinatorApi::CordonWorker,
                     "cordoned: it keeps its present job and gets no other until 'atoll worker readmit'");
}

int EvictWorker(Session& session, const std::string& worker) {
  return AskOfWorker(
      session, worker, &CoordinatorApi::EvictWorker,
      "evicted: its uncontributed samples are leased again, and it is refused until 'atoll worker readmit'");
}

int ReadmitWorker(Session& session, const std::string& worker) {
  return AskOfWorker(session, worker, &CoordinatorApi::ReadmitWorker,
                     "readmitted: it may get any job again; if it was refused, it joins by itself");
}

}  // namespace atl::cli
