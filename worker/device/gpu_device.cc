// SPDX-License-Identifier: Apache-2.0
// The CUDA implementation of Device, over the plugin's table of C functions.
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/device/gpu_calls.h"
#include "worker/device/gpu_plugin.h"

namespace atl {
namespace {

constexpr char kCopy[] = "waiting for a copy";

// Owns pinned memory and at most one event: a new copy first waits for the previous one.
class GpuWindow final : public HostWindow {
 public:
  GpuWindow(const atoll_gpu_table& table, atoll_gpu_context* context, std::span<float> range, float* pinned)
      : table_(table), context_(context), range_(range), pinned_(pinned) {}
  ~GpuWindow() override {
    static_cast<void>(Wait());  // the copy must end before its memory is freed; its result is not needed
    table_.pinned_free(context_, pinned_);
  }
  GpuWindow(const GpuWindow&) = delete;
  GpuWindow& operator=(const GpuWindow&) = delete;

  absl::Status Snapshot(void* compute_stream) override {
    ATOLL_RETURN_IF_ERROR(Wait());
    if (table_.copy_to_host(context_, pinned_, range_.data(), range_.size_bytes(), compute_stream, &event_) == 0) {
      return absl::OkStatus();
    }
    event_ = nullptr;
    return Failed(table_, "the copy of a fragment to the host");
  }

  absl::Status WriteBack(void* compute_stream) override {
    ATOLL_RETURN_IF_ERROR(Wait());
    if (table_.copy_to_device(context_, range_.data(), pinned_, range_.size_bytes(), compute_stream, &event_) == 0) {
      return absl::OkStatus();
    }
    event_ = nullptr;
    return Failed(table_, "the copy of a fragment to the device");
  }

  absl::Status Wait() override { return AwaitEvent(table_, event_, kCopy); }

  absl::StatusOr<bool> Done() override {
    if (event_ == nullptr) return true;
    int32_t done = 0;
    if (table_.event_query(event_, &done) != 0) return Failed(table_, "querying the state of a copy");
    return done != 0;
  }

  std::span<float> host() override { return {pinned_, range_.size()}; }
  bool is_direct() const override { return false; }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_context* context_;
  std::span<float> range_;  // device memory
  float* pinned_;
  atoll_gpu_event* event_ = nullptr;
};

// Two pinned buffers, each with the event at the end of its last copy.
class GpuFeed final : public HostFeed {
 public:
  GpuFeed(const atoll_gpu_table& table, atoll_gpu_context* context, uint64_t most_bytes)
      : table_(table), context_(context), most_bytes_(most_bytes) {}
  ~GpuFeed() override {
    for (Buffer& buffer : buffers_) {
      static_cast<void>(AwaitEvent(table_, buffer.event, kCopy));  // the copy must end before its memory is freed
      if (buffer.pinned != nullptr) table_.pinned_free(context_, buffer.pinned);
    }
  }
  GpuFeed(const GpuFeed&) = delete;
  GpuFeed& operator=(const GpuFeed&) = delete;

  absl::Status Allocate() {
    for (Buffer& buffer : buffers_) {
      if (table_.pinned_allocate(context_, most_bytes_, &buffer.pinned) == 0) continue;
      buffer.pinned = nullptr;
      return absl::ResourceExhaustedError(absl::StrCat(
          "no ", 2 * most_bytes_, " bytes of pinned host memory for the tokens of a step: ", LastError(table_),
          "; free host memory"));
    }
    return absl::OkStatus();
  }

  absl::Status Put(Bytes bytes, void* to, void* compute_stream) override {
    if (bytes.size() > most_bytes_) return TooLarge(bytes.size(), most_bytes_);
    if (bytes.empty()) return absl::OkStatus();
    Buffer& buffer = buffers_[next_];
    next_ = 1 - next_;
    ATOLL_RETURN_IF_ERROR(AwaitEvent(table_, buffer.event, kCopy));
    std::memcpy(buffer.pinned, bytes.data(), bytes.size());
    const auto copy = ATOLL_GPU_HAS(&table_, feed_to_device) ? table_.feed_to_device : table_.copy_to_device;
    if (copy(context_, to, buffer.pinned, bytes.size(), compute_stream, &buffer.event) == 0) return absl::OkStatus();
    buffer.event = nullptr;
    return Failed(table_, "the copy of tokens to the device");
  }

