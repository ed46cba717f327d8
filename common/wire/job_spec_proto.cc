// SPDX-License-Identifier: Apache-2.0
#include "common/wire/job_spec_proto.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

// Pairs of (number on the wire, domain value). UNSPECIFIED means the first entry.
template <typename Wire, typename Domain, size_t N>
using EnumTable = std::array<std::pair<Wire, Domain>, N>;

constexpr EnumTable<v1::Precision, Precision, 2> kPrecisions = {
    {{v1::PRECISION_FP32, Precision::kFp32}, {v1::PRECISION_BF16, Precision::kBf16}}};
constexpr EnumTable<v1::DataAssignment, bool, 2> kAssignments = {
    {{v1::DATA_ASSIGNMENT_SHARED, false}, {v1::DATA_ASSIGNMENT_SHARDS, true}}};
constexpr EnumTable<v1::ScheduleKind, ScheduleKind, 4> kSchedules = {
    {{v1::SCHEDULE_KIND_COSINE, ScheduleKind::kCosine},
     {v1::SCHEDULE_KIND_CONSTANT, ScheduleKind::kConstant},
     {v1::SCHEDULE_KIND_LINEAR, ScheduleKind::kLinear},
     {v1::SCHEDULE_KIND_WSD, ScheduleKind::kWsd}}};
constexpr EnumTable<v1::InnerOptimizerKind, InnerOptimizerSpec::Kind, 2> kInnerKinds = {
    {{v1::INNER_OPTIMIZER_KIND_ADAMW, InnerOptimizerSpec::Kind::kAdamW},
     {v1::INNER_OPTIMIZER_KIND_SGD, InnerOptimizerSpec::Kind::kSgd}}};
constexpr EnumTable<v1::OuterOptimizerKind, OuterKind, 3> kOuterKinds = {
    {{v1::OUTER_OPTIMIZER_KIND_NESTEROV, OuterKind::kNesterov},
     {v1::OUTER_OPTIMIZER_KIND_MOMENTUM, OuterKind::kMomentum},
     {v1::OUTER_OPTIMIZER_KIND_SGD, OuterKind::kSgd}}};
static_assert(std::size(kCodecKinds) == v1::CodecKind_MAX);
constexpr auto kCodecs = [] {
  EnumTable<v1::CodecKind, CodecKind, std::size(kCodecKinds)> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = {static_cast<v1::CodecKind>(i + 1), kCodecKinds[i]};
  return table;
}();
constexpr EnumTable<v1::ErrorMemory, ErrorMemory, 3> kUploadMemories = {
    {{v1::ERROR_MEMORY_OFF, ErrorMemory::kOff},
     {v1::ERROR_MEMORY_FEEDBACK, ErrorMemory::kFeedback},
     {v1::ERROR_MEMORY_LOCO, ErrorMemory::kLoco}}};
constexpr EnumTable<v1::ErrorMemory, ErrorMemory, 3> kDownloadMemories = {
    {{v1::ERROR_MEMORY_FEEDBACK, ErrorMemory::kFeedback},
     {v1::ERROR_MEMORY_OFF, ErrorMemory::kOff},
     {v1::ERROR_MEMORY_LOCO, ErrorMemory::kLoco}}};
constexpr EnumTable<v1::FragmentPattern, FragmentPattern, 4> kPatterns = {
    {{v1::FRAGMENT_PATTERN_WHOLE, FragmentPattern::kWhole},
     {v1::FRAGMENT_PATTERN_STRIDED, FragmentPattern::kStrided},
     {v1::FRAGMENT_PATTERN_SEQUENTIAL, FragmentPattern::kSequential},
     {v1::FRAGMENT_PATTERN_BALANCED, FragmentPattern::kBalanced}}};
