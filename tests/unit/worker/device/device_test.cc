// SPDX-License-Identifier: Apache-2.0
// The CPU device, the loader's errors, and the CUDA device over a plugin that needs no GPU.
#include "worker/device/device.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/gpu_plugin.h"
#include "worker/device/island.h"

namespace atl {
namespace {

TEST(CpuDevice, AWindowIsTheMemoryItself) {
  const std::unique_ptr<Device> device = OpenCpuDevice();
  EXPECT_EQ(device->info().kind, DeviceKind::kCpu);
  EXPECT_EQ(device->info().name, "cpu");
  EXPECT_GT(device->info().memory_total_bytes, uint64_t{1} << 20);
  const auto free_bytes = device->FreeMemoryBytes();
  ASSERT_TRUE(free_bytes.ok());
  EXPECT_LE(*free_bytes, device->info().memory_total_bytes);

  std::vector<float> arena = {1, 2, 3, 4};
  auto window = device->OpenWindow(std::span(arena).subspan(1, 2));
  ASSERT_TRUE(window.ok());
  EXPECT_TRUE((*window)->is_direct());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  EXPECT_TRUE(*(*window)->Done());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ((*window)->host().data(), &arena[1]);
  EXPECT_EQ((*window)->host().size(), 2u);
  (*window)->host()[0] = 9;
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());
  EXPECT_EQ(arena[1], 9);
}

TEST(OpenGpuPlugin, SaysWhyThereIsNone) {
  const GpuPlugin unnamed = OpenGpuPlugin("");
  EXPECT_EQ(unnamed.table, nullptr);
  EXPECT_FALSE(unnamed.reason.empty());
  const GpuPlugin missing = OpenGpuPlugin("/nonexistent/libatoll_gpu.so");
  EXPECT_EQ(missing.table, nullptr);
  EXPECT_NE(missing.reason.find("/nonexistent/libatoll_gpu.so"), std::string::npos);
  const GpuPlugin other = OpenGpuPlugin("libz.so.1");
  EXPECT_EQ(other.table, nullptr);
  EXPECT_NE(other.reason.find("atoll_gpu_open"), std::string::npos);
}

TEST(OpenDevice, FallsBackToTheCpuOnlyWhenLeftToChoose) {
  const GpuPlugin none = OpenGpuPlugin("");
  EXPECT_EQ((*OpenDevice(none, "auto"))->info().kind, DeviceKind::kCpu);
  EXPECT_EQ((*OpenDevice(none, "cpu"))->info().kind, DeviceKind::kCpu);
  const absl::Status refused = OpenDevice(none, "cuda").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(refused.message()).find(none.reason), std::string::npos);
  EXPECT_EQ(OpenDevice(none, "tpu").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenDevice(none, "cuda:x").status().code(), absl::StatusCode::kInvalidArgument);
}

class GpuForm : public testing::Test {
 protected:
  const GpuPlugin plugin_ = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH);
};

TEST_F(GpuForm, OpensDevicesByName) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_EQ(plugin_.device_count, 2);
  EXPECT_EQ((*OpenDevice(plugin_, "auto"))->info().name, "Fake GPU 0");
  const auto second = OpenDevice(plugin_, "cuda:1");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->info().kind, DeviceKind::kCuda);
  EXPECT_EQ((*second)->info().index, 1);
  EXPECT_EQ((*second)->info().memory_total_bytes, 4000u);
  EXPECT_EQ(*(*second)->FreeMemoryBytes(), 1000u);
  EXPECT_EQ((*OpenDevice(plugin_, "cpu"))->info().kind, DeviceKind::kCpu);
  EXPECT_EQ(OpenDevice(plugin_, "cuda:2").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GpuForm, AnOlderPluginIsTakenWithoutItsLaterEntries) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_TRUE(ATOLL_GPU_HAS(plugin_.table, last_error));
  EXPECT_FALSE(ATOLL_GPU_HAS(plugin_.table, codec_encode));
  EXPECT_FALSE(ATOLL_GPU_HAS(plugin_.table, codec_decode));
}

TEST_F(GpuForm, AnOlderPluginHasNoKernelsForTheStep) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->step_kernels(), nullptr);
  EXPECT_EQ(OpenCpuDevice()->step_kernels(), nullptr);
}

TEST_F(GpuForm, AWindowIsACopyWithBothDirections) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> arena = {1, 2, 3, 4};
  auto window = (*device)->OpenWindow(std::span(arena).subspan(1, 2));
  ASSERT_TRUE(window.ok());
  EXPECT_FALSE((*window)->is_direct());
  EXPECT_TRUE(*(*window)->Done());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  EXPECT_FALSE(*(*window)->Done());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ((*window)->host()[0], 2);
  EXPECT_EQ((*window)->host()[1], 3);
  (*window)->host()[0] = 7;
  EXPECT_EQ(arena[1], 2);
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ(arena, (std::vector<float>{1, 7, 3, 4}));
}