 private:
  struct Buffer {
    void* pinned = nullptr;
    atoll_gpu_event* event = nullptr;
  };

  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
  const uint64_t most_bytes_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};

class GpuGroup final : public DeviceGroup {
 public:
  GpuGroup(const atoll_gpu_table& table, atoll_gpu_group* group) : table_(table), group_(group) {}
  ~GpuGroup() override { table_.group_leave(group_); }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  absl::StatusOr<GroupState> Poll() override {
    atoll_gpu_group_state state = ATOLL_GPU_GROUP_BUSY;
    if (table_.group_poll(group_, &state) != 0) return Failed(table_, "the exchange between devices");
    return state == ATOLL_GPU_GROUP_BUSY      ? GroupState::kBusy
           : state == ATOLL_GPU_GROUP_RUNNING ? GroupState::kRunning
                                              : GroupState::kIdle;
  }
  absl::Status BeginMean(std::span<float> values, void* compute_stream) override {
    if (table_.group_mean(group_, values.data(), values.size(), compute_stream) == 0) return absl::OkStatus();
    return Failed(table_, "starting an all-reduce between devices");
  }
  absl::Status BeginBroadcast(std::span<float> values, void* compute_stream) override {
    if (table_.group_broadcast(group_, values.data(), values.size(), compute_stream) == 0) return absl::OkStatus();
    return Failed(table_, "starting a broadcast between devices");
  }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_group* const group_;
};

// Owns pinned memory of the largest Fetch so far.
class GpuStepKernels final : public StepKernels {
 public:
  GpuStepKernels(const atoll_gpu_table& table, atoll_gpu_context* context) : table_(table), context_(context) {}
  ~GpuStepKernels() override { Unpin(); }
  GpuStepKernels(const GpuStepKernels&) = delete;
  GpuStepKernels& operator=(const GpuStepKernels&) = delete;

  absl::Status Adamw(const AdamwUpdate& update, const AdamwSpans& spans, void* compute_stream) override {
    const atoll_gpu_adamw factors = FactorsOf(update);
    const int32_t result =
        table_.adamw_step(context_, &factors, spans.parameters.data(), spans.gradients.data(), spans.first.data(),
                          spans.second.data(), spans.rounded.empty() ? nullptr : spans.rounded.data(),
                          spans.parameters.size(), update.clear ? 1 : 0, compute_stream);
    return result == 0 ? absl::OkStatus() : Failed(table_, "the update of parameters");
  }
  absl::Status SumSquares(std::span<const float> values, std::span<float> sums, void* compute_stream) override {
    const int32_t result = table_.sum_squares(context_, values.data(), values.size(), sums.data(), compute_stream);
    return result == 0 ? absl::OkStatus() : Failed(table_, "the norm of the gradients");
  }
  absl::Status Fetch(std::span<const float> from, std::span<float> to, void* compute_stream) override {
    ATOLL_CHECK(from.size() == to.size(), "what is fetched has its place");
    ATOLL_RETURN_IF_ERROR(Pin(to.size_bytes()));
    const auto copy = ATOLL_GPU_HAS(&table_, fetch_to_host) ? table_.fetch_to_host : table_.copy_to_host;
    atoll_gpu_event* event = nullptr;
    if (copy(context_, pinned_, from.data(), to.size_bytes(), compute_stream, &event) != 0) {
      return Failed(table_, "the copy of a few numbers to the host");
    }
    ATOLL_RETURN_IF_ERROR(AwaitEvent(table_, event, kCopy));
    std::memcpy(to.data(), pinned_, to.size_bytes());
    return absl::OkStatus();
  }