constexpr EnumTable<v1::WeightRule, WeightRule, 4> kWeights = {
    {{v1::WEIGHT_RULE_TOKENS, WeightRule::kTokens},
     {v1::WEIGHT_RULE_UNIFORM, WeightRule::kUniform},
     {v1::WEIGHT_RULE_TOKENS_SQUARED_OVER_STEPS, WeightRule::kTokensSquaredOverSteps},
     {v1::WEIGHT_RULE_SHARD_SIZE, WeightRule::kShardSize}}};
constexpr EnumTable<v1::MergeRule, MergeRule, 4> kMerges = {{{v1::MERGE_RULE_MEAN, MergeRule::kMean},
                                                             {v1::MERGE_RULE_TRIMMED_MEAN, MergeRule::kTrimmedMean},
                                                             {v1::MERGE_RULE_MEDIAN, MergeRule::kMedian},
                                                             {v1::MERGE_RULE_CENTERED_CLIP, MergeRule::kCenteredClip}}};
constexpr EnumTable<v1::PoolSchedule, PoolSchedule, 5> kPools = {
    {{v1::POOL_SCHEDULE_CONSTANT, PoolSchedule::kConstant},
     {v1::POOL_SCHEDULE_DOUBLING, PoolSchedule::kDoubling},
     {v1::POOL_SCHEDULE_HALVING, PoolSchedule::kHalving},
     {v1::POOL_SCHEDULE_RAMP_UP, PoolSchedule::kRampUp},
     {v1::POOL_SCHEDULE_RAMP_DOWN, PoolSchedule::kRampDown}}};
constexpr EnumTable<v1::Pace, Pace, 2> kPaces = {
    {{v1::PACE_UNIFORM, Pace::kUniform}, {v1::PACE_BALANCED, Pace::kBalanced}}};

constexpr EnumTable<v1::ScreenMode, ScreenMode, 3> kScreenModes = {{{v1::SCREEN_MODE_ENFORCE, ScreenMode::kEnforce},
                                                                    {v1::SCREEN_MODE_REPORT, ScreenMode::kReport},
                                                                    {v1::SCREEN_MODE_CLIP, ScreenMode::kClip}}};

template <typename Wire, typename Domain, size_t N>
Wire ToWire(const EnumTable<Wire, Domain, N>& table, Domain value) {
  for (const auto& [wire, domain] : table) {
    if (domain == value) return wire;
  }
  ATOLL_CHECK(false, "an enum value without a number on the wire");
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const FieldDescriptor& FieldOf(const Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  ATOLL_CHECK(field != nullptr, "a row of kNumbers has no field in job.proto");
  return *field;
}

// The message of a section, such as "inner_optimizer.schedule", in a JobSpec.
const Message& SectionOf(const Message& job, const char* path) {
  const Message* at = &job;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    at = &at->GetReflection()->GetMessage(*at, &FieldOf(*at, std::string(name)));
  }
  return *at;
}
Message& SectionOf(Message& job, const char* path) {
  Message* at = &job;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    at = at->GetReflection()->MutableMessage(at, &FieldOf(*at, std::string(name)));
  }
  return *at;
}

void Get(const Reflection& r, const Message& m, const FieldDescriptor& f, uint32_t& to) { to = r.GetUInt32(m, &f); }
void Get(const Reflection& r, const Message& m, const FieldDescriptor& f, uint64_t& to) { to = r.GetUInt64(m, &f); }
void Get(const Reflection& r, const Message& m, const FieldDescriptor& f, double& to) { to = r.GetDouble(m, &f); }
void Get(const Reflection& r, const Message& m, const FieldDescriptor& f, bool& to) { to = r.GetBool(m, &f); }
void Set(const Reflection& r, Message& m, const FieldDescriptor& f, uint32_t value) { r.SetUInt32(&m, &f, value); }
void Set(const Reflection& r, Message& m, const FieldDescriptor& f, uint64_t value) { r.SetUInt64(&m, &f, value); }
void Set(const Reflection& r, Message& m, const FieldDescriptor& f, double value) { r.SetDouble(&m, &f, value); }
void Set(const Reflection& r, Message& m, const FieldDescriptor& f, bool value) { r.SetBool(&m, &f, value); }

