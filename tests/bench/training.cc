// SPDX-License-Identifier: Apache-2.0
// bench_training: inner steps of the worker's trainer, for scripts/bench training, which runs the
// same steps in PyTorch.
//
//   bench_training write DIRECTORY
//       model/ (Hugging Face, initial parameters), tokens.i32, bench.json (the recipe)
//   bench_training train PRECISION THREADS
//       takes steps on request: one count per line on stdin, one line of JSON for each
//   bench_training try
//       two steps of a small model in each precision, as a smoke test
//
// --model 6m (the default), 124m or 1b selects the model. --device gpu selects the plugin's first
// device; without one the program prints the reason and exits with status 77. --cuda-graph auto
// records passes and replays them; --pass-kernels auto uses the device's own kernels between
// products; both are the worker's options. Batches come from a learnable token chain, so that loss
// curves fall and can be compared.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/format/huggingface.h"
#include "tests/bench/bench.h"
#include "tests/bench/plugin.h"
#include "worker/train/cpu_step_kernels.h"
#include "worker/train/trainer.h"

namespace atl::bench {
namespace {

constexpr uint64_t kSeed = 7;
constexpr uint32_t kBatches = 64;  // then from the first again
constexpr int kNoDevice = 77;      // exit status of a skipped test program

// 6.45 million parameters: 256 wide, 6 layers, untied, 4 key heads for 8.
JobSpec Job(Precision precision) {
  JobSpec job;
  job.model.vocab_size = 4096;
  job.model.hidden_size = 256;
  job.model.intermediate_size = 688;
  job.model.layers = 6;
  job.model.heads = 8;
  job.model.kv_heads = 4;
  job.model.head_dim = 32;
  job.model.tie_embeddings = false;
  job.model.precision = precision;
  job.data.sequence_length = 256;
  job.batch.sequences_per_step = 8;
  job.inner.learning_rate = 1e-3;
  return job;
}

// The width of the smallest GPT-2 and its vocabulary, rounded up, tied: 124 million.
JobSpec Job124M(Precision precision) {
  JobSpec job = Job(precision);
  job.model.vocab_size = 50304;
  job.model.hidden_size = 768;
  job.model.intermediate_size = 2048;
  job.model.layers = 12;
  job.model.heads = job.model.kv_heads = 12;
  job.model.head_dim = 64;
  job.model.tie_embeddings = true;
  job.data.sequence_length = 1024;
  job.batch.sequences_per_step = 32;
  job.inner.learning_rate = 3e-4;
  return job;
}

// TinyLlama's shape, 1.1 billion.
JobSpec Job1B(Precision precision) {
  JobSpec job = Job124M(precision);
  job.model.vocab_size = 32000;
  job.model.hidden_size = 2048;
  job.model.intermediate_size = 5632;
  job.model.layers = 22;
  job.model.heads = 32;
  job.model.kv_heads = 4;
  job.model.tie_embeddings = false;
  job.data.sequence_length = 2048;
  job.batch.sequences_per_step = 8;
  job.inner.learning_rate = 1e-4;
  return job;
}

using JobOf = JobSpec (*)(Precision);

// Null for an unknown model.
JobOf JobNamed(const std::string& model) {
  return model == "6m" ? Job : model == "124m" ? Job124M : model == "1b" ? Job1B : nullptr;
}

// For one target, forward and backward: 2 and 4 for each parameter of a product, and half the
// square of attention, since the upper triangle is not needed.
double FlopsPerTarget(const JobSpec& job, const ModelLayout& layout) {
  const ModelSpec& model = job.model;
  uint64_t parameters = 0;
  for (const TensorInfo& t : layout.tensors) parameters += t.shape.size() == 2 ? t.elements : 0;
  // A row of the embedding is looked up, not multiplied; a tied embedding is also the head.
  if (!model.tie_embeddings) parameters -= uint64_t{model.vocab_size} * model.hidden_size;
  const double attention = 1.0 * model.layers * model.heads * model.head_dim * job.data.sequence_length;
  return 6.0 * (static_cast<double>(parameters) + attention);
}

JobSpec SmallJob(Precision precision) {
  JobSpec job = Job(precision);
  job.model.vocab_size = 64;
  job.model.hidden_size = 32;
  job.model.intermediate_size = 48;
  job.model.layers = 2;
  job.model.head_dim = 8;
  job.data.sequence_length = 16;
  return job;
}

// Three of four tokens follow from the previous token; the others are drawn, small ones more often.
std::vector<int32_t> Batches(const JobSpec& job, uint32_t count) {
  const size_t size = size_t{count} * job.batch.sequences_per_step * (job.data.sequence_length + 1);
  const uint32_t vocab = job.model.vocab_size;
  std::vector<int32_t> tokens(size);
  Rng rng(kSeed);
  uint64_t token = 0;
  for (int32_t& out : tokens) {
    token = rng.Below(4) != 0 ? Permute(kSeed, vocab, token) : rng.Below(1 + rng.Below(vocab));
    out = static_cast<int32_t>(token);
  }
  return tokens;
}

// The device and options of the steps.
struct Place {
  Device* device = nullptr;     // null: on the CPU
  bool records_passes = false;  // replays recorded passes, if the device can
  bool own_kernels = false;     // between products, if the device has them
};

class Training {
 public:
  Training(const JobSpec& job, int32_t threads, uint32_t batches, const Place& place)
      : job_(job),
        layout_(MakeModelLayout(job.model, FragmentPattern::kWhole, 1)),
        tokens_(Batches(job, batches)),
        batches_(batches) {
    Device* const device = place.device;
    TrainerOptions options{.threads = threads, .kernels = &cpu_kernels_};
    if (device != nullptr) {
      if (place.records_passes) options.recorder = device->pass_recorder();
      const auto free_bytes = device->FreeMemoryBytes();
      ATOLL_CHECK(free_bytes.ok(), "the device tells of its memory");
      options.device = {.gpu = true};
      options.available_bytes = *free_bytes;
      options.kernels = device->step_kernels();
      if (place.own_kernels) options.pass_kernels = device->pass_kernels();
      auto feed = device->OpenFeed(TokenBytes(job_));
      ATOLL_CHECK(feed.ok(), "there is pinned memory for the tokens of a step");
      feed_ = *std::move(feed);
      options.feed = feed_.get();
    }
    auto made = Trainer::Create(job_, layout_, options, clock_);
    ATOLL_CHECK(made.ok(), "the machine has memory for the model");
    trainer_ = *std::move(made);
    if (!trainer_->kernels_refused().ok()) {
      std::cerr << "bench_training: LibTorch's AdamW: " << trainer_->kernels_refused() << "\n";
    }
    if (!trainer_->pass_kernels_refused().ok()) {
      std::cerr << "bench_training: LibTorch's operators between products: " << trainer_->pass_kernels_refused()
                << "\n";
    }
    std::vector<float> initial(layout_.elements);
    InitialParameters(layout_, kSeed, 0, initial);
    ATOLL_CHECK(trainer_->parameters().Write(0, initial).ok(), "parameters can be written");
  }