TEST_F(GpuForm, NewCopyWaitsForThePreviousOne) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> arena = {5, 6};
  auto window = (*device)->OpenWindow(arena);
  ASSERT_TRUE(window.ok());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());  // the snapshot has arrived by now
  EXPECT_EQ((*window)->host()[0], 5);
  ASSERT_TRUE((*window)->Wait().ok());
}

TEST_F(GpuForm, FailuresCarryThePluginsSentence) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> large(300'000);
  const absl::Status no_memory = (*device)->OpenWindow(large).status();
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(no_memory.message()).find("the fake has only 1 MiB"), std::string::npos);
  auto window = (*device)->OpenWindow(std::span(large).first(10));
  ASSERT_TRUE(window.ok());
  int other_stream = 0;
  EXPECT_EQ((*window)->Snapshot(&other_stream).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE((*window)->Wait().ok());
}

TEST(CpuDevice, AFeedCopiesAtOnce) {
  const std::unique_ptr<Device> device = OpenCpuDevice();
  const auto feed = device->OpenFeed(8);
  ASSERT_TRUE(feed.ok()) << feed.status();
  const std::vector<int32_t> from = {1, 2};
  std::vector<int32_t> to(3);
  ASSERT_TRUE((*feed)->Put(std::as_bytes(std::span(from)), to.data(), nullptr).ok());
  EXPECT_EQ(to, (std::vector<int32_t>{1, 2, 0}));
  EXPECT_TRUE((*feed)->Put({}, nullptr, nullptr).ok());
  EXPECT_EQ((*feed)->Put(std::as_bytes(std::span(to)), to.data(), nullptr).code(), absl::StatusCode::kInvalidArgument);
}

// Starts a copy of `value` to `to`, from memory that is reused at once.
absl::Status PutOne(HostFeed& feed, int32_t value, int32_t& to) {
  absl::Status status = feed.Put(std::as_bytes(std::span(&value, 1)), &to, nullptr);
  value = -1;
  return status;
}

TEST_F(GpuForm, AFeedWaitsForTheCopyBeforeTheLast) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<int32_t> to(4);
  {
    const auto feed = (*device)->OpenFeed(8);
    ASSERT_TRUE(feed.ok()) << feed.status();
    ASSERT_TRUE(PutOne(**feed, 1, to[0]).ok());
    ASSERT_TRUE(PutOne(**feed, 2, to[1]).ok());
    EXPECT_EQ(to, (std::vector<int32_t>{0, 0, 0, 0})) << "nobody has waited";
    ASSERT_TRUE(PutOne(**feed, 3, to[2]).ok());  // into the buffer of the first
    EXPECT_EQ(to, (std::vector<int32_t>{1, 0, 0, 0}));
    ASSERT_TRUE(PutOne(**feed, 4, to[3]).ok());
    EXPECT_EQ(to, (std::vector<int32_t>{1, 2, 0, 0}));
    EXPECT_EQ((*feed)->Put(std::as_bytes(std::span(to)), to.data(), nullptr).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(to, (std::vector<int32_t>{1, 2, 3, 4})) << "what is under way ends before its memory goes";
}

TEST_F(GpuForm, AFeedsFailuresCarryThePluginsSentence) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  const absl::Status no_memory = (*device)->OpenFeed(uint64_t{2} << 20).status();
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(no_memory.message()).find("the fake has only 1 MiB"), std::string::npos) << no_memory;
  const auto feed = (*device)->OpenFeed(4);
  ASSERT_TRUE(feed.ok());
  int other_stream = 0;
  EXPECT_EQ((*feed)->Put(std::as_bytes(std::span(&other_stream, 1)), &other_stream, &other_stream).code(),
            absl::StatusCode::kInternal);
}

TEST_F(GpuForm, AFeedGoesByTheComputeStreamWhereThePluginCan) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  atoll_gpu_table table{};
  std::memcpy(&table, plugin_.table, plugin_.table->table_bytes);
  table.table_bytes = sizeof table;
  static void* fed_on = nullptr;
  static const atoll_gpu_table* const fake = plugin_.table;
  table.feed_to_device = [](atoll_gpu_context* context, void* device, const void* host, uint64_t bytes,
                            void* compute_stream, atoll_gpu_event** done) {
    fed_on = compute_stream;
    // Asynchronous like the fake's copies: done at the event.
    return fake->copy_to_device(context, device, host, bytes, nullptr, done);
  };
  const auto device = OpenGpuDevice(&table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  int32_t stream = 0, from = 5, to = 0;
  {
    const auto feed = (*device)->OpenFeed(4);
    ASSERT_TRUE(feed.ok()) << feed.status();
    ASSERT_TRUE((*feed)->Put(std::as_bytes(std::span(&from, 1)), &to, &stream).ok());
  }
  EXPECT_EQ(fed_on, &stream);
  EXPECT_EQ(to, 5);
}

