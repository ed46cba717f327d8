// SPDX-License-Identifier: Apache-2.0
// Recorded and replayed passes, with a recorder that calls them again: training equals launched
// passes, and a wrong recording is detected before it changes a parameter.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/device/pass_graph.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

enum class Mistake { kNone, kRecord, kSilent, kTwice, kStops };

// Replays by calling the pass; on demand not at all, or twice.
class HostRecorder final : public PassRecorder {
 public:
  explicit HostRecorder(Mistake mistake = Mistake::kNone) : mistake_(mistake) {}
  absl::StatusOr<std::unique_ptr<PassGraph>> Record(const std::function<absl::Status()>& pass) override {
    ++recorded;
    ATOLL_RETURN_IF_ERROR(pass());
    if (mistake_ == Mistake::kRecord) return absl::InternalError("the pass waits for the device");
    return std::unique_ptr<PassGraph>(std::make_unique<Graph>(*this, pass));
  }
  int recorded = 0, played = 0;

 private:
  class Graph final : public PassGraph {
   public:
    Graph(HostRecorder& of, std::function<absl::Status()> pass) : of_(of), pass_(std::move(pass)) {}
    absl::Status Play() override {
      ++of_.played;
      if (of_.mistake_ == Mistake::kSilent) return absl::OkStatus();
      if (of_.mistake_ == Mistake::kStops && of_.played > 6) return absl::InternalError("the launch failed");
      if (of_.mistake_ == Mistake::kTwice) ATOLL_RETURN_IF_ERROR(pass_());
      return pass_();
    }

   private:
    HostRecorder& of_;
    std::function<absl::Status()> pass_;
  };
  const Mistake mistake_;
};

struct Trained {
  absl::Status refused;
  bool plays = false;
  std::vector<float> parameters;
  std::vector<double> losses, norms;
  std::vector<uint64_t> tokens;
};

// Seven steps of five sequences in passes of two, the last of one, each with other tokens.
Trained Train(PassRecorder* recorder, Precision precision = Precision::kFp32) {
  JobSpec job = TinyJob();
  job.model.precision = precision;
  job.batch.sequences_per_step = 5;
  job.batch.micro_batch = 2;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.recorder = recorder;
  options.as_on_gpu = options.bf16_products = true;
  auto trainer = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  InitialParameters(layout, 3, 0, (*trainer)->parameters().host());
  Trained out;
  Rng random(11);
  for (int step = 0; step < 7; ++step) {
    std::vector<int32_t> tokens(size_t{5} * (job.data.sequence_length + 1));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(job.model.vocab_size));
    const auto report = (*trainer)->Step({.tokens = tokens, .sequences = 5}, 1e-2);
    EXPECT_TRUE(report.ok() && report->applied) << report.status();
    if (!report.ok()) break;
    out.losses.push_back(report->loss), out.norms.push_back(report->grad_norm);
    out.tokens.push_back(report->tokens);
  }
  out.refused = (*trainer)->recording_refused();
  out.plays = (*trainer)->plays();
  const auto parameters = (*trainer)->parameters().host();
  out.parameters.assign(parameters.begin(), parameters.end());
  return out;
}

void ExpectSame(const Trained& got, const Trained& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_EQ(got.norms, wanted.norms);
  EXPECT_EQ(got.tokens, wanted.tokens);
  EXPECT_EQ(got.parameters, wanted.parameters);
}

TEST(RecordedPasses, TrainAsLaunchesDo) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    HostRecorder recorder;
    const Trained played = Train(&recorder, precision);
    EXPECT_TRUE(played.refused.ok()) << played.refused;
    EXPECT_TRUE(played.plays);
    EXPECT_EQ(recorder.recorded, 1);
    EXPECT_EQ(recorder.played, 4 * 2) << "two whole passes of the step that proves it, and of the three after";
    ExpectSame(played, Train(nullptr, precision));
  }
}

TEST(RecordedPasses, DifferentResultIsDetected) {
  const Trained wanted = Train(nullptr);
  EXPECT_TRUE(wanted.refused.ok()) << "none was asked for";
  for (const auto& [mistake, says] : {std::pair{Mistake::kSilent, "a recorded pass computes a loss of"},
                                      std::pair{Mistake::kTwice, "a recorded pass computes a loss of"},
                                      std::pair{Mistake::kRecord, "the pass waits for the device"}}) {
    HostRecorder recorder(mistake);
    const Trained trained = Train(&recorder);
    EXPECT_NE(trained.refused.message().find(says), std::string::npos) << trained.refused;
    EXPECT_FALSE(trained.plays);
    EXPECT_EQ(recorder.recorded, 1);
    EXPECT_EQ(recorder.played, mistake == Mistake::kRecord ? 0 : 2) << "and never again";
    ExpectSame(trained, wanted);
  }
}

TEST(RecordedPasses, FailingRecordingIsLaunchedInstead) {
  HostRecorder recorder(Mistake::kStops);
  const Trained trained = Train(&recorder);
  EXPECT_EQ(trained.refused.message(), "the launch failed");
  EXPECT_FALSE(trained.plays);
  ExpectSame(trained, Train(nullptr));
}

TEST(RecordedPasses, APassThatIsNotAutogradsIsNotRecorded) {
  JobSpec job = TinyJob();
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  HostRecorder recorder;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.recorder = &recorder;
  auto trainer = Trainer::Create(job, layout, options, clock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const std::vector<int32_t> tokens(size_t{4} * (job.data.sequence_length + 1), 7);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE((*trainer)->Step({tokens, 4}, 1e-3).ok());
  EXPECT_EQ((*trainer)->recording_refused().message(), "a pass that is not autograd's is not recorded");
  EXPECT_EQ(recorder.recorded, 0);
}

}  // namespace
}  // namespace atl
