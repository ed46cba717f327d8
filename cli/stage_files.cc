// SPDX-License-Identifier: Apache-2.0
#include "cli/stage_files.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/progress_line.h"
#include "cli/stage_tasks.h"
#include "cli/stage_weights.h"
#include "common/base/advice.h"
#include "common/format/corpus_copy.h"
#include "common/format/corpus_manifest.h"
#include "common/format/huggingface.h"
#include "common/format/job_corpora.h"
#include "common/plan/limits.h"
#include "common/rpc/read_at_source.h"
#include "common/text/huggingface_tokenizer.h"
#include "common/text/tokenizer.h"
#include "common/wire/job_spec_proto.h"

namespace atl::cli {
namespace {

constexpr int kUploadAttempts = 5;  // consecutive attempts without progress
constexpr Duration kUploadPause = Seconds(1), kLongestUploadPause = Seconds(32);
constexpr size_t kHashChunkBytes = size_t{1} << 20;
constexpr uint64_t kConfigBytes = uint64_t{1} << 20;

bool EndsWith(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// Makes a valid corpus name from any text.
std::string CorpusName(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fits = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (fits || !name.empty()) name.push_back(fits ? low : '-');
  }
  name.resize(std::min(name.size(), limits::kNameBytes));
  return name.empty() ? "corpus" : name;
}

absl::StatusOr<StagedFile> StageLargeFile(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  Sha256Hasher hasher;
  std::vector<std::byte> chunk(kHashChunkBytes);
  for (uint64_t at = 0; at < size; at += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(kHashChunkBytes, size - at)));
    ATOLL_RETURN_IF_ERROR(file->ReadAt(at, chunk));
    hasher.Update(chunk);
  }
  return StagedFile{
      .sha256 = hasher.Finish(), .what = path, .source = std::make_shared<ReadAtSource<File>>(std::move(file), size)};
}

class Stager {
 public:
  Stager(const Files& files, std::string directory, JobFile& job, std::vector<Fault>& faults,
         std::vector<std::string>& notes)
      : files_(files),
        directory_(std::move(directory)),
        job_(job),
        faults_(faults),
        notes_(notes),
        before_(faults.size()) {}

  Staged Run() {
    for (int i = 0; i < job_.spec.data().corpora_size(); ++i) Corpus(i);
    if (faults_.size() == before_) Tokenizer();
    Tasks();
    if (!job_.spec.model().init().directory().empty()) InitialWeights();
    if (manifests_.size() != static_cast<size_t>(job_.spec.data().corpora_size())) manifests_.clear();
    return {std::move(staged_), std::move(manifests_)};
  }

 private:
  // Adds the fault, unless its key already had a fault before the files were read.
  void Add(Fault fault) {
    const auto end = faults_.begin() + static_cast<std::ptrdiff_t>(before_);
    const bool told = std::any_of(faults_.begin(), end, [&](const Fault& f) { return f.path == fault.path; });
    if (!told) faults_.push_back(std::move(fault));
  }
  void Refuse(const std::string& path, std::string problem) { Add({PlaceOf(job_, path), path, std::move(problem)}); }

  void Corpus(int index);
  void LookAtShards(const std::string& at, const std::string& directory, const CorpusManifest& manifest);
  void Tokenizer();
  absl::StatusOr<std::string> TokenizerBytes() const;
  void Tasks();
  void InitialWeights();
  std::optional<ModelSpec> TakeShapes(const std::string& config_path);

  const Files& files_;
  const std::string directory_;
  JobFile& job_;
  std::vector<Fault>& faults_;
  std::vector<std::string>& notes_;
  const size_t before_;  // number of faults found earlier
  std::vector<StagedFile> staged_;
  std::vector<CorpusManifest> manifests_;     // of the corpora given by a path
  std::optional<CorpusTokenizer> tokenizer_;  // of the first corpus read; all others use the same
  std::string tokenizer_directory_;
  std::unique_ptr<atl::Tokenizer> made_tokenizer_;
};