TEST_F(GpuForm, AFewNumbersComeThroughPinnedMemory) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  atoll_gpu_table table{};
  std::memcpy(&table, plugin_.table, plugin_.table->table_bytes);
  static void* fetched_on = nullptr;
  static const atoll_gpu_table* const fake = plugin_.table;
  table.fetch_to_host = [](atoll_gpu_context* context, void* host, const void* device, uint64_t bytes,
                           void* compute_stream, atoll_gpu_event** done) {
    fetched_on = compute_stream;
    return fake->copy_to_host(context, host, device, bytes, nullptr, done);
  };
  for (const bool newest : {false, true}) {  // a plugin with kernels, and one that also fetches
    table.table_bytes = newest ? sizeof table : offsetof(atoll_gpu_table, feed_to_device);
    const auto device = OpenGpuDevice(&table, 0);
    ASSERT_TRUE(device.ok()) << device.status();
    StepKernels* const kernels = (*device)->step_kernels();
    ASSERT_NE(kernels, nullptr);
    const std::vector<float> there = {1, 2, 3, 4, 5};
    int32_t stream = 0;
    void* const compute = newest ? &stream : nullptr;
    for (const size_t count : std::initializer_list<size_t>{2, 5, 3}) {
      std::vector<float> here(count);
      ASSERT_TRUE(kernels->Fetch(std::span(there).first(count), here, compute).ok());
      EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin()));
    }
    EXPECT_EQ(fetched_on, compute) << "by the compute stream where the plugin can";
    std::vector<float> large(300'000);
    EXPECT_EQ(kernels->Fetch(large, large, compute).code(), absl::StatusCode::kResourceExhausted);
  }
}

// The plugin calls, as text.
std::string& Asked() {
  static std::string text;
  return text;
}

// The fake's table with recordings; logs the calls.
atoll_gpu_table WithRecordings(const atoll_gpu_table& fake) {
  atoll_gpu_table table{};
  std::memcpy(&table, &fake, fake.table_bytes);
  table.table_bytes = sizeof table;
  table.graph_open = [](atoll_gpu_context*, atoll_gpu_graph** out) {
    Asked() = "open";
    *out = reinterpret_cast<atoll_gpu_graph*>(&Asked());
    return int32_t{0};
  };
  table.graph_begin = [](atoll_gpu_graph*) {
    Asked() += " begin";
    return int32_t{0};
  };
  table.graph_end = [](atoll_gpu_graph*) {
    Asked() += " end";
    return int32_t{Asked().find("bad") == std::string::npos ? 0 : -1};
  };
  table.graph_close = [](atoll_gpu_graph*) {
    Asked() += " close";
    return int32_t{0};
  };
  table.graph_play = [](atoll_gpu_graph*) {
    Asked() += " play";
    return int32_t{0};
  };
  table.graph_free = [](atoll_gpu_graph*) { Asked() += " free"; };
  return table;
}

