// SPDX-License-Identifier: Apache-2.0
// bench_passes [ROUNDS [ELEMENTS]]: the passes of a synchronisation round over a fragment of
// ELEMENTS parameters, for each codec, and the inner optimizer's passes on a CPU, as JSON for
// scripts/bench. Each group includes STREAM's triad as the reference, over arrays of twice the size
// and with the same number of threads.
//
// Bytes of a pass are the minimum traffic: each array once for each necessary read or write. e is
// the bytes of an encoded fragment, n its elements:
//   snapshot   8n local read and its copy written: the training thread's cost when a contribution is due
//   merge      8n outer copy read and local written, 12n if a share of the own parameters is kept: the training
//              thread's cost when the update is merged
//   encode     8n outer copy and local, e encoded; 8n residual read and written if the codec is lossy
//   aggregate  24n public copy, momentum and residual read and written, N e contributions, e update
//   apply      8n outer copy read and written, e update
//   outer step 16n momentum and pseudo-gradient read and written
//   AdamW      32n parameters, gradients and both moments read and written, 2n with the bf16 copy; the norm of the
//              gradients before it 4n
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/check.h"
#include "common/base/content_root.h"
#include "common/base/random.h"
#include "common/base/spread.h"
#include "common/codec/codec.h"
#include "common/codec/fused.h"
#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/aggregator.h"
#include "coordinator/aggregate/contribution_screener.h"
#include "coordinator/aggregate/round_pass.h"
#include "tests/bench/bench.h"
#include "tests/bench/memory.h"
#include "worker/device/cpu_step.h"
#include "worker/device/step_kernels.h"
#include "worker/replica/fragment_replica.h"

namespace atl::bench {
namespace {

constexpr CodecKind kCodecs[] = {CodecKind::kFp32, CodecKind::kBf16,  CodecKind::kFp16,
                                 CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};
constexpr size_t kContributions[] = {2, 8, 32};
constexpr size_t kTrimmed[] = {8, 32};
constexpr size_t kStill = 8;  // contributions of zeros

// Normal values scaled by `scale`; they repeat with a long period.
std::vector<float> Normals(uint64_t seed, size_t n, float scale) {
  std::vector<float> out(n);
  const size_t fresh = std::min<size_t>(n, 1 << 18);
  for (size_t i = 0; i < fresh; ++i) out[i] = NormalAt(seed, i) * scale;
  for (size_t i = fresh; i < n; ++i) out[i] = out[i - fresh];
  return out;
}

double Size(size_t bytes) { return static_cast<double>(bytes); }

void Require(const absl::Status& status) { ATOLL_CHECK(status.ok(), std::string(status.message()).c_str()); }

ModelLayout LayoutOf(size_t elements) {
  ModelLayout layout;
  layout.fragments.push_back({0, elements, {}});
  layout.elements = elements;
  layout.digest = {1, 2};
  return layout;
}

// A worker that forms one contribution after another.
class Sender {
 public:
  Sender(CodecKind codec, ErrorMemory memory, std::span<float> outer, std::span<const float> local)
      : codec_(codec), memory_(memory), outer_(outer), local_(local), hash_(ContentHash(outer, 1, {1, 2})) {
    auto replica = FragmentReplica::Create(outer, {.upload_codec = codec,
                                                   .download_codec = codec,
                                                   .upload_error_memory = memory,
                                                   .loco = {},
                                                   .layout_digest = {1, 2},
                                                   .buffers = std::make_shared<BufferShelf>(1)});
    Require(replica.status());
    replica_ = std::make_unique<FragmentReplica>(*std::move(replica));
    Require(replica_->Install(outer, Version{1}, hash_));
  }

  Variant Encode(unsigned threads) {
    const size_t n = outer_.size();
    const bool keeps = memory_ != ErrorMemory::kOff;
    const char* name = keeps || codec_ == CodecKind::kFp32 ? "encode" : "encode, without error memory";
    return {name, Size((keeps ? 16 : 8) * n + EncodedSize(codec_, n)),
            [this, threads] { Require(replica_->FormContribution(local_, threads).status()); },
            [this] { replica_->DropContribution(); }};
  }

 private:
  CodecKind codec_;
  ErrorMemory memory_;
  std::span<float> outer_;
  std::span<const float> local_;
  Digest hash_;
  std::unique_ptr<FragmentReplica> replica_;
};

// A coordinator's fragment and the contributions of a round, all made from the same delta.
class Rounds {
 public:
  Rounds(CodecKind codec, std::span<const float> parameters, std::span<const float> delta, size_t contributions,
         std::string of = "")
      : codec_(codec), of_(std::move(of)), elements_(parameters.size()), aggregator_(LayoutOf(parameters.size())) {
    Require(aggregator_.Restore(FragmentIndex{0}, {Version{0}, parameters, {}, {}}));
    std::vector<std::byte> encoded(EncodedSize(codec, elements_));
    atl::Encode(codec, delta, encoded);
    encoded_.assign(contributions, encoded);
    RoundInput input;
    input.codec = codec;
    input.encoded = encoded_[0];
    screen_ = aggregate::ScreenAll(std::span(&input, 1), elements_, 1).front();
  }

