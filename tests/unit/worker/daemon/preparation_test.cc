// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/preparation.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/daemon/check.h"
#include "worker/train/memory.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

WorkerOptions Rank(uint32_t rank, uint32_t here, bool launched) {
  WorkerOptions options;
  options.island = {.size = 4, .launched = launched, .rank = rank, .ranks_here = here, .rank_here = rank % here};
  return options;
}

// The device chosen on a machine with `gpus` of the fake's two GPUs.
absl::StatusOr<DeviceInfo> Chosen(int gpus, const WorkerOptions& options) {
  static const GpuPlugin opened = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH);
  GpuPlugin plugin = opened;
  plugin.device_count = gpus;
  if (gpus == 0) plugin.reason = "the GPU plugin sees no device";
  ATOLL_ASSIGN_OR_RETURN(const auto device, OpenChosenDevice(plugin, options));
  return device->info();
}

TEST(ChosenDevice, RankUsesTheGpuWithItsLocalNumber) {
  for (const uint32_t rank : {0U, 1U, 2U, 3U}) {
    const auto device = Chosen(2, Rank(rank, 2, true));
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(device->kind, DeviceKind::kCuda);
    EXPECT_EQ(device->index, static_cast<int>(rank % 2));
  }
}

TEST(ChosenDevice, RankUsesTheOnlyVisibleGpu) {
  const auto device = Chosen(1, Rank(3, 4, true));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->index, 0);
}

TEST(ChosenDevice, IsRefusedWhereRanksHaveToShareOne) {
  for (const DeviceChoice choice : {DeviceChoice::kAuto, DeviceChoice::kGpu}) {
    for (const int gpus : {1, 2}) {
      WorkerOptions options = Rank(0, 4, false);
      options.device = choice;
      const absl::Status refused = Chosen(gpus, options).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("there are ", gpus, " GPUs for the 4 ranks")));
    }
  }
}

// The same result as when the ranks join.
TEST(Check, AnIslandShareIsHeldAgainstAShareOfTheMachine) {
  JobOffer offer{JobId{"tiny"}, TinyJob(), {}};
  offer.spec.batch.sequences_per_step = 4;
  offer.spec.batch.micro_batch = 1;
  const std::unique_ptr<Device> device = OpenCpuDevice();
  const ModelLayout layout =
      MakeModelLayout(offer.spec.model, offer.spec.sync.pattern, offer.spec.sync.layers_per_fragment);
  const uint64_t needed = EstimateTrainingMemory(offer.spec, layout, {}, 1, Passes::kLaunched).total();
  const auto verdict = [&](WorkerOptions options, uint64_t bytes) {
    return MemoryFinding(offer, *device, options, bytes).verdict;
  };
  EXPECT_EQ(verdict({}, needed * 2), Verdict::kGood);
  EXPECT_EQ(verdict(Rank(0, 4, true), needed * 2), Verdict::kFailed);
  EXPECT_EQ(verdict(Rank(0, 1, true), needed * 2), Verdict::kGood) << "on machines of their own";
  EXPECT_EQ(verdict(Rank(0, 4, true), needed * 8), Verdict::kGood);
}

TEST(ChosenDevice, IslandUsesTheCpuWithoutAWantedGpu) {
  WorkerOptions options = Rank(1, 4, false);
  EXPECT_EQ(Chosen(0, options)->kind, DeviceKind::kCpu);
  options.device = DeviceChoice::kGpu;
  EXPECT_EQ(Chosen(0, options).status().code(), absl::StatusCode::kUnavailable);
  options.device = DeviceChoice::kCpu;
  EXPECT_EQ(Chosen(2, options)->kind, DeviceKind::kCpu);
}

TEST(ThreadsOfSync, AreThoseThatTrainingLeaves) {
  const auto of = [](DeviceKind kind, unsigned cores, uint32_t ranks = 1, uint32_t threads = 0) {
    WorkerOptions options;
    options.threads = threads;
    options.island.ranks_here = ranks;
    const SyncThreads found = SyncThreadsOf(options, kind, cores);
    return std::pair(found.at_rest, found.beside);
  };
  EXPECT_EQ(of(DeviceKind::kCpu, 4), std::pair(4u, 1u));
  EXPECT_EQ(of(DeviceKind::kCpu, 4, 2), std::pair(2u, 1u));
  EXPECT_EQ(of(DeviceKind::kCpu, 4, 1, 3), std::pair(3u, 1u)) << "as told";
  EXPECT_EQ(of(DeviceKind::kCuda, 8), std::pair(8u, 4u));
  EXPECT_EQ(of(DeviceKind::kCuda, 128, 2), std::pair(16u, 8u)) << "as many as memory has use for";
  for (const unsigned cores : {0u, 1u, 2u}) EXPECT_EQ(of(DeviceKind::kCuda, cores, 8), std::pair(1u, 1u));
}

TEST(Cache, IsTriedAndLeftAsItWas) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  std::string pattern = testing::TempDir() + "/cacheXXXXXX";
  WorkerOptions options;
  options.cache_dir = mkdtemp(pattern.data());
  EXPECT_TRUE(TryCache(options, *files).ok()) << TryCache(options, *files);
  EXPECT_TRUE(files->List(options.cache_dir)->empty());
  std::filesystem::remove_all(options.cache_dir);
  options.cache_dir = "/proc/self";  // where even root cannot create files
  const absl::Status refused = TryCache(options, *files);
  EXPECT_THAT(std::string(refused.message()),
              testing::StartsWith("--cache-dir /proc/self cannot be written, so neither streamed data nor"));
}