// A missing field leaves the default.
void ReadNumbers(const v1::JobSpec& message, JobSpec& out) {
  ForEachNumber(out, [&message](const char* path, const auto& row, auto& value) {
    const Message& section = SectionOf(static_cast<const Message&>(message), path);
    const FieldDescriptor& field = FieldOf(section, row.name);
    const Reflection& reflection = *section.GetReflection();
    if (!field.has_presence() || reflection.HasField(section, &field)) Get(reflection, section, field, value);
  });
}

void WriteNumbers(const JobSpec& spec, v1::JobSpec& message) {
  ForEachNumber(spec, [&message](const char* path, const auto& row, const auto& value) {
    Message& section = SectionOf(static_cast<Message&>(message), path);
    Set(*section.GetReflection(), section, FieldOf(section, row.name), value);
  });
}

class Reader {
 public:
  explicit Reader(bool before_submit) : before_submit_(before_submit) {}

  void Model(const v1::ModelSpec& m, ModelSpec& out);
  void Init(const v1::InitSpec& m, InitSpec& out);
  void Data(const v1::DataSpec& m, DataSpec& out);
  void Inner(const v1::InnerOptimizerSpec& m, InnerOptimizerSpec& out);
  void Outer(const v1::OuterOptimizerSpec& m, OuterOptimizerSpec& out);
  void Sync(const v1::SyncSpec& m, SyncSpec& out);
  void Experiment(const v1::ExperimentSpec& m, ExperimentSpec& out);
  void Screens(const v1::ScreensSpec& m, ScreensSpec& out);
  void Evaluation(const v1::EvaluationSpec& m, EvaluationSpec& out);
  std::vector<Violation> Take() { return std::move(violations_); }

 private:
  void Refuse(std::string field, std::string problem) { violations_.push_back({std::move(field), std::move(problem)}); }

  // The entries of a list that are converted.
  int Listed(const char* field, int size, size_t most) {
    if (static_cast<size_t>(size) <= most) return size;
    Refuse(field, absl::StrCat("has ", size, " entries; at most ", most, " are allowed"));
    return static_cast<int>(most);
  }

  template <typename Wire, typename Domain, size_t N>
  void Enum(const char* field, const EnumTable<Wire, Domain, N>& table, Wire value, Domain& out) {
    if (value == 0) {
      out = table[0].second;
      return;
    }
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.first == value; });
    if (found == table.end()) {
      Refuse(field, absl::StrCat("has the value ", static_cast<int>(value), ", which this version does not know"));
      return;
    }
    out = found->second;
  }

  void Hash(const std::string& field, const std::string& hex, Sha256& out) {
    if (!Sha256::FromHex(hex, out)) Refuse(field, "must be 64 hexadecimal digits");
  }

  void Time(const char* field, const google::protobuf::Duration& d, Duration& out) {
    constexpr int64_t kLongest = 1'000'000'000;  // seconds; fits 64 bits in nanoseconds
    const bool good = d.seconds() >= 0 && d.seconds() <= kLongest && d.nanos() >= 0 && d.nanos() < 1'000'000'000;
    if (!good) {
      Refuse(field, "is not a duration from 0s to 1000000000s");
      return;
    }
    out = Nanoseconds(d.seconds() * 1'000'000'000 + d.nanos());
  }

  bool before_submit_;
  std::vector<Violation> violations_;
};

void Reader::Model(const v1::ModelSpec& m, ModelSpec& out) {
  Enum("model.precision", kPrecisions, m.precision(), out.precision);
}