  Variant Close(size_t contributions, unsigned threads, MergeRule rule = MergeRule::kMean) {
    const size_t bytes = 24 * elements_ + (contributions + 1) * encoded_[0].size();
    const std::string pass = rule == MergeRule::kMean ? "aggregate" : "trimmed mean";
    return {pass + ", N = " + std::to_string(contributions) + of_,
            Size(bytes),
            [this, contributions, threads, rule] {
              const auto result =
                  aggregator_.CloseRound(FragmentIndex{0}, aggregator_.version(FragmentIndex{0}), Inputs(contributions),
                                         {.kind = OuterKind::kNesterov,
                                          .learning_rate = 1e-3,
                                          .momentum = 0.9,
                                          .merge = {.rule = rule, .trim_share = 0.25},
                                          .inner_steps = 10,
                                          .download_codec = codec_},
                                         threads);
              Require(result.status());
              ATOLL_CHECK(result->committed, "a round of finite contributions commits");
            },
            {}};
  }

  // The check of an arriving contribution, message by message.
  Variant Screen() {
    return {"screen",
            Size(encoded_[0].size()),
            [this] {
              constexpr size_t kPiece = size_t{1} << 20;
              ContributionScreener screener(codec_, elements_);
              for (size_t at = 0; at < encoded_[0].size(); at += kPiece) {
                const Bytes piece = Bytes(encoded_[0]).subspan(at, std::min(kPiece, encoded_[0].size() - at));
                screener.Update(at, std::span(&piece, 1));
              }
              ATOLL_CHECK(screener.Finish().has_value(), "a contribution that came whole has a screen");
            },
            {}};
  }
  Variant Hash() {
    const std::span<const float> result = aggregator_.State(FragmentIndex{0}).public_copy;
    return {"hash of the result", Size(4 * elements_), [result] { ContentHash(result, 1, {1, 2}); }, {}};
  }
  // Same as FragmentReplica::ApplyUpdate, which would need each hash in advance.
  Variant Apply(std::vector<float>& target, unsigned threads) {
    return {"apply" + of_,
            Size(8 * elements_ + encoded_[0].size()),
            [this, &target, threads] {
              std::vector<Digest> leaves((elements_ * sizeof(float) + kLeafBytes - 1) / kLeafBytes);
              Spread((elements_ + kCodecBlock - 1) / kCodecBlock, threads, [&](size_t first, size_t last) {
                for (size_t at = first * kCodecBlock; at < std::min(last * kCodecBlock, elements_); at += kCodecBlock) {
                  const std::span<float> block = std::span(target).subspan(at, std::min(kCodecBlock, elements_ - at));
                  DecodeScaledAccumulate(codec_, encoded_[0], at, 1, block);
                  HashLeaves(std::as_bytes(block), std::span(leaves).subspan(at * sizeof(float) / kLeafBytes));
                }
              });
              ContentRoot(leaves, 1, {1, 2});
            },
            {}};
  }

 private:
  std::vector<RoundInput> Inputs(size_t contributions) const {
    std::vector<RoundInput> inputs(contributions);
    for (size_t i = 0; i < contributions; ++i) {
      inputs[i].worker = WorkerId{"worker-" + std::to_string(100 + i)};
      inputs[i].codec = codec_;
      inputs[i].encoded = encoded_[i];
      inputs[i].tokens = 1000;
      inputs[i].steps = 10;
      inputs[i].screen = screen_;
    }
    return inputs;
  }