void Stager::Corpus(int index) {
  v1::CorpusSpec& corpus = *job_.spec.mutable_data()->mutable_corpora(index);
  if (corpus.manifest().empty()) return;  // given by hash
  const std::string at = absl::StrCat("data.corpora[", index, "].manifest");
  std::string path = ResolvePath(directory_, corpus.manifest());
  if (!EndsWith(path, ".json")) path = JoinPath(path, kManifestName);
  const absl::StatusOr<std::string> bytes = ReadWholeFile(files_, path, limits::kManifestBytes);
  if (!bytes.ok()) {
    return Refuse(at,
                  absl::StrCat("cannot be read: ", bytes.status().message(), "; create it with 'atoll data prepare'"));
  }
  const absl::StatusOr<CorpusManifest> manifest = ParseManifest(*bytes);
  if (!manifest.ok()) return Refuse(at, absl::StrCat("is not a corpus manifest: ", manifest.status().message()));
  if (!tokenizer_) {
    tokenizer_ = manifest->tokenizer;
    tokenizer_directory_ = DirectoryOf(path);
  } else if (tokenizer_->kind != manifest->tokenizer.kind || tokenizer_->sha256 != manifest->tokenizer.sha256) {
    return Refuse(at,
                  "was prepared with another tokenizer than the first corpus; prepare all corpora with one tokenizer");
  }
  LookAtShards(at, DirectoryOf(path), *manifest);
  StagedFile staged = StageText("manifest " + path, *bytes);
  if (corpus.name().empty()) corpus.set_name(CorpusName(manifest->name));
  corpus.set_manifest_sha256(staged.sha256.Hex());
  corpus.clear_manifest();
  staged_.push_back(std::move(staged));
  manifests_.push_back(*manifest);
}

// Submitting with only the manifest is allowed; an incomplete copy is a mistake.
void Stager::LookAtShards(const std::string& at, const std::string& directory, const CorpusManifest& manifest) {
  const CorpusCopy copy = CheckCorpusCopy(files_, {directory}, manifest);
  if (copy.state == CorpusCopyState::kBroken) {
    Refuse(at, absl::StrCat("belongs to a corpus that is incomplete in ", directory, ": ", copy.problem,
                            "; copy or prepare it again; to list all problems run: atoll data verify ",
                            ShellWord(directory)));
  } else if (copy.state == CorpusCopyState::kAbsent) {
    notes_.push_back(absl::StrCat("corpus ", manifest.name, ": none of its shards is in ", directory,
                                  "; the coordinator or each worker must have the shards below its --data-root"));
  }
}

absl::StatusOr<std::string> Stager::TokenizerBytes() const {
  if (tokenizer_->file.empty()) return std::string();
  const std::string path = JoinPath(tokenizer_directory_, tokenizer_->file);
  ATOLL_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files_, path, limits::kTokenizerFileBytes));
  if (Sha256Of(AsBytes(bytes)) != tokenizer_->sha256) {
    return absl::DataLossError(absl::StrCat(path, " differs from the file named by the manifest"));
  }
  return bytes;
}

void Stager::Tokenizer() {
  if (!tokenizer_ || job_.spec.data().tokenizer_sha256_size() > 0) return;
  const auto made = [&]() -> absl::StatusOr<std::map<std::string, std::string>> {
    ATOLL_ASSIGN_OR_RETURN(std::string bytes, TokenizerBytes());
    ATOLL_ASSIGN_OR_RETURN(made_tokenizer_, LoadTokenizer(tokenizer_->kind, std::move(bytes)));
    return HuggingFaceTokenizerFiles(*made_tokenizer_);
  }();
  if (!made.ok())
    return Refuse("data.corpora", absl::StrCat("has a tokenizer that cannot be used: ", made.status().message()));
  for (const auto& [name, content] : *made) {
    StagedFile staged = StageText("tokenizer file " + name, content);
    job_.spec.mutable_data()->add_tokenizer_sha256(staged.sha256.Hex());
    job_.spec.mutable_data()->add_tokenizer_file_names(name);
    staged_.push_back(std::move(staged));
  }
}

