// SPDX-License-Identifier: Apache-2.0
// Contributions formed by a device's kernels: equal to the host's to the bit, proved before they
// are trusted, and formed by the host again if the device fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "tests/support/manual_executor.h"
#include "tests/support/toy_spec.h"
#include "tests/unit/worker/device/forming_gpu.h"
#include "worker/device/gpu_plugin.h"
#include "worker/replica/replicas.h"

namespace atl {
namespace {

using forming_gpu::Gpu;
using forming_gpu::Mistake;

// One worker's replicas of a job with three fragments, the largest with two and a partial block, on
// one device.
struct Side {
  Side(const JobSpec& spec, std::unique_ptr<Device> on, EncodedBy by) : device(std::move(on)) {
    layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    local.assign(layout.elements, 0.0f);
    download = spec.sync.download_codec;
    auto made = Replicas::Create(layout, spec, *device, local, nullptr, executor, by);
    EXPECT_TRUE(made.ok()) << made.status();
    replicas = *std::move(made);
    versions.assign(layout.fragments.size(), 0);
    for (uint32_t p = 0; p < layout.fragments.size(); ++p) Install(p);
  }

  std::span<float> LocalOf(uint32_t p) {
    return std::span(local).subspan(layout.fragments[p].offset, layout.fragments[p].elements);
  }
  std::span<const float> OuterOf(uint32_t p) {
    return replicas->outer().subspan(layout.fragments[p].offset, layout.fragments[p].elements);
  }
  void Install(uint32_t p) {
    std::vector<float> values(layout.fragments[p].elements);
    for (size_t i = 0; i < values.size(); ++i) values[i] = NormalAt(7 + p, i);
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
    std::memcpy(bytes->data(), values.data(), bytes->size());
    const Digest hash = ContentHash(values, versions[p], layout.digest);
    replicas->Keep({JobId{"toy"}, {FragmentIndex{p}, Version{versions[p]}}, true, hash, bytes});
    EXPECT_TRUE(replicas->Install(FragmentIndex{p}, Version{versions[p]}).ok());
    EXPECT_TRUE(replicas->AdoptOuter(FragmentIndex{p}).ok());
  }
  // Changes the parameters as training does: different steps in each round.
  void Train(uint64_t round) {
    for (size_t i = 0; i < local.size(); ++i) local[i] += 0.01f * NormalAt(100 + round, i);
  }
  void Begin(uint32_t p) {
    replicas->BeginForm({FragmentIndex{p}, Version{versions[p]}}, ++errands, false,
                        [this](FormingEnded e) { ended.push_back(std::move(e)); });
  }
  // Finishes the work that BeginForm began.
  absl::Status End() {
    executor.RunAll();
    EXPECT_EQ(ended.size(), 1u);
    if (ended.empty()) return absl::InternalError("nothing was told");
    const FormingEnded last = std::exchange(ended, {}).back();
    EXPECT_TRUE(replicas->EndForm(last));
    return last.status;
  }
  absl::Status Form(uint32_t p) {
    Begin(p);
    return End();
  }
  // An update that moves the outer copy, and the merge after it.
  void Settle(uint32_t p, double mix) {
    std::vector<float> change(layout.fragments[p].elements);
    for (size_t i = 0; i < change.size(); ++i) change[i] = 0.001f * NormalAt(500 + versions[p], i);
    auto encoded = std::make_shared<std::vector<std::byte>>(EncodedSize(download, change.size()));
    Encode(download, change, *encoded);
    std::vector<float> after(OuterOf(p).begin(), OuterOf(p).end());
    DecodeAdd(download, *encoded, after);
    const FragmentVersion reached{FragmentIndex{p}, Version{++versions[p]}};
    const Digest hash = ContentHash(after, reached.version.value, layout.digest);
    replicas->Keep({JobId{"toy"}, reached, false, hash, encoded});
    const auto verdict = replicas->Apply(reached, Standing::kContributor, hash);
    EXPECT_TRUE(verdict.ok() && *verdict == ApplyVerdict::kApplied) << verdict.status();
    EXPECT_TRUE(replicas->Resolve(FragmentIndex{p}, Standing::kContributor, mix).ok());
  }
  const StoredContribution* Held(uint32_t p) { return replicas->unresolved(FragmentIndex{p}); }
  std::string Refusal() { return std::string(replicas->forming_refused().message()); }