  double Step() {
    const size_t size = tokens_.size() / batches_;
    const TokenBatch batch{.tokens = std::span<const int32_t>(tokens_).subspan(size * (at_++ % batches_), size),
                           .sequences = job_.batch.sequences_per_step};
    const auto report = trainer_->Step(batch, job_.inner.learning_rate);
    ATOLL_CHECK(report.ok() && report->applied, "a step could not be taken");
    return report->loss;
  }

  // Call after the last step.
  void TellRecording() const {
    if (trainer_->plays()) std::cerr << "bench_training: passes were played from a recording\n";
    if (!trainer_->recording_refused().ok()) {
      std::cerr << "bench_training: launches: " << trainer_->recording_refused() << "\n";
    }
  }

  uint64_t tokens_per_step() const { return uint64_t{job_.batch.sequences_per_step} * job_.data.sequence_length; }

 private:
  const SystemClock clock_;
  const JobSpec job_;
  const ModelLayout layout_;
  const std::vector<int32_t> tokens_;
  const uint32_t batches_;
  CpuStepKernels cpu_kernels_;
  std::unique_ptr<HostFeed> feed_;  // of the trainer
  std::unique_ptr<Trainer> trainer_;
  size_t at_ = 0;
};

// Takes `steps` steps.
nlohmann::json Turn(Training& training, uint64_t steps) {
  const SystemClock clock;
  std::vector<double> losses;
  const Instant begin = clock.Now();
  const double cpu = OwnCpuSeconds();
  for (uint64_t i = 0; i < steps; ++i) losses.push_back(training.Step());
  return {{"seconds", ToSeconds(clock.Now() - begin)}, {"cpu_seconds", OwnCpuSeconds() - cpu}, {"losses", losses}};
}

int Train(const JobSpec& job, int32_t threads, const Place& place) {
  Training training(job, threads, kBatches, place);
  std::cout << nlohmann::json({{"ready", true}}) << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    uint64_t steps = 0;
    if (!absl::SimpleAtoi(line, &steps)) return 2;
    std::cout << Turn(training, steps) << std::endl;
  }
  training.TellRecording();
  return 0;
}

int Try(const Place& place) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Training training(SmallJob(precision), 1, 2, place);
    std::cout << Turn(training, 2) << std::endl;
    training.TellRecording();
  }
  return 0;
}