// An error belongs to the job, unless the GPU no longer responds.
TEST(WhyDeviceLost, ALostGpuIsNoFaultOfTheJob) {
  static const GpuPlugin opened = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH);
  const absl::Status failed =
      absl::InternalError("LibTorch failed while stepping: CUDA error: an illegal memory access");
  const std::unique_ptr<Device> alive = *OpenGpuDevice(opened.table, 0);
  EXPECT_EQ(WhyDeviceLost(*alive, failed), absl::OkStatus());
  static atoll_gpu_table dead = *opened.table;
  const std::unique_ptr<Device> lost = *OpenGpuDevice(&dead, 0);
  dead.device_memory = [](atoll_gpu_context*, uint64_t*, uint64_t*) -> int32_t { return -1; };
  const absl::Status why = WhyDeviceLost(*lost, failed);
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), AllOf(HasSubstr("the GPU is lost: "), HasSubstr("illegal memory access")));
  const absl::Status memory = absl::ResourceExhaustedError("out of memory");
  EXPECT_EQ(WhyDeviceLost(*lost, memory), absl::OkStatus()) << "which another micro-batch may mend";
  EXPECT_EQ(WhyDeviceLost(**OpenDevice(opened, "cpu"), failed), absl::OkStatus());
}

TEST(OpenGpuPlugin, LoadsNothingWhereTheDriverIsNotThere) {
  const GpuPlugin without = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH, "libnone.so.1");
  EXPECT_EQ(without.table, nullptr);
  EXPECT_EQ(without.device_count, 0);
  EXPECT_THAT(without.reason, AllOf(HasSubstr("there is no GPU driver: libnone.so.1"), HasSubstr("--gpus all")));
  EXPECT_EQ(WhyOnCpu(without, {}), without.reason) << "the plugin was put there to be used";
  const absl::Status refused = OpenDevice(without, "cuda").status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("libnone.so.1"));
  EXPECT_EQ(OpenGpuPlugin(ATOLL_FAKE_GPU_PATH, "libc.so.6").device_count, 2);
  EXPECT_THAT(OpenGpuPlugin("/nonexistent/libatoll_gpu.so", "libnone.so.1").reason,
              HasSubstr("no GPU plugin is installed"));
}

// A machine with a network card and one more device of `vendor` and `kind`.
std::string PciDevices(const std::string& vendor, const std::string& kind) {
  std::string pattern = testing::TempDir() + "/pciXXXXXX";
  const std::filesystem::path pci = mkdtemp(pattern.data());
  const auto add = [&](const char* name, const std::string& its_vendor, const std::string& its_kind) {
    std::filesystem::create_directory(pci / name);
    std::ofstream(pci / name / "vendor") << its_vendor << "\n";
    std::ofstream(pci / name / "class") << its_kind << "\n";
  };
  add("0000:00:03.0", "0x10de", "0x020000");
  add("0000:01:00.0", vendor, kind);
  return pci;
}

TEST(ChosenDevice, AutoLeavesNoGpuUnusedWithoutAWord) {
  GpuPlugin plugin;
  plugin.reason = "NVIDIA's driver supports CUDA 12.4, this worker needs 13.0";
  WorkerOptions options;
  for (const char* kind : {"0x030000", "0x030200"}) {
    const absl::Status refused = OpenChosenDevice(plugin, options, PciDevices("0x10de", kind)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(plugin.reason), HasSubstr("--device cpu")));
  }
  EXPECT_TRUE(OpenChosenDevice(plugin, options, PciDevices("0x8086", "0x030000")).ok()) << "a card of another maker";
  EXPECT_TRUE(OpenChosenDevice(plugin, options, "/nonexistent").ok()) << "no PCI bus";
  options.device = DeviceChoice::kCpu;
  EXPECT_TRUE(OpenChosenDevice(plugin, options, PciDevices("0x10de", "0x030200")).ok()) << "as was wished";
}

TEST(WhyOnCpu, IsLoggedIfAGpuWasWanted) {
  GpuPlugin plugin;
  WorkerOptions options;
  EXPECT_EQ(WhyOnCpu(plugin, options), "") << "a machine without the plugin";
  plugin = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH);
  EXPECT_EQ(WhyOnCpu(plugin, options), "");
  plugin.device_count = 0;
  plugin.reason = "the GPU plugin sees no device: the driver is gone";
  EXPECT_EQ(WhyOnCpu(plugin, options), plugin.reason);
  options.device = DeviceChoice::kCpu;
  EXPECT_EQ(WhyOnCpu(plugin, options), "") << "as was wished";
  options.device = DeviceChoice::kAuto;
  const GpuPlugin other = OpenGpuPlugin("libz.so.1");
  EXPECT_THAT(WhyOnCpu(other, options), HasSubstr("is not a GPU plugin")) << "as one of another version";
  EXPECT_EQ(WhyOnCpu(OpenGpuPlugin("/nonexistent/libatoll_gpu.so"), options), "");
}

}  // namespace
}  // namespace atl