  std::unique_ptr<Device> device;
  ModelLayout layout;
  std::vector<float> local;
  CodecKind download = CodecKind::kFp32;
  ManualExecutor executor;
  std::vector<uint64_t> versions;
  std::vector<FormingEnded> ended;
  uint64_t errands = 0;
  std::unique_ptr<Replicas> replicas;
};

JobSpec Spec(CodecKind upload, ErrorMemory memory) {
  JobSpec spec = ToySpec();
  spec.model.vocab_size = 500;
  spec.model.hidden_size = 12;
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 1;
  spec.sync.upload_codec = upload;
  spec.sync.upload_error_memory = memory;
  return spec;
}

class DeviceForming : public testing::Test {
 protected:
  DeviceForming() { Gpu() = {}; }
  ~DeviceForming() override {
    EXPECT_EQ(Gpu().events, 0u);
    EXPECT_TRUE(Gpu().memory.empty());
  }
  std::unique_ptr<Device> Opened(const atoll_gpu_table& table) {
    auto device = OpenGpuDevice(&table, 0);
    EXPECT_TRUE(device.ok()) << device.status();
    return *std::move(device);
  }
  Side OnGpu(const JobSpec& spec) { return {spec, Opened(table_), EncodedBy::kDevice}; }
  static Side OnCpu(const JobSpec& spec) { return {spec, OpenCpuDevice(), EncodedBy::kHost}; }

  const atoll_gpu_table table_ = forming_gpu::MakeTable();
};

void ExpectSameContribution(Side& got, Side& wanted, uint32_t p) {
  ASSERT_TRUE(got.Held(p) != nullptr && wanted.Held(p) != nullptr);
  EXPECT_EQ(*got.Held(p)->encoded, *wanted.Held(p)->encoded);
  EXPECT_EQ(got.Held(p)->digest, wanted.Held(p)->digest);
  EXPECT_EQ(got.Held(p)->norm, wanted.Held(p)->norm);
  EXPECT_EQ(got.Held(p)->lost_norm, wanted.Held(p)->lost_norm);
  EXPECT_EQ(got.Held(p)->version, wanted.Held(p)->version);
}

TEST_F(DeviceForming, RoundsAreTheHostsToTheBit) {
  for (const CodecKind codec :
       {CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0}) {
    for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback}) {
      const JobSpec spec = Spec(codec, memory);
      Side gpu = OnGpu(spec), cpu = OnCpu(spec);
      const auto fragments = static_cast<uint32_t>(gpu.layout.fragments.size());
      for (uint64_t round = 0; round < 5; ++round) {
        SCOPED_TRACE(testing::Message() << CodecName(codec) << ", round " << round);
        for (Side* side : {&gpu, &cpu}) side->Train(round);
        for (uint32_t p = 0; p < fragments; ++p) {
          for (Side* side : {&gpu, &cpu}) ASSERT_TRUE(side->Form(p).ok());
          ExpectSameContribution(gpu, cpu, p);
          for (Side* side : {&gpu, &cpu}) side->Settle(p, 0.25);
        }
        ASSERT_EQ(gpu.local, cpu.local);
      }
      EXPECT_TRUE(gpu.replicas->forming_refused().ok()) << gpu.replicas->forming_refused();
    }
  }
}