 private:
  absl::Status Pin(uint64_t bytes) {
    if (bytes <= pinned_bytes_) return absl::OkStatus();
    Unpin();
    if (table_.pinned_allocate(context_, bytes, &pinned_) == 0) {
      pinned_bytes_ = bytes;
      return absl::OkStatus();
    }
    pinned_ = nullptr;
    return absl::ResourceExhaustedError(absl::StrCat(
        "no ", bytes, " bytes of pinned host memory for the norm: ", LastError(table_), "; free host memory"));
  }
  void Unpin() {
    if (pinned_ != nullptr) table_.pinned_free(context_, pinned_);
    pinned_ = nullptr;
    pinned_bytes_ = 0;
  }

  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
  void* pinned_ = nullptr;
  uint64_t pinned_bytes_ = 0;
};

class GpuPassKernels final : public PassKernels {
 public:
  GpuPassKernels(const atoll_gpu_table& table, atoll_gpu_context* context) : table_(table), context_(context) {}
  absl::Status Judge(const atoll_gpu_judging& judging) override {
    return table_.judge(context_, &judging) == 0 ? absl::OkStatus() : Failed(table_, "the loss of some scores");
  }
  absl::Status Gate(const atoll_gpu_gating& gating) override {
    return table_.gate(context_, &gating) == 0 ? absl::OkStatus() : Failed(table_, "SwiGLU");
  }
  absl::Status GateBack(const atoll_gpu_gating& gating) override {
    return table_.gate_back(context_, &gating) == 0 ? absl::OkStatus() : Failed(table_, "the gradient of SwiGLU");
  }
  absl::Status Turn(const atoll_gpu_turning& turning) override {
    return table_.turn(context_, &turning) == 0 ? absl::OkStatus() : Failed(table_, "the rotary embedding");
  }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
};

class GpuPassGraph final : public PassGraph {
 public:
  GpuPassGraph(const atoll_gpu_table& table, atoll_gpu_graph* graph) : table_(table), graph_(graph) {}
  ~GpuPassGraph() override { table_.graph_free(graph_); }
  GpuPassGraph(const GpuPassGraph&) = delete;
  GpuPassGraph& operator=(const GpuPassGraph&) = delete;
  absl::Status Play() override {
    return table_.graph_play(graph_) == 0 ? absl::OkStatus() : Failed(table_, "launching the CUDA graph of a pass");
  }

  // During the call LibTorch's current stream is the recording stream; on return it is restored, also on a failure.
  absl::Status Record(const std::function<absl::Status()>& pass) {
    absl::Status status = pass();
    if (status.ok()) status = RecordOnce(pass);
    if (table_.graph_close(graph_) != 0 && status.ok()) status = Failed(table_, "the end of a recording");
    return status;
  }

 private:
  absl::Status RecordOnce(const std::function<absl::Status()>& pass) {
    if (table_.graph_begin(graph_) != 0) return Failed(table_, "the recording of a pass");
    absl::Status passed = pass();
    const int32_t ended = table_.graph_end(graph_);
    if (!passed.ok()) return passed;
    return ended == 0 ? absl::OkStatus() : Failed(table_, "the recording of a pass");
  }

  const atoll_gpu_table& table_;
  atoll_gpu_graph* const graph_;
};

class GpuPassRecorder final : public PassRecorder {
 public:
  GpuPassRecorder(const atoll_gpu_table& table, atoll_gpu_context* context) : table_(table), context_(context) {}
  absl::StatusOr<std::unique_ptr<PassGraph>> Record(const std::function<absl::Status()>& pass) override {
    atoll_gpu_graph* opened = nullptr;
    if (table_.graph_open(context_, &opened) != 0) return Failed(table_, "the recording of a pass");
    auto graph = std::make_unique<GpuPassGraph>(table_, opened);
    ATOLL_RETURN_IF_ERROR(graph->Record(pass));
    return std::unique_ptr<PassGraph>(std::move(graph));
  }