void Stager::Tasks() {
  // The maximum length of a choice is known only when everything else is valid.
  const atl::Tokenizer* tokenizer = faults_.empty() ? made_tokenizer_.get() : nullptr;
  std::vector<Fault> found;
  StageTasks(files_, directory_, tokenizer, job_, staged_, found);
  for (Fault& fault : found) Add(std::move(fault));
}

void Stager::InitialWeights() {
  const std::string field = "model.init.directory";
  const std::string directory = ResolvePath(directory_, job_.spec.model().init().directory());
  const auto weights = OpenWeights(files_, directory, notes_);
  if (!weights.ok()) return Refuse(field, std::string(weights.status().message()));
  const std::optional<ModelSpec> model = TakeShapes(JoinPath(directory, "config.json"));
  const absl::Status good = model ? CheckWeights(**weights, *model) : absl::OkStatus();
  if (!good.ok()) return Refuse(field, std::string(good.message()));
  if (!faults_.empty()) return;  // nothing will be stored
  for (const std::string& path : (*weights)->paths()) {
    absl::StatusOr<StagedFile> staged = StageLargeFile(files_, path);
    if (!staged.ok()) return Refuse(field, absl::StrCat("cannot be read: ", staged.status().message()));
    job_.spec.mutable_model()->mutable_init()->add_safetensors_sha256(staged->sha256.Hex());
    staged_.push_back(*std::move(staged));
  }
  job_.spec.mutable_model()->mutable_init()->clear_directory();
}

// Sizes come from config.json; those in the job file must be equal.
std::optional<ModelSpec> Stager::TakeShapes(const std::string& config_path) {
  const absl::StatusOr<std::string> json = ReadWholeFile(files_, config_path, kConfigBytes);
  if (!json.ok()) {
    Refuse("model.init.directory", absl::StrCat("has no readable config.json: ", json.status().message()));
    return std::nullopt;
  }
  const absl::StatusOr<HuggingFaceConfig> config = ParseHuggingFaceConfig(*json);
  if (!config.ok()) {
    Refuse("model.init.directory", absl::StrCat("holds ", config_path, ": ", config.status().message()));
    return std::nullopt;
  }
  JobSpec carrier;
  carrier.model = config->model;
  const v1::JobSpec theirs = JobSpecToProto(carrier);
  v1::ModelSpec& ours = *job_.spec.mutable_model();
  for (const char* name : {"vocab_size", "hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim",
                           "rope_theta", "rms_norm_eps", "tie_embeddings", "qk_norm"}) {
    const std::string path = absl::StrCat("model.", name);
    v1::ModelSpec wanted, given;
    const auto* field = v1::ModelSpec::descriptor()->FindFieldByName(name);
    const auto copy = [&](const v1::ModelSpec& from, v1::ModelSpec& to) {
      const auto* r = from.GetReflection();
      switch (field->cpp_type()) {
        case google::protobuf::FieldDescriptor::CPPTYPE_UINT32:
          r->SetUInt32(&to, field, r->GetUInt32(from, field));
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE:
          r->SetDouble(&to, field, r->GetDouble(from, field));
          break;
        default: r->SetBool(&to, field, r->GetBool(from, field)); break;
      }
    };
    copy(theirs.model(), wanted);
    copy(ours, given);
    if (job_.positions.count(path) != 0 && wanted.SerializeAsString() != given.SerializeAsString()) {
      Refuse(path,
             absl::StrCat("does not fit ", config_path, ", which has another value; remove the key to use that value"));
    }
    copy(theirs.model(), ours);
  }
  return config->model;
}