TEST_F(DeviceForming, TheHostFormsTheFirstOnesToo) {
  Side gpu = OnGpu(Spec(CodecKind::kMxfp4, ErrorMemory::kFeedback));
  for (uint32_t round = 1; round <= kFormingProofs + 2; ++round) {
    gpu.Train(round);
    ASSERT_TRUE(gpu.Form(0).ok());
    EXPECT_EQ(Gpu().formed, round);
    EXPECT_EQ(Gpu().copied_to_host, std::min(round, kFormingProofs)) << "of the parameters, for the host";
    gpu.replicas->DropContribution(FragmentIndex{0});
  }
  ASSERT_TRUE(gpu.Form(1).ok());
  EXPECT_EQ(Gpu().copied_to_host, kFormingProofs + 1) << "another fragment is not proved yet";
}

TEST_F(DeviceForming, ADeviceThatDiffersIsNotUsed) {
  const std::vector<std::pair<Mistake, std::string>> mistakes = {{Mistake::kEncoding, "encoding"},
                                                                 {Mistake::kLoss, "loss"},
                                                                 {Mistake::kSentNorm, "norm"},
                                                                 {Mistake::kLostNorm, "norm"},
                                                                 {Mistake::kFinite, "verdict on what is finite"}};
  for (const auto& [mistake, what] : mistakes) {
    SCOPED_TRACE(what);
    Gpu() = {};
    const JobSpec spec = Spec(CodecKind::kInt8, ErrorMemory::kFeedback);
    Side gpu = OnGpu(spec), cpu = OnCpu(spec);
    for (uint64_t round = 0; round < 3; ++round) {
      if (round == 1) Gpu().mistake = mistake;  // in the last of the proofs
      for (Side* side : {&gpu, &cpu}) {
        side->Train(round);
        ASSERT_TRUE(side->Form(0).ok());
      }
      ExpectSameContribution(gpu, cpu, 0);
      for (Side* side : {&gpu, &cpu}) side->Settle(0, 0);
    }
    EXPECT_EQ(gpu.Refusal(), "the device's kernels form a contribution that differs from the host's in its " + what);
    EXPECT_EQ(Gpu().formed, 2u) << "and is not asked again";
    EXPECT_EQ(gpu.local, cpu.local);
  }
}

TEST_F(DeviceForming, MergesAreCheckedOnlyAtFirst) {
  for (const double mix : {0.0, 0.3}) {
    Gpu() = {};
    const JobSpec spec = Spec(CodecKind::kBf16, ErrorMemory::kFeedback);
    Side gpu = OnGpu(spec), cpu = OnCpu(spec);
    for (uint32_t round = 1; round <= kFormingProofs + 2; ++round) {
      for (Side* side : {&gpu, &cpu}) {
        side->Train(round);
        ASSERT_TRUE(side->Form(0).ok());
      }
      const uint32_t copied = Gpu().copied_to_host;
      for (Side* side : {&gpu, &cpu}) side->Settle(0, mix);
      EXPECT_EQ(Gpu().merged, round);
      EXPECT_EQ(Gpu().copied_to_host - copied, round <= kFormingProofs ? 2u : 0u);
      EXPECT_EQ(Gpu().events, round <= kFormingProofs ? 0u : 1u) << "the outer copy is being read";
      ASSERT_EQ(gpu.local, cpu.local);
    }
    // Late: the own parameters stay, and the next update waits for the previous merge.
    for (Side* side : {&gpu, &cpu}) {
      side->Train(50);
      ASSERT_TRUE(side->Form(0).ok());
      side->Settle(0, 1);
    }
    EXPECT_EQ(Gpu().merged, kFormingProofs + 2);
    EXPECT_EQ(Gpu().events, 0u);
    EXPECT_EQ(gpu.local, cpu.local);
    EXPECT_EQ(gpu.Refusal(), "");
  }
}