 private:
  const atoll_gpu_table& table_;
  atoll_gpu_context* const context_;
};

class GpuDevice final : public Device {
 public:
  GpuDevice(const atoll_gpu_table& table, atoll_gpu_context* context, DeviceInfo info)
      : table_(table),
        context_(context),
        info_(std::move(info)),
        kernels_(std::in_place, table, context),
        pass_kernels_(table, context),
        recorder_(table, context) {}
  ~GpuDevice() override {
    kernels_.reset();  // its pinned memory belongs to the context
    table_.device_close(context_);
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<uint64_t> FreeMemoryBytes() override {
    uint64_t free_bytes = 0, total_bytes = 0;
    if (table_.device_memory(context_, &free_bytes, &total_bytes) != 0) return Failed(table_, "querying free memory");
    return free_bytes;
  }

  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) override {
    void* pinned = nullptr;
    if (table_.pinned_allocate(context_, range.size_bytes(), &pinned) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no ", range.size_bytes(), " bytes of pinned host memory for a fragment: ", LastError(table_),
                       "; use smaller fragments or free host memory"));
    }
    return std::unique_ptr<HostWindow>(
        std::make_unique<GpuWindow>(table_, context_, range, static_cast<float*>(pinned)));
  }

  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t most_bytes) override {
    auto feed = std::make_unique<GpuFeed>(table_, context_, most_bytes);
    ATOLL_RETURN_IF_ERROR(feed->Allocate());
    return std::unique_ptr<HostFeed>(std::move(feed));
  }

  absl::StatusOr<GroupKey> NewGroupKey() override {
    ATOLL_RETURN_IF_ERROR(CheckGroups());
    atoll_gpu_group_key made;
    if (table_.group_key(&made) != 0) return Failed(table_, "creating the key of a group");
    GroupKey key;
    static_assert(sizeof(made.bytes) == std::tuple_size_v<GroupKey>);
    std::memcpy(key.data(), made.bytes, key.size());
    return key;
  }

  absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& key, uint32_t rank, uint32_t world) override {
    ATOLL_RETURN_IF_ERROR(CheckGroups());
    atoll_gpu_group_key given;
    std::memcpy(given.bytes, key.data(), key.size());
    atoll_gpu_group* group = nullptr;
    if (table_.group_join(context_, &given, static_cast<int32_t>(rank), static_cast<int32_t>(world), &group) != 0) {
      return Failed(table_, "joining a group");
    }
    return std::unique_ptr<DeviceGroup>(std::make_unique<GpuGroup>(table_, group));
  }

  absl::StatusOr<std::unique_ptr<DeviceEncoder>> OpenEncoder(const DeviceEncoderOptions& options) override {
    return OpenGpuEncoder(table_, context_, options);
  }

  PassRecorder* pass_recorder() override { return ATOLL_GPU_HAS(&table_, graph_free) ? &recorder_ : nullptr; }

  PassKernels* pass_kernels() override { return ATOLL_GPU_HAS(&table_, turn) ? &pass_kernels_ : nullptr; }

  StepKernels* step_kernels() override { return ATOLL_GPU_HAS(&table_, sum_squares) ? &*kernels_ : nullptr; }

 private:
  absl::Status CheckGroups() const {
    if (ATOLL_GPU_HAS(&table_, group_leave)) return absl::OkStatus();
    return absl::UnimplementedError(
        "the installed GPU plugin does not support islands of GPUs; install the plugin of this worker's version");
  }

  const atoll_gpu_table& table_;
  atoll_gpu_context* context_;
  DeviceInfo info_;
  std::optional<GpuStepKernels> kernels_;
  GpuPassKernels pass_kernels_;
  GpuPassRecorder recorder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenGpuDevice(const atoll_gpu_table* table, int index) {
  int32_t count = 0;
  if (table == nullptr) return absl::InvalidArgumentError("no GPU plugin is loaded");
  if (table->device_count(&count) != 0) return Failed(*table, "counting devices");
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("GPU ", index, " was requested, but there are ", count, "; name one of them or use --device=cpu"));
  }
  atoll_gpu_context* context = nullptr;
  if (table->device_open(index, &context) != 0) return Failed(*table, "opening the device");
  std::array<char, 256> name{};
  uint64_t free_bytes = 0, total_bytes = 0;
  if (table->device_name(context, name.data(), name.size()) != 0 ||
      table->device_memory(context, &free_bytes, &total_bytes) != 0) {
    const absl::Status status = Failed(*table, "querying the device's properties");
    table->device_close(context);
    return status;
  }
  name.back() = '\0';
  return std::unique_ptr<Device>(std::make_unique<GpuDevice>(
      *table, context, DeviceInfo{DeviceKind::kCuda, index, std::string(name.data()), total_bytes}));
}

}  // namespace atl