absl::Status Write(const std::string& directory, const JobSpec& job) {
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  std::vector<float> parameters(layout.elements);
  InitialParameters(layout, kSeed, 0, parameters);
  const auto source = [&](size_t index, uint64_t begin, std::span<float> out) {
    const auto from = std::span<const float>(parameters).subspan(layout.tensors[index].offset + begin, out.size());
    std::copy(from.begin(), from.end(), out.begin());
    return absl::OkStatus();
  };
  HuggingFaceConfig config;
  config.model = job.model;
  config.max_positions = job.data.sequence_length;
  const auto files = MakePosixFiles();
  ATOLL_RETURN_IF_ERROR(
      WriteHuggingFaceDirectory(*files, JoinPath(directory, "model"), config, layout.tensors, {}, source));
  const std::vector<int32_t> tokens = Batches(job, kBatches);
  std::ofstream raw(JoinPath(directory, "tokens.i32"), std::ios::binary);
  raw.write(reinterpret_cast<const char*>(tokens.data()),
            static_cast<std::streamsize>(tokens.size() * sizeof(int32_t)));
  std::ofstream recipe(JoinPath(directory, "bench.json"));
  recipe << nlohmann::json{{"parameters", layout.elements},
                           {"batch", job.batch.sequences_per_step},
                           {"length", job.data.sequence_length},
                           {"flops_per_token", FlopsPerTarget(job, layout)},
                           {"learning_rate", job.inner.learning_rate},
                           {"beta1", job.inner.beta1},
                           {"beta2", job.inner.beta2},
                           {"epsilon", job.inner.epsilon},
                           {"weight_decay", job.inner.weight_decay},
                           {"gradient_clip", job.inner.gradient_clip}};
  raw.close();
  recipe.close();
  return raw && recipe ? absl::OkStatus() : absl::InternalError("cannot write to " + directory);
}

// Removes `flag` and the word after it and returns that word, or `otherwise` if the flag is
// missing.
std::string Take(std::vector<std::string>& words, const std::string& flag, const std::string& otherwise) {
  const auto at = std::find(words.begin(), words.end(), flag);
  if (at == words.end() || at + 1 == words.end()) return otherwise;
  std::string value = *(at + 1);
  words.erase(at, at + 2);
  return value;
}

int Usage() {
  std::cerr << "usage: bench_training write DIRECTORY | train fp32|bf16 THREADS | try [--model 6m|124m|1b] "
               "[--device cpu|gpu] [--cuda-graph off|auto] [--pass-kernels off|auto]\n";
  return 2;
}

int Run(std::vector<std::string> words, const GpuPlugin& plugin) {
  const JobOf job = JobNamed(Take(words, "--model", "6m"));
  const std::string wanted = Take(words, "--device", "cpu");
  const std::string graph = Take(words, "--cuda-graph", "off");
  const std::string kernels = Take(words, "--pass-kernels", "off");
  if (job == nullptr || (wanted != "cpu" && wanted != "gpu")) return Usage();
  if ((graph != "off" && graph != "auto") || (kernels != "off" && kernels != "auto")) return Usage();
  std::unique_ptr<Device> device;
  if (wanted == "gpu") {
    auto opened = OpenDevice(plugin, "cuda");
    if (!opened.ok()) {
      std::cerr << "bench_training: " << opened.status().message() << "\n";
      return kNoDevice;
    }
    device = *std::move(opened);
  }
  int32_t threads = 0;
  const Place place{device.get(), graph == "auto", kernels == "auto"};
  if (words == std::vector<std::string>{"try"}) return Try(place);
  if (words.size() == 2 && words[0] == "write") {
    const absl::Status status = Write(words[1], job(Precision::kFp32));
    if (!status.ok()) std::cerr << "bench_training: " << status.message() << "\n";
    return status.ok() ? 0 : 1;
  }
  if (words.size() == 3 && words[0] == "train" && (words[1] == "fp32" || words[1] == "bf16") &&
      absl::SimpleAtoi(words[2], &threads) && threads > 0) {
    return Train(job(words[1] == "fp32" ? Precision::kFp32 : Precision::kBf16), threads, place);
  }
  return Usage();
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  // Before any use of LibTorch. A run on the CPU does not load the plugin, like the recorded
  // figures.
  const bool gpu = std::find(words.begin(), words.end(), "gpu") != words.end();
  const atl::GpuPlugin plugin = gpu ? atl::bench::OpenPlugin() : atl::GpuPlugin{};
  atl::bench::TuneMalloc();
  mallopt(M_TOP_PAD, 256 << 20);  // as the worker's main does
  return atl::bench::Run(words, plugin);
}