void Reader::Init(const v1::InitSpec& m, InitSpec& out) {
  out.seed = m.seed();
  out.checkpoint = m.checkpoint();
  const int files = Listed("model.init.safetensors_sha256", m.safetensors_sha256_size(), limits::kInitialFiles);
  for (int i = 0; i < files; ++i) {
    Sha256 hash;
    Hash(absl::StrCat("model.init.safetensors_sha256[", i, "]"), m.safetensors_sha256(i), hash);
    out.safetensors.push_back(hash);
  }
  if (m.directory().empty()) return;
  if (!before_submit_) {
    Refuse("model.init.directory", "is a path on the submitting machine; upload its files and give safetensors_sha256");
  } else if (!m.checkpoint().empty() || m.safetensors_sha256_size() > 0) {
    Refuse("model.init.directory", "is a second source; give only one of directory, safetensors_sha256 and checkpoint");
  }
}

void Reader::Data(const v1::DataSpec& m, DataSpec& out) {
  const int corpora = Listed("data.corpora", m.corpora_size(), limits::kCorpora);
  for (int i = 0; i < corpora; ++i) {
    const v1::CorpusSpec& c = m.corpora(i);
    const std::string at = absl::StrCat("data.corpora[", i, "]");
    CorpusSpec corpus;
    corpus.name = c.name();
    if (c.has_weight()) corpus.weight = c.weight();
    corpus.samples = c.samples();
    if (!c.manifest_sha256().empty()) Hash(at + ".manifest_sha256", c.manifest_sha256(), corpus.manifest);
    if (!c.manifest().empty() && !before_submit_) {
      Refuse(at + ".manifest", "is a path on the submitting machine; upload the manifest and give manifest_sha256");
    } else if (!c.manifest().empty() && !c.manifest_sha256().empty()) {
      Refuse(at + ".manifest", "is given together with manifest_sha256; give only one of them");
    } else if (before_submit_ && c.manifest().empty() && c.manifest_sha256().empty()) {
      Refuse(at + ".manifest", "is missing; give the path of a manifest.json written by 'atoll data prepare'");
    }
    out.corpora.push_back(std::move(corpus));
  }
  Enum("data.assignment", kAssignments, m.assignment(), out.pin_shards);
  const int files = Listed("data.tokenizer_sha256", m.tokenizer_sha256_size(), limits::kTokenizerFiles);
  for (int i = 0; i < files; ++i) {
    Sha256 hash;
    Hash(absl::StrCat("data.tokenizer_sha256[", i, "]"), m.tokenizer_sha256(i), hash);
    out.tokenizer_files.push_back(hash);
  }
  const int names = Listed("data.tokenizer_file_names", m.tokenizer_file_names_size(), limits::kTokenizerFiles);
  out.tokenizer_file_names.assign(m.tokenizer_file_names().begin(), m.tokenizer_file_names().begin() + names);
}

void Reader::Inner(const v1::InnerOptimizerSpec& m, InnerOptimizerSpec& out) {
  Enum("inner_optimizer.kind", kInnerKinds, m.kind(), out.kind);
  const v1::ScheduleSpec& s = m.schedule();
  Enum("inner_optimizer.schedule.kind", kSchedules, s.kind(), out.schedule.kind);
}

// In the domain, 0 and -1 mean "fixed at submit". On the wire a missing field means that, so these
// values are invalid.
void Reader::Outer(const v1::OuterOptimizerSpec& m, OuterOptimizerSpec& out) {
  Enum("outer_optimizer.kind", kOuterKinds, m.kind(), out.kind);
  if (m.has_learning_rate()) {
    out.learning_rate = m.learning_rate();
    if (!(m.learning_rate() > 0)) {
      Refuse("outer_optimizer.learning_rate",
             absl::StrCat("is ", m.learning_rate(), "; it must be above 0, or absent"));
      out.learning_rate = 0;
    }
  }
  if (m.has_momentum()) {
    out.momentum = m.momentum();
    if (!(m.momentum() >= 0)) {
      Refuse("outer_optimizer.momentum",
             absl::StrCat("is ", m.momentum(), "; it must be at least 0 and below 1, or absent"));
      out.momentum = -1;
    }
  }
}