  CodecKind codec_;
  std::string of_;
  size_t elements_;
  Aggregator aggregator_;
  std::optional<ContributionScreen> screen_;
  std::vector<std::vector<std::byte>> encoded_;
};

Group OuterStep(MemoryYard& yard, size_t elements, unsigned threads, size_t rounds) {
  std::vector<float> momentum(elements, 0.5f), g(elements, 0.25f);
  const vecmath::OuterCoefficients c{.kind = OuterKind::kNesterov, .learning_rate = 0.7f, .momentum = 0.5f};
  Variant step{"outer step",
               Size(16 * elements),
               [&, threads] {
                 InParallel(threads, [&](unsigned part) {
                   const Part p = PartOf(elements, part, threads);
                   vecmath::OuterDirection(c, std::span(momentum).subspan(p.first, p.last - p.first),
                                           std::span(g).subspan(p.first, p.last - p.first));
                 });
               },
               {}};
  return Interleave("outer step", threads, {yard.TriadOn(threads), step}, rounds);
}

// A CPU worker's work once the gradients of a step are ready.
Group InnerStep(MemoryYard& yard, size_t elements, unsigned threads, size_t rounds) {
  std::vector<float> parameters = Normals(1, elements, 0.02f), gradients = Normals(2, elements, 1e-3f), first(elements),
                     second(elements), sums((elements + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK);
  std::vector<uint16_t> rounded(elements);
  const AdamwSpans spans{parameters, gradients, first, second, {}};
  const atoll_gpu_adamw factors = FactorsOf(
      {.learning_rate = 1e-4, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_factor = 0.5});
  const auto update = [&, threads](std::span<uint16_t> copy) {
    InParallel(threads, [&](unsigned part) {
      const Part p = PartOf(elements, part, threads);
      const auto cut = [&](auto s) { return s.empty() ? s : s.subspan(p.first, p.last - p.first); };
      cpu_step::Adamw(factors, true,
                      {cut(spans.parameters), cut(spans.gradients), cut(spans.first), cut(spans.second), cut(copy)});
    });
  };
  const auto norm = [&, threads] {
    InParallel(threads, [&](unsigned part) {
      const Part p = PartOf(elements, part, threads);
      const size_t block = p.first / ATOLL_GPU_SUM_BLOCK;
      const std::span<const float> values = std::span(gradients).subspan(p.first, p.last - p.first);
      const size_t blocks = (values.size() + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK;
      cpu_step::SumSquares(values, std::span(sums).subspan(block, blocks));
    });
  };
  return Interleave("inner step", threads,
                    {yard.TriadOn(threads),
                     {"AdamW", Size(32 * elements), [&] { update({}); }, {}},
                     {"AdamW and the copy in bf16", Size(34 * elements), [&] { update(rounded); }, {}},
                     {"norm of the gradients", Size(4 * elements), norm, {}}},
                    rounds);
}

// The training thread's work between two steps. A snapshot reuses its memory, as in worker/session.
Group BetweenSteps(MemoryYard& yard, std::span<const float> outer, std::span<const float> local, size_t rounds) {
  std::vector<float> kept(local.size());
  const auto merge = [&](const char* name, size_t times, double mix) {
    return Variant{name, Size(times * local.size_bytes()), [&, mix] { vecmath::Merge(mix, outer, kept); }, {}};
  };
  Variant snapshot{"snapshot", Size(2 * local.size_bytes()), [&] { vecmath::Copy(local, kept); }, {}};
  return Interleave(
      "snapshot", 1,
      {yard.TriadOn(1), yard.CopyOn(1), snapshot, merge("merge", 2, 0), merge("merge, half kept", 3, 0.5)}, rounds);
}

std::vector<Group> Run(size_t rounds, size_t elements, const std::string& only) {
  std::vector<Group> groups;
  MemoryYard yard(2 * elements);
  std::vector<float> outer = Normals(1, elements, 0.02f);
  std::vector<float> local = outer;
  const std::vector<float> step = Normals(3, elements, 1e-3f), delta = Normals(2, elements, 1e-3f), zeros(elements);
  vecmath::Add(step, local);
  for (const unsigned threads : {1u, 2u}) groups.push_back(OuterStep(yard, elements, threads, rounds));
  for (const unsigned threads : {1u, 2u}) groups.push_back(InnerStep(yard, elements, threads, rounds));
  groups.push_back(BetweenSteps(yard, outer, local, rounds));
  for (const CodecKind codec : kCodecs) {
    if (!only.empty() && only != CodecName(codec)) continue;
    const bool loses = codec != CodecKind::kFp32;
    Sender sender(codec, loses ? ErrorMemory::kFeedback : ErrorMemory::kOff, outer, local);
    std::optional<Sender> forgetful;
    if (loses) forgetful.emplace(codec, ErrorMemory::kOff, outer, local);
    Rounds round(codec, outer, delta, *std::max_element(std::begin(kContributions), std::end(kContributions)));
    Rounds still(codec, outer, zeros, kStill, ", of zeros");
    std::vector<float> target = outer;
    for (const unsigned threads : {1u, 2u}) {
      std::vector<Variant> variants = {yard.TriadOn(threads), sender.Encode(threads), round.Apply(target, threads)};
      if (forgetful) variants.push_back(forgetful->Encode(threads));
      if (threads == 1) variants.insert(variants.end(), {round.Screen(), round.Hash()});
      for (const size_t n : kContributions) variants.push_back(round.Close(n, threads));
      for (const size_t n : kTrimmed) {
        if (codec == CodecKind::kMxfp4) variants.push_back(round.Close(n, threads, MergeRule::kTrimmedMean));
      }
      if (threads == 1) variants.insert(variants.end(), {still.Apply(target, threads), still.Close(kStill, threads)});
      groups.push_back(Interleave(CodecName(codec), threads, std::move(variants), rounds));
    }
  }
  return groups;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  uint64_t rounds = 7, elements = 8 << 20;
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &rounds)) || (argc > 2 && !absl::SimpleAtoi(argv[2], &elements)))
    return 2;
  atl::bench::TuneMalloc();
  atl::bench::PrintJson(
      atl::bench::Run(std::max<uint64_t>(1, rounds), std::max<uint64_t>(4096, elements), argc > 3 ? argv[3] : ""));
  return 0;
}