// Retries until kUploadAttempts attempts in a row made no progress; progress of another upload of the same file,
// which has replaced this one or yields to it, also counts. Pauses grow until an attempt lasts longer than a pause,
// so that two uploads do not keep interrupting each other.
absl::Status UploadFile(Session& session, const StagedFile& file, const std::shared_ptr<BulkSource>& source,
                        const std::atomic<uint64_t>& furthest) {
  int left = kUploadAttempts;
  for (Duration pause = kUploadPause;;) {
    ATOLL_RETURN_IF_ERROR(CheckTimeIsLeft(session));
    const Instant began = session.clock.Now();
    const uint64_t before = furthest;
    absl::Status status = session.api.UploadBlob(file.sha256, source);
    if (status.ok()) return status;
    left = furthest > before ? kUploadAttempts : left - 1;
    const bool again = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!again || left == 0) return Annotate(status, "storing " + file.what);
    ATOLL_RETURN_IF_ERROR(PauseBeforeRetry(session, pause));
    pause = session.clock.Now() - began > pause + pause ? kUploadPause : std::min(pause + pause, kLongestUploadPause);
  }
}

// Counts the bytes read for sending.
class CountingSource final : public BulkSource {
 public:
  CountingSource(std::shared_ptr<BulkSource> inner, std::function<void(uint64_t)> on_read)
      : inner_(std::move(inner)), on_read_(std::move(on_read)) {}
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    on_read_(offset + bytes);
    return inner_->Read(offset, bytes);
  }

 private:
  std::shared_ptr<BulkSource> inner_;
  std::function<void(uint64_t)> on_read_;
};

}  // namespace

std::string ResolvePath(const std::string& directory, const std::string& path) {
  return !path.empty() && path[0] == '/' ? path : JoinPath(directory, path);
}

StagedFile StageText(std::string what, std::string bytes) {
  const Sha256 sha256 = Sha256Of(AsBytes(bytes));
  return {.sha256 = sha256, .what = std::move(what), .source = MakeMemorySource(std::move(bytes))};
}

Staged StageFiles(const Files& files, const std::string& directory, JobFile& file, std::vector<Fault>& faults,
                  std::vector<std::string>& notes) {
  return Stager(files, directory, file, faults, notes).Run();
}

std::vector<Fault> CheckCorpora(const JobFile& file, const std::vector<CorpusManifest>& manifests) {
  if (manifests.empty()) return {};
  JobSpec spec;
  std::vector<Violation> violations = JobSpecFromProto(file.spec, /*before_submit=*/true, spec);
  if (violations.empty()) violations = CheckTokenizers(spec, manifests);
  if (violations.empty()) {
    if (auto counts = CountSamples(spec, manifests); counts.ok()) violations = std::move(counts->violations);
  }
  std::vector<Fault> faults;
  for (Violation& v : violations) {
    // This violation means that the shards are too short for the sequence length.
    const std::string about = v.field == "data" ? "data.sequence_length" : v.field;
    faults.push_back({PlaceOf(file, about), v.field, std::move(v.problem)});
  }
  return faults;
}

absl::Status UploadFiles(Session& session, const std::vector<StagedFile>& staged) {
  std::vector<Sha256> names;
  names.reserve(staged.size());
  for (const StagedFile& s : staged) names.push_back(s.sha256);
  if (names.empty()) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Sha256> missing, session.api.MissingBlobs(names));
  std::set<Sha256> wanted(missing.begin(), missing.end());
  uint64_t total = 0, before = 0;
  for (const StagedFile& s : staged) total += wanted.count(s.sha256) != 0 ? s.source->size_bytes() : 0;
  ProgressLine progress(session.talk, "uploading files", session.terminal.talk, total < (uint64_t{8} << 20));
  for (const StagedFile& s : staged) {
    if (wanted.erase(s.sha256) == 0) continue;
    std::atomic<uint64_t> furthest = 0;
    const auto source = std::make_shared<CountingSource>(s.source, [&, before, total](uint64_t done) {
      furthest = std::max<uint64_t>(furthest, done);
      progress.Update(before + done, total);
    });
    ATOLL_RETURN_IF_ERROR(UploadFile(session, s, source, furthest));
    before += s.source->size_bytes();
  }
  return absl::OkStatus();
}

}  // namespace atl::cli