void Reader::Sync(const v1::SyncSpec& m, SyncSpec& out) {
  Enum("sync.fragments", kPatterns, m.fragments(), out.pattern);
  Enum("sync.upload_codec", kCodecs, m.upload_codec(), out.upload_codec);
  Enum("sync.download_codec", kCodecs, m.download_codec(), out.download_codec);
  Enum("sync.upload_error_memory", kUploadMemories, m.upload_error_memory(), out.upload_error_memory);
  Enum("sync.download_error_memory", kDownloadMemories, m.download_error_memory(), out.download_error_memory);
  Enum("sync.weights", kWeights, m.weights(), out.weights);
  Enum("sync.merge", kMerges, m.merge(), out.merge.rule);
  Enum("sync.pace", kPaces, m.pace(), out.pace);
  if (m.has_deadline()) Time("sync.deadline", m.deadline(), out.deadline);
  // A given 0 means no ramp, which equals a ramp of one step. ResolveDefaults handles only a
  // missing value.
  if (m.has_join_warmup_steps()) out.join_warmup_steps = std::max<uint32_t>(1, m.join_warmup_steps());
}

void Reader::Experiment(const v1::ExperimentSpec& m, ExperimentSpec& out) {
  Enum("experiment.pool", kPools, m.pool(), out.pool);
}

void Reader::Screens(const v1::ScreensSpec& m, ScreensSpec& out) {
  Enum("screens.norm", kScreenModes, m.norm(), out.norm);
}

void Reader::Evaluation(const v1::EvaluationSpec& m, EvaluationSpec& out) {
  const int tasks = Listed("evaluation.tasks", m.tasks_size(), limits::kEvalTasks);
  for (int i = 0; i < tasks; ++i) {
    const v1::EvaluationTaskSpec& t = m.tasks(i);
    const std::string at = absl::StrCat("evaluation.tasks[", i, "]");
    EvaluationTaskSpec& task = out.tasks.emplace_back(EvaluationTaskSpec{t.name(), {}, t.examples()});
    if (!t.file_sha256().empty()) Hash(at + ".file_sha256", t.file_sha256(), task.file);
    if (!t.file().empty() && !before_submit_) {
      Refuse(at + ".file", "is a path on the submitting machine; upload the file and give file_sha256");
    } else if (t.file().empty() == t.file_sha256().empty()) {
      Refuse(at + ".file", t.file().empty()
                               ? "is missing; give the path of a task file, or file_sha256 of an uploaded file"
                               : "is given together with file_sha256; give only one of them");
    }
  }
}