TEST_F(DeviceForming, AMergeThatDiffersOrDoesNotBeginIsTheHosts) {
  for (const Mistake mistake : {Mistake::kMerge, Mistake::kMergeBegin}) {
    for (const uint64_t wrong : {uint64_t{1}, uint64_t{3}}) {  // within the proofs, and after them
      if (mistake == Mistake::kMerge && wrong == 3) continue;
      Gpu() = {};
      const JobSpec spec = Spec(CodecKind::kInt8, ErrorMemory::kFeedback);
      Side gpu = OnGpu(spec), cpu = OnCpu(spec);
      for (uint64_t round = 0; round < 5; ++round) {
        for (Side* side : {&gpu, &cpu}) {
          side->Train(round);
          ASSERT_TRUE(side->Form(0).ok());
        }
        if (round == wrong) Gpu().mistake = mistake;
        for (Side* side : {&gpu, &cpu}) side->Settle(0, 0.5);
        ASSERT_EQ(gpu.local, cpu.local) << round;
      }
      EXPECT_EQ(gpu.Refusal(), mistake == Mistake::kMerge
                                   ? "the device's kernels merge to different parameters than the host"
                                   : "a merge failed on the GPU: the fake launches nothing");
      EXPECT_EQ(Gpu().formed, wrong + 1) << "nor does it form any more";
    }
  }
}

TEST_F(DeviceForming, ADeviceThatBeginsNothingIsNotUsed) {
  const JobSpec spec = Spec(CodecKind::kMxfp4, ErrorMemory::kFeedback);
  Side gpu = OnGpu(spec), cpu = OnCpu(spec);
  Gpu().mistake = Mistake::kBegin;
  for (Side* side : {&gpu, &cpu}) {
    side->Train(1);
    ASSERT_TRUE(side->Form(0).ok());
  }
  ExpectSameContribution(gpu, cpu, 0);
  EXPECT_EQ(gpu.Refusal(), "forming a contribution failed on the GPU: the fake launches nothing");
}

TEST_F(DeviceForming, FailingDeviceFallsBackToTheHostOrIsReported) {
  const std::string failed = "waiting for a contribution or a merge failed on the GPU: the fake has lost its event";
  const JobSpec spec = Spec(CodecKind::kMxfp4, ErrorMemory::kFeedback);
  for (const uint32_t proofs : {0u, kFormingProofs}) {
    Gpu() = {};
    Side gpu = OnGpu(spec), cpu = OnCpu(spec);
    for (Side* side : {&gpu, &cpu}) side->Train(1);
    for (uint32_t i = 0; i < proofs; ++i) {
      ASSERT_TRUE(gpu.Form(0).ok());
      gpu.replicas->DropContribution(FragmentIndex{0});
    }
    Gpu().mistake = Mistake::kWait;
    const absl::Status status = gpu.Form(0);
    if (proofs == 0) {  // the host has formed it too
      EXPECT_TRUE(status.ok()) << status;
      ASSERT_TRUE(cpu.Form(0).ok());
      ExpectSameContribution(gpu, cpu, 0);
      EXPECT_EQ(gpu.Refusal(), failed);
    } else {
      EXPECT_EQ(status.message(), failed);
      EXPECT_EQ(gpu.Held(0), nullptr);
    }
  }
}

TEST_F(DeviceForming, NonFiniteValuesAreRefusedByHostAndDevice) {
  Side gpu = OnGpu(Spec(CodecKind::kE3m0, ErrorMemory::kFeedback));
  for (uint32_t round = 0; round < kFormingProofs + 1; ++round) {
    const float before = std::exchange(gpu.LocalOf(0).back(), std::numeric_limits<float>::infinity());
    const absl::Status refused = gpu.Form(0);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_NE(refused.message().find("is not finite in the block at element"), std::string::npos) << refused;
    EXPECT_EQ(gpu.Held(0), nullptr);
    gpu.LocalOf(0).back() = before;
    ASSERT_TRUE(gpu.Form(0).ok()) << "no proof was lost by it";
    gpu.replicas->DropContribution(FragmentIndex{0});
  }
  EXPECT_TRUE(gpu.replicas->forming_refused().ok()) << gpu.replicas->forming_refused();
}