TEST_F(GpuForm, ARecordingIsAlwaysClosed) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_EQ((*OpenDevice(plugin_, "cuda:0"))->pass_recorder(), nullptr) << "of an older plugin";
  EXPECT_EQ(OpenCpuDevice()->pass_recorder(), nullptr);
  const atoll_gpu_table table = WithRecordings(*plugin_.table);
  const auto device = OpenGpuDevice(&table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  PassRecorder* const recorder = (*device)->pass_recorder();
  ASSERT_NE(recorder, nullptr);
  // A pass with a fixed result; its call number `failing` fails.
  int calls = 0;
  const auto record = [&](const char* said, int failing) {
    calls = 0;
    return recorder->Record([&calls, said, failing] {
      Asked() += said;
      return ++calls == failing ? absl::ResourceExhaustedError("out of memory") : absl::OkStatus();
    });
  };
  {
    const auto graph = record(" pass", 0);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE((*graph)->Play().ok());
    EXPECT_TRUE((*graph)->Play().ok());
  }
  EXPECT_EQ(Asked(), "open pass begin pass end close play play free");
  EXPECT_EQ(record(" pass", 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Asked(), "open pass close free");
  EXPECT_EQ(record(" pass", 2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Asked(), "open pass begin pass end close free");
  EXPECT_EQ(record(" bad", 0).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Asked(), "open bad begin bad end close free");
}

TEST_F(GpuForm, KernelsOfAPassAreThePluginsOrNone) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_EQ((*OpenDevice(plugin_, "cuda:0"))->pass_kernels(), nullptr) << "of an older plugin";
  EXPECT_EQ(OpenCpuDevice()->pass_kernels(), nullptr);
  atoll_gpu_table table{};
  std::memcpy(&table, plugin_.table, plugin_.table->table_bytes);
  table.table_bytes = sizeof table;
  // Each is refused if there is nothing to do.
  table.judge = [](atoll_gpu_context*, const atoll_gpu_judging* j) {
    return Asked() += " judge", j->rows > 0 ? 0 : -1;
  };
  table.gate = [](atoll_gpu_context*, const atoll_gpu_gating* g) { return Asked() += " gate", g->rows > 0 ? 0 : -1; };
  table.gate_back = [](atoll_gpu_context*, const atoll_gpu_gating* g) {
    return Asked() += " back", g->rows > 0 ? 0 : -1;
  };
  table.turn = [](atoll_gpu_context*, const atoll_gpu_turning* t) { return Asked() += " turn", t->heads > 0 ? 0 : -1; };
  const auto device = OpenGpuDevice(&table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  PassKernels* const kernels = (*device)->pass_kernels();
  ASSERT_NE(kernels, nullptr);
  Asked().clear();
  EXPECT_TRUE(kernels->Judge({.rows = 1}).ok());
  EXPECT_TRUE(kernels->Gate({.rows = 1}).ok());
  EXPECT_TRUE(kernels->GateBack({.rows = 1}).ok());
  EXPECT_TRUE(kernels->Turn({.heads = 1}).ok());
  EXPECT_EQ(Asked(), " judge gate back turn");
  const auto expect_told = [](const absl::Status& status, absl::string_view what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(status.message().find(absl::StrCat(what, " failed on the GPU: ")), 0u) << status;
  };
  expect_told(kernels->Judge({}), "the loss of some scores");
  expect_told(kernels->Gate({}), "SwiGLU");
  expect_told(kernels->GateBack({}), "the gradient of SwiGLU");
  expect_told(kernels->Turn({}), "the rotary embedding");
}

TEST_F(GpuForm, AnOlderPluginHasNoGroups) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  for (const absl::Status& refused : {(*device)->NewGroupKey().status(), (*device)->JoinGroup({}, 0, 2).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(refused.message().find("does not support islands of GPUs"), std::string::npos) << refused;
  }
  EXPECT_EQ(OpenCpuDevice()->NewGroupKey().status().code(), absl::StatusCode::kUnimplemented);
}

// The fake's table with groups; logs the calls.
atoll_gpu_table WithGroups(const atoll_gpu_table& fake) {
  atoll_gpu_table table{};
  std::memcpy(&table, &fake, fake.table_bytes);
  table.table_bytes = sizeof table;
  table.group_key = [](atoll_gpu_group_key* out) {
    std::memset(out->bytes, 7, sizeof out->bytes);
    return int32_t{0};
  };
  table.group_join = [](atoll_gpu_context*, const atoll_gpu_group_key* key, int32_t rank, int32_t world,
                        atoll_gpu_group** out) {
    Asked() = absl::StrCat("join ", key->bytes[127], " ", rank, " ", world);
    *out = reinterpret_cast<atoll_gpu_group*>(&Asked());
    return int32_t{rank < world ? 0 : -1};
  };
  table.group_poll = [](atoll_gpu_group*, atoll_gpu_group_state* state) {
    *state = ATOLL_GPU_GROUP_RUNNING;
    return int32_t{0};
  };
  table.group_mean = [](atoll_gpu_group*, float*, uint64_t elements, void*) {
    Asked() += absl::StrCat("; mean ", elements);
    return int32_t{elements > 0 ? 0 : -1};
  };
  table.group_broadcast = [](atoll_gpu_group*, float*, uint64_t elements, void*) {
    Asked() += absl::StrCat("; broadcast ", elements);
    return int32_t{0};
  };
  table.group_leave = [](atoll_gpu_group*) { Asked() += "; leave"; };
  return table;
}

TEST_F(GpuForm, AGroupIsThePlugins) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  const atoll_gpu_table table = WithGroups(*plugin_.table);
  const auto device = OpenGpuDevice(&table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto key = (*device)->NewGroupKey();
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ((*device)->JoinGroup(*key, 2, 2).status().code(), absl::StatusCode::kInternal);
  {
    const auto group = (*device)->JoinGroup(*key, 1, 2);
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(*(*group)->Poll(), GroupState::kRunning);
    std::vector<float> values(3);
    EXPECT_TRUE((*group)->BeginMean(values, nullptr).ok());
    EXPECT_TRUE((*group)->BeginBroadcast(std::span(values).first(2), nullptr).ok());
    EXPECT_EQ((*group)->BeginMean({}, nullptr).code(), absl::StatusCode::kInternal);
  }
  EXPECT_EQ(Asked(), "join 7 1 2; mean 3; broadcast 2; mean 0; leave");
}

}  // namespace
}  // namespace atl