void SetTime(Duration d, google::protobuf::Duration* out) {
  out->set_seconds(d.ns / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(d.ns % 1'000'000'000));
}

void WriteModel(const JobSpec& spec, v1::ModelSpec* m) {
  const ModelSpec& in = spec.model;
  m->set_precision(ToWire(kPrecisions, in.precision));
  m->mutable_init()->set_seed(spec.init.seed);
  m->mutable_init()->set_checkpoint(spec.init.checkpoint);
  for (const Sha256& hash : spec.init.safetensors) m->mutable_init()->add_safetensors_sha256(hash.Hex());
}

void WriteData(const DataSpec& in, v1::DataSpec* m) {
  for (const CorpusSpec& c : in.corpora) {
    v1::CorpusSpec* out = m->add_corpora();
    out->set_name(c.name);
    if (!c.manifest.IsZero()) out->set_manifest_sha256(c.manifest.Hex());
    out->set_weight(c.weight);
    out->set_samples(c.samples);
  }
  m->set_assignment(ToWire(kAssignments, in.pin_shards));
  for (const Sha256& hash : in.tokenizer_files) m->add_tokenizer_sha256(hash.Hex());
  for (const std::string& name : in.tokenizer_file_names) m->add_tokenizer_file_names(name);
}

void WriteInner(const InnerOptimizerSpec& in, v1::InnerOptimizerSpec* m) {
  m->set_kind(ToWire(kInnerKinds, in.kind));
  v1::ScheduleSpec* s = m->mutable_schedule();
  s->set_kind(ToWire(kSchedules, in.schedule.kind));
}

void WriteSync(const SyncSpec& in, v1::SyncSpec* m) {
  m->set_fragments(ToWire(kPatterns, in.pattern));
  m->set_upload_codec(ToWire(kCodecs, in.upload_codec));
  m->set_download_codec(ToWire(kCodecs, in.download_codec));
  m->set_upload_error_memory(ToWire(kUploadMemories, in.upload_error_memory));
  m->set_download_error_memory(ToWire(kDownloadMemories, in.download_error_memory));
  m->set_weights(ToWire(kWeights, in.weights));
  m->set_merge(ToWire(kMerges, in.merge.rule));
  m->set_pace(ToWire(kPaces, in.pace));
  if (in.deadline.ns != 0) SetTime(in.deadline, m->mutable_deadline());
  if (in.join_warmup_steps != 0) m->set_join_warmup_steps(in.join_warmup_steps);
}

void WriteEvaluation(const EvaluationSpec& in, v1::EvaluationSpec* m) {
  for (const EvaluationTaskSpec& task : in.tasks) {
    v1::EvaluationTaskSpec* out = m->add_tasks();
    out->set_name(task.name);
    if (!task.file.IsZero()) out->set_file_sha256(task.file.Hex());
    out->set_examples(task.examples);
  }
}

// The default upper bound is raised to the other given values, so that it contradicts none of them.
uint32_t DefaultMaxWorkers(const JobSpec& spec) {
  if (spec.data.pin_shards) return static_cast<uint32_t>(spec.data.corpora.size());
  const uint32_t asked = std::max({spec.workers.min, spec.workers.planned, spec.sync.quorum});
  return std::max(WorkersSpec{}.max, std::min<uint32_t>(asked, limits::kWorkers));
}

}  // namespace

std::vector<Violation> JobSpecFromProto(const v1::JobSpec& message, bool before_submit, JobSpec& out) {
  ReadNumbers(message, out);
  Reader reader(before_submit);
  reader.Model(message.model(), out.model);
  reader.Init(message.model().init(), out.init);
  reader.Data(message.data(), out.data);
  reader.Inner(message.inner_optimizer(), out.inner);
  reader.Outer(message.outer_optimizer(), out.outer);
  reader.Sync(message.sync(), out.sync);
  const bool weights_given = message.sync().weights() != v1::WEIGHT_RULE_UNSPECIFIED;
  if (out.data.pin_shards && !weights_given) out.sync.weights = WeightRule::kShardSize;
  out.workers.max = message.workers().has_max() ? message.workers().max() : DefaultMaxWorkers(out);
  reader.Evaluation(message.evaluation(), out.evaluation);
  out.priority = message.priority();
  reader.Experiment(message.experiment(), out.experiment);
  reader.Screens(message.screens(), out.screens);
  return reader.Take();
}

v1::JobSpec JobSpecToProto(const JobSpec& spec) {
  v1::JobSpec m;
  WriteNumbers(spec, m);
  WriteModel(spec, m.mutable_model());
  WriteData(spec.data, m.mutable_data());
  WriteInner(spec.inner, m.mutable_inner_optimizer());
  v1::OuterOptimizerSpec* outer = m.mutable_outer_optimizer();
  outer->set_kind(ToWire(kOuterKinds, spec.outer.kind));
  if (spec.outer.learning_rate != 0) outer->set_learning_rate(spec.outer.learning_rate);
  if (spec.outer.momentum >= 0) outer->set_momentum(spec.outer.momentum);
  WriteSync(spec.sync, m.mutable_sync());
  m.mutable_workers()->set_max(spec.workers.max);
  WriteEvaluation(spec.evaluation, m.mutable_evaluation());
  m.set_priority(spec.priority);
  m.mutable_experiment()->set_pool(ToWire(kPools, spec.experiment.pool));
  m.mutable_screens()->set_norm(ToWire(kScreenModes, spec.screens.norm));
  return m;
}

}  // namespace atl