TEST_F(DeviceForming, CancelledContributionHasEnded) {
  const JobSpec spec = Spec(CodecKind::kMxfp4, ErrorMemory::kFeedback);
  Side gpu = OnGpu(spec), cpu = OnCpu(spec);
  for (uint64_t round = 0; round < 4; ++round) {
    const uint32_t merging = Gpu().events;  // of the previous round
    for (Side* side : {&gpu, &cpu}) {
      side->Train(round);
      side->Begin(0);
      side->replicas->DropContribution(FragmentIndex{0});
      side->executor.RunAll();
      EXPECT_TRUE(side->ended.empty());
      EXPECT_EQ(side->Held(0), nullptr);
    }
    EXPECT_EQ(Gpu().events, merging) << "nothing is being formed";
    for (Side* side : {&gpu, &cpu}) ASSERT_TRUE(side->Form(0).ok());
    ExpectSameContribution(gpu, cpu, 0);
    for (Side* side : {&gpu, &cpu}) side->Settle(0, 0.5);
  }
}

// There is space for one contribution: the previous fragment's is formed first.
TEST_F(DeviceForming, ConcurrentContributionsKeepTheirValues) {
  const JobSpec spec = Spec(CodecKind::kBf16, ErrorMemory::kFeedback);
  Side gpu = OnGpu(spec), cpu = OnCpu(spec);
  const auto fragments = static_cast<uint32_t>(gpu.layout.fragments.size());
  ASSERT_GE(fragments, 3u);
  for (uint64_t round = 0; round < 4; ++round) {
    for (Side* side : {&gpu, &cpu}) {
      for (uint32_t p = 0; p < fragments; ++p) {
        side->Train(round * fragments + p);
        side->Begin(p);
      }
      side->Train(99);
      side->executor.RunAll();
      ASSERT_EQ(side->ended.size(), fragments);
      for (const FormingEnded& ended : std::exchange(side->ended, {})) {
        ASSERT_TRUE(ended.status.ok()) << ended.status;
        EXPECT_TRUE(side->replicas->EndForm(ended));
      }
    }
    for (uint32_t p = 0; p < fragments; ++p) {
      ExpectSameContribution(gpu, cpu, p);
      for (Side* side : {&gpu, &cpu}) side->Settle(p, 0);
    }
  }
}

TEST_F(DeviceForming, WithoutKernelsOrMemoryTheHostForms) {
  const JobSpec spec = Spec(CodecKind::kFp16, ErrorMemory::kFeedback);
  const atoll_gpu_table older = forming_gpu::MakeTable(/*forms=*/false);
  Side old{spec, Opened(older), EncodedBy::kDevice};
  EXPECT_NE(old.Refusal().find("cannot form contributions"), std::string::npos) << old.Refusal();
  Side cpu{spec, OpenCpuDevice(), EncodedBy::kDevice};
  EXPECT_EQ(cpu.Refusal(), "this device has no kernels that form contributions");
  Side loco = OnGpu(Spec(CodecKind::kFp16, ErrorMemory::kLoco));
  EXPECT_EQ(loco.Refusal(), "sync.upload_error_memory is loco, which only the host supports");
  Gpu().most_pinned = cpu.layout.elements * sizeof(float) - 1;  // windows of fragments fit, the arena does not
  Side small = OnGpu(spec);
  EXPECT_NE(small.Refusal().find("bytes of pinned host memory for forming contributions: the fake has no more memory"),
            std::string::npos)
      << small.Refusal();
  Gpu().most_bytes = 100;
  Side smaller = OnGpu(spec);
  EXPECT_NE(smaller.Refusal().find("bytes of device memory for forming contributions"), std::string::npos)
      << smaller.Refusal();
  for (Side* side : {&old, &cpu, &loco, &small, &smaller}) {
    side->Train(1);
    EXPECT_TRUE(side->Form(0).ok());
  }
}

}  // namespace
}  // namespace atl
