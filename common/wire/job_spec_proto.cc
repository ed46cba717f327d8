// SPDX-License-Identifier: Apache-2.0
#include "common/wire/job_spec_proto.h"

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/wire/field_copier.h"

namespace atl {

// Fails to compile if one side has more values. spec_enums_test compares each of the values.
static_assert(IsLast(v1::Precision_MAX, Precision::kBf16) && IsLast(v1::DataAssignment_MAX, true));
static_assert(IsLast(v1::ScheduleKind_MAX, ScheduleKind::kWsd));
static_assert(IsLast(v1::InnerOptimizerKind_MAX, InnerOptimizerSpec::Kind::kSgd));
static_assert(IsLast(v1::OuterOptimizerKind_MAX, OuterKind::kSgd));
static_assert(IsLast(v1::CodecKind_MAX, kCodecKinds[std::size(kCodecKinds) - 1]));
static_assert(IsLast(v1::ErrorMemory_MAX, ErrorMemory::kLoco));
static_assert(IsLast(v1::FragmentPattern_MAX, FragmentPattern::kBalanced));
static_assert(IsLast(v1::WeightRule_MAX, WeightRule::kShardSize));
static_assert(IsLast(v1::MergeRule_MAX, MergeRule::kCenteredClip) && IsLast(v1::Pace_MAX, Pace::kBalanced));
static_assert(IsLast(v1::PoolSchedule_MAX, PoolSchedule::kRampDown));
static_assert(IsLast(v1::ScreenMode_MAX, ScreenMode::kEnforce));

// Copies all NumberFields of a section without checking bounds, which ValidateJobSpec does.
template <class Section>
static void Numbers(FieldCopier& copy, Section& s) {
  std::apply([&](const auto&... row) { (copy.Any(row.name, s.*row.member), ...); }, kNumbers<Section>);
}

// A section that consists of NumberFields only.
template <class Section>
requires(!std::is_null_pointer_v<decltype(kNumbers<Section>)>) static void Fields(FieldCopier& copy, Section& s) {
  Numbers(copy, s);
}

static void Fields(FieldCopier& copy, ModelSpec& s) {
  Numbers(copy, s);
  copy.Enum("precision", s.precision);
}

static void Fields(FieldCopier& copy, InitSpec& s) {
  copy.Any("seed", s.seed).Any("checkpoint", s.checkpoint);
  copy("safetensors_sha256", s.safetensors, limits::kInitialFiles, /*indexed=*/true);
  const auto* in = copy.In<v1::InitSpec>();
  if (in == nullptr || in->directory().empty()) return;
  if (!copy.before_submit()) {
    copy.Refuse("directory", "is a path on the submitting machine; upload its files and give safetensors_sha256");
  } else if (!in->checkpoint().empty() || in->safetensors_sha256_size() > 0) {
    copy.Refuse("directory", "is a second source; give only one of directory, safetensors_sha256 and checkpoint");
  }
}

static void Fields(FieldCopier& copy, CorpusSpec& s) {
  copy.Any("name", s.name)("weight", s.weight).Any("samples", s.samples);
  copy.Optional("manifest_sha256", s.manifest, !s.manifest.IsZero());
  const auto* in = copy.In<v1::CorpusSpec>();
  if (in == nullptr) return;
  if (!in->manifest().empty() && !copy.before_submit()) {
    copy.Refuse("manifest", "is a path on the submitting machine; upload the manifest and give manifest_sha256");
  } else if (!in->manifest().empty() && !in->manifest_sha256().empty()) {
    copy.Refuse("manifest", "is given together with manifest_sha256; give only one of them");
  } else if (copy.before_submit() && in->manifest().empty() && in->manifest_sha256().empty()) {
    copy.Refuse("manifest", "is missing; give the path of a manifest.json written by 'atoll data prepare'");
  }
}

static void Fields(FieldCopier& copy, DataSpec& s) {
  Numbers(copy, s);
  copy("corpora", s.corpora, limits::kCorpora, /*indexed=*/true).Enum("assignment", s.pin_shards);
  copy("tokenizer_sha256", s.tokenizer_files, limits::kTokenizerFiles, /*indexed=*/true);
  copy.Any("tokenizer_file_names", s.tokenizer_file_names, limits::kTokenizerFiles);
}

static void Fields(FieldCopier& copy, ScheduleSpec& s) {
  Numbers(copy, s);
  copy.Enum("kind", s.kind);
}

static void Fields(FieldCopier& copy, InnerOptimizerSpec& s) {
  Numbers(copy, s);
  copy.Enum("kind", s.kind)("schedule", s.schedule);
}

// In the domain, a learning rate of 0 and a momentum of -1 mean "fixed at submit". On the wire a
// missing field means that, so these two values are invalid there.
static void Fields(FieldCopier& copy, OuterOptimizerSpec& s) {
  copy.Enum("kind", s.kind);
  if (copy.Optional("learning_rate", s.learning_rate, s.learning_rate != 0) && !(s.learning_rate > 0)) {
    copy.Refuse("learning_rate", absl::StrCat("is ", s.learning_rate, "; it must be above 0, or absent"));
    s.learning_rate = 0;
  }
  if (copy.Optional("momentum", s.momentum, s.momentum >= 0) && !(s.momentum >= 0)) {
    copy.Refuse("momentum", absl::StrCat("is ", s.momentum, "; it must be at least 0 and below 1, or absent"));
    s.momentum = -1;
  }
}

static void Fields(FieldCopier& copy, Duration& d) {
  constexpr int64_t kSecond = 1'000'000'000, kLongest = 1'000'000'000;  // seconds; fits 64 bits in nanoseconds
  int64_t seconds = d.ns / kSecond;
  int32_t nanos = static_cast<int32_t>(d.ns % kSecond);
  copy.Any("seconds", seconds).Any("nanos", nanos);
  const bool good = seconds >= 0 && seconds <= kLongest && nanos >= 0 && nanos < kSecond;
  copy.Check("", good, "is not a duration from 0s to 1000000000s");
  if (good) d = Nanoseconds(seconds * kSecond + nanos);
}

static void Fields(FieldCopier& copy, SyncSpec& s) {
  Numbers(copy, s);
  Numbers(copy, s.merge);
  copy("loco", s.loco).Enum("fragments", s.pattern);
  copy.Enum("upload_codec", s.upload_codec).Enum("download_codec", s.download_codec);
  copy.Enum("upload_error_memory", s.upload_error_memory).Enum("download_error_memory", s.download_error_memory);
  copy.Enum("weights", s.weights).Enum("merge", s.merge.rule).Enum("pace", s.pace);
  copy.Optional("deadline", s.deadline, s.deadline.ns != 0);
  // A given 0 means no ramp, which equals a ramp of one step. It becomes 1, because ResolveDefaults
  // takes 0 for a missing value.
  if (copy.Optional("join_warmup_steps", s.join_warmup_steps, s.join_warmup_steps != 0))
    s.join_warmup_steps = std::max<uint32_t>(1, s.join_warmup_steps);
}

static void Fields(FieldCopier& copy, WorkersSpec& s) {
  Numbers(copy, s);
  copy("max", s.max);
}

static void Fields(FieldCopier& copy, EvaluationTaskSpec& s) {
  copy.Any("name", s.name)("examples", s.examples).Optional("file_sha256", s.file, !s.file.IsZero());
  const auto* in = copy.In<v1::EvaluationTaskSpec>();
  if (in == nullptr) return;
  if (!in->file().empty() && !copy.before_submit()) {
    copy.Refuse("file", "is a path on the submitting machine; upload the file and give file_sha256");
  } else if (in->file().empty() && in->file_sha256().empty()) {
    copy.Refuse("file", "is missing; give the path of a task file, or file_sha256 of an uploaded file");
  } else if (!in->file().empty() && !in->file_sha256().empty()) {
    copy.Refuse("file", "is given together with file_sha256; give only one of them");
  }
}

static void Fields(FieldCopier& copy, EvaluationSpec& s) {
  Numbers(copy, s);
  copy("tasks", s.tasks, limits::kEvalTasks, /*indexed=*/true);
}

static void Fields(FieldCopier& copy, ExperimentSpec& s) {
  Numbers(copy, s);
  copy.Enum("pool", s.pool);
}

static void Fields(FieldCopier& copy, ScreensSpec& s) {
  Numbers(copy, s);
  copy.Enum("norm", s.norm);
}

// Without name and labels.
static void Fields(FieldCopier& copy, JobSpec& s) {
  copy.Sub("model", [&s](FieldCopier& model) {
    Fields(model, s.model);
    model("init", s.init);
  });
  copy("data", s.data)("batch", s.batch)("inner_optimizer", s.inner)("outer_optimizer", s.outer)("sync", s.sync);
  copy("workers", s.workers)("stop", s.stop)("evaluation", s.evaluation)("checkpoint", s.checkpoint);
  copy.Any("priority", s.priority)("experiment", s.experiment)("screens", s.screens);
}

// The default of workers.max: one for each corpus if shards are pinned; else at least min, planned and the quorum.
static uint32_t DefaultMaxWorkers(const JobSpec& spec) {
  if (spec.data.pin_shards) return static_cast<uint32_t>(spec.data.corpora.size());
  const uint32_t asked = std::max({spec.workers.min, spec.workers.planned, spec.sync.quorum});
  return std::max(WorkersSpec{}.max, std::min<uint32_t>(asked, limits::kWorkers));
}

std::vector<Violation> JobSpecFromProto(const v1::JobSpec& message, bool before_submit, JobSpec& out) {
  std::vector<Violation> violations;
  FieldCopier copy(message, violations, before_submit);
  Fields(copy, out);
  const bool weights_given = message.sync().weights() != v1::WEIGHT_RULE_UNSPECIFIED;
  if (out.data.pin_shards && !weights_given) out.sync.weights = WeightRule::kShardSize;
  if (!message.workers().has_max()) out.workers.max = DefaultMaxWorkers(out);
  return violations;
}

v1::JobSpec JobSpecToProto(const JobSpec& spec) { return ToProto<v1::JobSpec>(spec); }

}  // namespace atl
