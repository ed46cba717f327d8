// SPDX-License-Identifier: Apache-2.0
// Compares common/plan/worker_memory.h's figures for synchronisation memory on the host with all
// bytes that a job's replicas allocate by operator new, at each point of a fragment's round.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/plan/worker_memory.h"
#include "gtest/gtest.h"
#include "tests/support/manual_executor.h"
#include "worker/replica/replicas.h"

namespace {

std::atomic<size_t> live_bytes{0}, most_bytes{0};

void* Counted(void* memory) {
  if (memory == nullptr) std::abort();
  const size_t now = live_bytes += malloc_usable_size(memory);
  size_t most = most_bytes;
  while (most < now && !most_bytes.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void* Aligned(size_t bytes, std::align_val_t alignment) {
  const auto a = static_cast<size_t>(alignment);
  return std::aligned_alloc(a, (bytes + a - 1) / a * a);
}

void Return(void* memory) noexcept {
  if (memory == nullptr) return;
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// For the whole program. All forms, since under the address sanitizer no form calls another.
void* operator new(size_t bytes) { return Counted(std::malloc(bytes)); }
void* operator new[](size_t bytes) { return Counted(std::malloc(bytes)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Counted(std::malloc(bytes)); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Counted(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return Counted(Aligned(bytes, alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return Counted(Aligned(bytes, alignment)); }
void operator delete(void* memory) noexcept { Return(memory); }
void operator delete[](void* memory) noexcept { Return(memory); }
void operator delete(void* memory, size_t) noexcept { Return(memory); }
void operator delete[](void* memory, size_t) noexcept { Return(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Return(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Return(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Return(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { Return(memory); }

namespace atl {
namespace {

// Objects and malloc's rounding, in addition to buffers that grow with the model; plus 0.5 % of the
// total.
constexpr double kSlackBytes = 64e3, kTolerance = 0.005;

ModelLayout Layout(FragmentPattern pattern) {
  ModelSpec model;
  model.vocab_size = 256;
  model.hidden_size = 128;
  model.intermediate_size = 344;
  model.layers = 4;
  model.heads = model.kv_heads = 4;
  model.head_dim = 32;
  return MakeModelLayout(model, pattern, 1);
}

struct Options {
  const char* name;
  FragmentPattern pattern;
  CodecKind upload, download;
  ErrorMemory memory;
};
std::ostream& operator<<(std::ostream& out, const Options& options) { return out << options.name; }

class ReplicasMemory : public testing::TestWithParam<Options> {
 protected:
  ReplicasMemory() : layout_(Layout(GetParam().pattern)), parameters_(layout_.elements) {
    spec_.sync.upload_codec = GetParam().upload;
    spec_.sync.download_codec = GetParam().download;
    spec_.sync.upload_error_memory = GetParam().memory;
    items_ = WorkerMemoryItems(WorkerMemoryJobOf(spec_, layout_), {.gpu = false}, &EncodedSize);
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = NormalAt(1, i);
    begin_ = live_bytes;
    auto made = Replicas::Create(layout_, spec_, *device_, parameters_, nullptr, executor_);
    EXPECT_TRUE(made.ok()) << made.status();
    replicas_ = *std::move(made);
  }

  // Bytes held by the replicas, without the test's own fetched updates.
  double Held() const { return static_cast<double>(live_bytes - begin_); }
  double Says(std::initializer_list<MemoryItem> items) const {
    double sum = 0;
    for (const MemoryItem item : items) sum += static_cast<double>(BytesOf(items_, item));
    return sum;
  }
  static void ExpectNear(double held, double says) { EXPECT_NEAR(held, says, kTolerance * says + kSlackBytes); }

  FetchedBytes Fetched(uint32_t fragment, uint64_t version, bool whole, Bytes bytes, Digest hash) const {
    return {JobId{"job"},
            {FragmentIndex{fragment}, Version{version}},
            whole,
            hash,
            std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
  }

  void Install(uint32_t p) {
    const FragmentInfo& place = layout_.fragments[p];
    const std::span<const float> values = std::span(parameters_).subspan(place.offset, place.elements);
    replicas_->Keep(Fetched(p, 0, true, std::as_bytes(values), ContentHash(values, 0, layout_.digest)));
    ASSERT_TRUE(replicas_->Install(FragmentIndex{p}, Version{0}).ok());
    ASSERT_TRUE(replicas_->AdoptOuter(FragmentIndex{p}).ok());
  }

  void Form(uint32_t p, bool at_rest = false) {
    std::optional<FormingEnded> ended;
    replicas_->BeginForm({FragmentIndex{p}, Version{0}}, ++errands_, at_rest,
                         [&ended](FormingEnded e) { ended = std::move(e); });
    executor_.RunAll();
    ASSERT_TRUE(ended.has_value());
    ASSERT_TRUE(ended->status.ok()) << ended->status;
    ASSERT_TRUE(replicas_->EndForm(*ended));
  }

  // An update of zeros.
  FetchedBytes Update(uint32_t p) const {
    const FragmentInfo& place = layout_.fragments[p];
    const std::vector<float> zeros(place.elements),
        values(parameters_.begin() + static_cast<std::ptrdiff_t>(place.offset),
               parameters_.begin() + static_cast<std::ptrdiff_t>(place.offset + place.elements));
    std::vector<std::byte> encoded(EncodedSize(spec_.sync.download_codec, place.elements));
    Encode(spec_.sync.download_codec, zeros, encoded);
    return Fetched(p, 1, false, encoded, ContentHash(values, 1, layout_.digest));
  }

  const ModelLayout layout_;
  JobSpec spec_;
  std::vector<float> parameters_;
  const std::unique_ptr<Device> device_ = OpenCpuDevice();
  std::vector<WorkerMemoryItem> items_;
  ManualExecutor executor_;
  uint64_t errands_ = 0;
  size_t begin_ = 0;
  std::unique_ptr<Replicas> replicas_;
};

TEST_P(ReplicasMemory, HoldsNoCopyOfParametersAtRest) {
  const auto fragments = static_cast<uint32_t>(layout_.fragments.size());
  for (uint32_t p = 0; p < fragments; ++p) Install(p);
  for (uint32_t p = 0; p < fragments; ++p) ASSERT_NO_FATAL_FAILURE(Form(p, true));
  ExpectNear(Held(), Says({MemoryItem::kOuterCopy, MemoryItem::kResidual, MemoryItem::kPendingResidual,
                           MemoryItem::kContribution}));
}

TEST_P(ReplicasMemory, MemoryMatchesTheDocumentedSizes) {
  const auto fragments = static_cast<uint32_t>(layout_.fragments.size());
  const double begun = Says({MemoryItem::kOuterCopy, MemoryItem::kResidual});
  ExpectNear(Held(), begun);
  for (uint32_t p = 0; p < fragments; ++p) Install(p);
  ExpectNear(Held(), begun);

  const double always = begun + Says({MemoryItem::kSnapshot});  // from the first send on
  for (uint32_t p = 0; p < fragments; ++p) ASSERT_NO_FATAL_FAILURE(Form(p));
  const double sent = always + Says({MemoryItem::kPendingResidual, MemoryItem::kContribution});
  ExpectNear(Held(), sent);

  // All updates arrive at once; the network side's buffer of the largest update is the kept one.
  for (uint32_t p = 0; p < fragments; ++p) replicas_->Keep(Update(p));
  const double largest =
      static_cast<double>(EncodedSize(spec_.sync.download_codec, BytesOf(items_, MemoryItem::kKeptDownload) / 4));
  const double updates = Says({MemoryItem::kUpdates}) + largest;
  ExpectNear(Held(), sent + updates);
  EXPECT_LE(Held(), static_cast<double>(HeldBytes(items_, MemoryPlace::kHost)) -
                        Says({MemoryItem::kParameters, MemoryItem::kGradients, MemoryItem::kMoments}) + kSlackBytes);

  // Applied one after the other; each change stays until it is resolved.
  most_bytes = live_bytes.load();
  for (uint32_t p = 0; p < fragments; ++p) {
    const auto verdict = replicas_->Apply({FragmentIndex{p}, Version{1}}, Standing::kAhead, Digest{});
    ASSERT_TRUE(verdict.ok() && *verdict == ApplyVerdict::kApplied) << verdict.status();
    ASSERT_TRUE(replicas_->Resolve(FragmentIndex{p}, Standing::kAhead, 0).ok());
  }
  EXPECT_LE(static_cast<double>(most_bytes - begin_), sent + updates + Says({MemoryItem::kChange}) + kSlackBytes);
  EXPECT_GE(static_cast<double>(most_bytes - begin_), sent + Says({MemoryItem::kChange}));
}

TEST_P(ReplicasMemory, KeepsOneBufferOfContributions) {
  const auto fragments = static_cast<uint32_t>(layout_.fragments.size());
  for (uint32_t p = 0; p < fragments; ++p) Install(p);
  for (uint32_t p = 0; p < fragments; ++p) {
    ASSERT_NO_FATAL_FAILURE(Form(p));
    replicas_->DropContribution(FragmentIndex{p});
  }
  EXPECT_LE(Held(),
            Says({MemoryItem::kOuterCopy, MemoryItem::kResidual, MemoryItem::kSnapshot, MemoryItem::kContribution}) +
                kSlackBytes);
}

INSTANTIATE_TEST_SUITE_P(
    Options, ReplicasMemory,
    testing::Values(
        Options{"whole_fp32", FragmentPattern::kWhole, CodecKind::kFp32, CodecKind::kFp32, ErrorMemory::kOff},
        Options{"fp32", FragmentPattern::kStrided, CodecKind::kFp32, CodecKind::kFp32, ErrorMemory::kOff},
        Options{"whole_feedback", FragmentPattern::kWhole, CodecKind::kMxfp4, CodecKind::kBf16, ErrorMemory::kFeedback},
        Options{"feedback", FragmentPattern::kStrided, CodecKind::kBf16, CodecKind::kMxfp4, ErrorMemory::kFeedback},
        Options{"loco", FragmentPattern::kStrided, CodecKind::kMxfp4, CodecKind::kMxfp4, ErrorMemory::kLoco},
        Options{"int8", FragmentPattern::kSequential, CodecKind::kInt8, CodecKind::kFp16, ErrorMemory::kOff}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace atl
