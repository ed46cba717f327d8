// SPDX-License-Identifier: Apache-2.0
#include "common/wire/job_spec_proto.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

namespace atl {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;

std::vector<std::string> Fields(const v1::JobSpec& message, bool before_submit) {
  JobSpec spec;
  std::vector<std::string> out;
  for (const Violation& v : JobSpecFromProto(message, before_submit, spec)) out.push_back(v.field);
  return out;
}

TEST(JobSpecProto, AbsentFieldsAreTheDefaultsOfTheDomain) {
  JobSpec spec;
  EXPECT_TRUE(JobSpecFromProto(v1::JobSpec(), false, spec).empty());
  EXPECT_EQ(spec.screens.norm, ScreenMode::kEnforce) << "a job that says nothing is protected";
  EXPECT_TRUE(MessageDifferencer::Equals(JobSpecToProto(spec), JobSpecToProto(JobSpec())));
  EXPECT_EQ(spec.inner.learning_rate, 4e-4);
  EXPECT_EQ(spec.sync.download_error_memory, ErrorMemory::kFeedback);
  EXPECT_EQ(spec.sync.upload_error_memory, ErrorMemory::kOff);
  EXPECT_TRUE(spec.model.tie_embeddings);
}

JobSpec Unusual() {
  JobSpec spec;
  spec.priority = -3;
  spec.model = {.vocab_size = 7,
                .hidden_size = 16,
                .intermediate_size = 5,
                .layers = 2,
                .heads = 2,
                .kv_heads = 1,
                .head_dim = 6};
  spec.model.rope_theta = 5e5;
  spec.model.rms_norm_eps = 1e-6;
  spec.model.tie_embeddings = false;
  spec.model.init_std = 0;
  spec.model.precision = Precision::kBf16;
  spec.init = {.seed = 9, .safetensors = {Sha256Of(AsBytes(std::string("w")))}, .checkpoint = "jobs/a/checkpoints/3"};
  spec.data.corpora = {{.name = "a", .manifest = Sha256Of(AsBytes(std::string("m"))), .weight = 4}, {}};
  spec.data.tokenizer_files = {Sha256Of(AsBytes(std::string("t")))};
  spec.data.tokenizer_file_names = {"tokenizer.json"};
  spec.data.sequence_length = 64;
  spec.data.max_epochs = 1.5;
  spec.data.separate_documents = true;
  spec.data.pin_shards = true;
  spec.batch = {.sequences_per_step = 3, .micro_batch = 2};
  spec.inner.gradient_clip = 0;
  spec.inner.kind = InnerOptimizerSpec::Kind::kSgd;
  spec.inner.schedule = {
      .kind = ScheduleKind::kWsd, .warmup_steps = 1, .decay_steps = 2, .final_ratio = 0, .total_steps = 9};
  spec.outer = {.kind = OuterKind::kMomentum, .learning_rate = 0.5, .momentum = 0};
  spec.sync.pattern = FragmentPattern::kBalanced;
  spec.sync.upload_codec = CodecKind::kE3m0;
  spec.sync.download_codec = CodecKind::kBf16;
  spec.sync.upload_error_memory = ErrorMemory::kLoco;
  spec.sync.download_error_memory = ErrorMemory::kOff;
  spec.sync.weights = WeightRule::kTokensSquaredOverSteps;
  spec.sync.merge = {.rule = MergeRule::kCenteredClip, .trim_share = 0.125, .clip_radius = 2};
  spec.sync.pace = Pace::kBalanced;
  spec.sync.deadline = Seconds(100);
  spec.sync.join_warmup_steps = 8;
  spec.sync.upload_bytes_per_second = 1'250'000;
  spec.sync.download_bytes_per_second = 2'500'000;
  spec.workers = {.min = 2, .max = 3, .planned = 3};
  spec.stop = {.inner_steps = 4, .tokens = 5};
  spec.evaluation = {.every_rounds = 6,
                     .max_tokens = 7,
                     .tasks = {{.name = "passive_1", .file = Sha256Of(AsBytes(std::string("p"))), .examples = 5},
                               {.name = "b", .file = Sha256Of(AsBytes(std::string("b")))}},
                     .tasks_every_rounds = 12};
  spec.checkpoint = {.every_rounds = 8, .keep_last = 9, .keep_every = 10, .keep_contributions = true};
  spec.data.corpora[0].samples = 11;
  spec.screens = {.norm = ScreenMode::kClip, .clip_above = 2.5, .refuse_above = 7, .strikes = 4};
  spec.experiment = {.drop_sync_probability = 0.3, .pool = PoolSchedule::kRampDown};
  return spec;
}

TEST(JobSpecProto, GoesThereAndBack) {
  const v1::JobSpec message = JobSpecToProto(Unusual());
  JobSpec spec;
  EXPECT_TRUE(JobSpecFromProto(message, false, spec).empty());
  EXPECT_TRUE(MessageDifferencer::Equals(JobSpecToProto(spec), message));
  EXPECT_EQ(spec.init.safetensors, Unusual().init.safetensors);
  EXPECT_EQ(spec.data.corpora[1].manifest, Sha256{});
  EXPECT_EQ(spec.sync.upload_bytes_per_second, 1'250'000u);
  EXPECT_EQ(spec.sync.download_bytes_per_second, 2'500'000u);
  EXPECT_EQ(spec.outer.momentum, 0);
  ASSERT_EQ(spec.evaluation.tasks.size(), 2u);
  EXPECT_EQ(spec.evaluation.tasks[0].file, Unusual().evaluation.tasks[0].file);
  EXPECT_EQ(spec.inner.schedule.kind, ScheduleKind::kWsd);
}

TEST(JobSpecProto, ValuesFixedAtSubmitStayAbsent) {
  const v1::JobSpec message = JobSpecToProto(JobSpec());
  EXPECT_FALSE(message.outer_optimizer().has_learning_rate());
  EXPECT_FALSE(message.outer_optimizer().has_momentum());
  EXPECT_FALSE(message.sync().has_deadline());
  EXPECT_FALSE(message.sync().has_join_warmup_steps());
}

TEST(JobSpecProto, TheDefaultBoundOfWorkersContradictsNothingThatWasWritten) {
  v1::JobSpec message;
  const auto most = [&message] {
    JobSpec spec;
    JobSpecFromProto(message, false, spec);
    return spec.workers.max;
  };
  EXPECT_EQ(most(), 64u);
  message.mutable_workers()->set_min(100);
  EXPECT_EQ(most(), 100u);
  message.mutable_sync()->set_quorum(110);
  EXPECT_EQ(most(), 110u);
  message.mutable_workers()->set_planned(200);
  EXPECT_EQ(most(), 200u);
  message.mutable_workers()->set_planned(5000);
  EXPECT_EQ(most(), 1024u);
  message.mutable_data()->set_assignment(v1::DATA_ASSIGNMENT_SHARDS);
  message.mutable_data()->add_corpora();
  message.mutable_data()->add_corpora();
  EXPECT_EQ(most(), 2u);
  message.mutable_workers()->set_max(70);
  EXPECT_EQ(most(), 70u);
}

TEST(JobSpecProto, PinnedCorporaWeighBySizeByDefault) {
  v1::JobSpec message;
  message.mutable_data()->set_assignment(v1::DATA_ASSIGNMENT_SHARDS);
  JobSpec spec;
  JobSpecFromProto(message, false, spec);
  EXPECT_EQ(spec.sync.weights, WeightRule::kShardSize);
  message.mutable_sync()->set_weights(v1::WEIGHT_RULE_UNIFORM);
  JobSpecFromProto(message, false, spec);
  EXPECT_EQ(spec.sync.weights, WeightRule::kUniform);
}

TEST(JobSpecProto, NoJoinWarmUpIsARampOfOneStep) {
  v1::JobSpec message;
  message.mutable_sync()->set_join_warmup_steps(0);
  JobSpec spec;
  JobSpecFromProto(message, false, spec);
  EXPECT_EQ(spec.sync.join_warmup_steps, 1u);
}

TEST(JobSpecProto, RefusesValuesOutsideTheDomain) {
  v1::JobSpec message;
  message.mutable_sync()->set_fragments(static_cast<v1::FragmentPattern>(77));
  message.mutable_sync()->mutable_deadline()->set_seconds(-1);
  message.mutable_model()->mutable_init()->add_safetensors_sha256("abc");
  message.mutable_data()->add_corpora()->set_manifest_sha256(std::string(64, 'g'));
  message.mutable_outer_optimizer()->set_learning_rate(-1);
  message.mutable_outer_optimizer()->set_momentum(-0.5);
  EXPECT_THAT(Fields(message, false), ElementsAre("model.init.safetensors_sha256[0]", "data.corpora[0].manifest_sha256",
                                                  "outer_optimizer.learning_rate", "outer_optimizer.momentum",
                                                  "sync.fragments", "sync.deadline"));
}

TEST(JobSpecProto, PathsAreForTheCommandLineOnly) {
  v1::JobSpec message;
  message.mutable_model()->mutable_init()->set_directory("/weights");
  message.mutable_data()->add_corpora()->set_manifest("corpus/manifest.json");
  EXPECT_THAT(Fields(message, true), ElementsAre());
  message.mutable_evaluation()->add_tasks()->set_file("tasks/a.jsonl");
  EXPECT_THAT(Fields(message, true), ElementsAre());
  EXPECT_THAT(Fields(message, false),
              ElementsAre("model.init.directory", "data.corpora[0].manifest", "evaluation.tasks[0].file"));
  message.mutable_evaluation()->mutable_tasks(0)->set_file_sha256(std::string(64, 'a'));
  EXPECT_THAT(Fields(message, true), ElementsAre("evaluation.tasks[0].file"));
  message.mutable_evaluation()->mutable_tasks(0)->clear_file_sha256();
  message.mutable_evaluation()->mutable_tasks(0)->clear_file();
  EXPECT_THAT(Fields(message, true), ElementsAre("evaluation.tasks[0].file"));
  message.clear_evaluation();
  message.mutable_data()->mutable_corpora(0)->clear_manifest();
  EXPECT_THAT(Fields(message, true), ElementsAre("data.corpora[0].manifest"));
}

}  // namespace
}  // namespace atl
