#include "coordinator/aggregate/round_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <thread>

#include "common/codec/codec.h"

namespace atl::aggregate {
namespace {

constexpr size_t kBlock = kCodecBlock;
static_assert(kBlock == vecmath::kSumBlock,
              "one block of the pass is one block of a sum and whole blocks of every codec");

size_t BlockCount(size_t elements) { return (elements + kBlock - 1) / kBlock; }

template <typename T>
std::span<T> BlockOf(std::span<T> x, size_t block) {
  return x.subspan(block * kBlock, std::min(kBlock, x.size() - block * kBlock));
}

// Runs walk(first, last) over contiguous, disjoint parts of [0, blocks), the first part in the caller's thread.
void Spread(size_t blocks, unsigned threads, const std::function<void(size_t, size_t)>& walk) {
  const size_t parts = std::max<size_t>(1, std::min<size_t>(threads, blocks));
  std::vector<std::jthread> helpers;
  for (size_t part = 1; part < parts; ++part) {
    helpers.emplace_back([&walk, part, parts, blocks] { walk(blocks * part / parts, blocks * (part + 1) / parts); });
  }
  walk(0, blocks / parts);
}

ContributionScreen Summarise(std::span<const vecmath::BlockStats> blocks) {
  double squares = 0;
  ContributionScreen screen;
  for (const vecmath::BlockStats& block : blocks) {
    squares += block.sum_squares;
    screen.max_abs = std::max(screen.max_abs, block.max_abs);
    screen.finite = screen.finite && block.finite;
  }
  if (!screen.finite) return {.finite = false, .norm = 0, .max_abs = 0};
  screen.norm = std::sqrt(squares);
  return screen;
}

// One in so many blocks is compared.
size_t ComparedStride(size_t blocks) { return std::max<size_t>(1, (blocks + kComparedBlocks - 1) / kComparedBlocks); }

// One block's share of the sums; `dots` stays empty.
using BlockSums = MergeSums;

void AddBlock(const BlockSums& block, MergeSums& total) {
  total.merged_squares += block.merged_squares;
  total.step_squares += block.step_squares;
  total.momentum_squares += block.momentum_squares;
  total.momentum_dot += block.momentum_dot;
  total.sent_squares += block.sent_squares;
  total.lost_squares += block.lost_squares;
  total.compared_squares += block.compared_squares;
  total.previous_squares += block.previous_squares;
  total.compared_dot += block.compared_dot;
  total.public_max = std::max(total.public_max, block.public_max);
  total.momentum_max = std::max(total.momentum_max, block.momentum_max);
  total.residual_max = std::max(total.residual_max, block.residual_max);
}

// One thread's walk: scratch for every input's block, the merged block and the decoded update.
class Walker {
 public:
  explicit Walker(const MergeJob& job)
      : job_(job),
        compared_stride_(ComparedStride(BlockCount(job.public_copy.size()))),
        inputs_(job.inputs.size() * kBlock),
        merged_(kBlock),
        decoded_(kBlock) {}

  BlockSums Close(size_t block, std::span<double> dots) {
    const std::span<float> g = std::span(merged_).first(BlockOf(job_.public_copy, block).size());
    BlockSums sums;
    sums.merged_squares = Merge(block, g, dots);
    const std::span<float> momentum = BlockOf(job_.momentum, block);
    if (job_.outer.kind != OuterKind::kSgd) {
      sums.momentum_squares = vecmath::BlockStatistics(momentum).sum_squares;
      sums.momentum_dot = vecmath::BlockDot(g, momentum);
    }
    vecmath::OuterDirection(job_.outer, momentum, g);
    sums.step_squares = vecmath::BlockStatistics(g).sum_squares;
    if (block % compared_stride_ == 0) Compare(block / compared_stride_, g, sums);
    sums.momentum_max = vecmath::BlockStatistics(momentum).max_abs;
    Publish(block, g, sums);
    return sums;
  }

 private:
  // g = sum of weight * contribution, in worker order; the first product begins the sum.
  double Merge(size_t block, std::span<float> g, std::span<double> dots) {
    if (job_.inputs.empty()) std::fill(g.begin(), g.end(), 0.0f);
    for (size_t i = 0; i < job_.inputs.size(); ++i) {
      const std::span<float> x = Input(i, g.size());
      DecodeRange(job_.inputs[i].codec, job_.inputs[i].encoded, block * kBlock, x);
      if (i == 0) {
        vecmath::Scale(job_.weights[i], x, g);
      } else {
        vecmath::ScaledAccumulate(job_.weights[i], x, g);
      }
    }
    for (size_t i = 0; i < job_.inputs.size(); ++i) dots[i] = vecmath::BlockDot(Input(i, g.size()), g);
    return vecmath::BlockStatistics(g).sum_squares;
  }

  // With the same block of the step before, which this one takes the place of.
  void Compare(size_t kept, std::span<const float> step, BlockSums& sums) {
    const std::span<float> previous = job_.compared_step.subspan(kept * kBlock, step.size());
    sums.compared_squares = sums.step_squares;
    sums.previous_squares = vecmath::BlockStatistics(previous).sum_squares;
    sums.compared_dot = vecmath::BlockDot(step, previous);
    std::copy(step.begin(), step.end(), previous.begin());
  }

  // h = u + r; q = Q(h); public += D(q); r from what was lost. `h` comes in as u.
  void Publish(size_t block, std::span<float> h, BlockSums& sums) {
    const std::span<float> residual = BlockOf(job_.residual, block);
    if (job_.memory != ErrorMemory::kOff) vecmath::Add(residual, h);
    sums.sent_squares = vecmath::BlockStatistics(h).sum_squares;
    const ByteRange range = EncodedRange(job_.download_codec, block * kBlock, h.size());
    const std::span<std::byte> q = job_.update.subspan(range.offset, range.bytes);
    Encode(job_.download_codec, h, q);
    const std::span<float> decoded = std::span(decoded_).first(h.size());
    Decode(job_.download_codec, q, decoded);
    vecmath::Subtract(h, decoded, h);
    sums.lost_squares = vecmath::BlockStatistics(h).sum_squares;
    Remember(h, residual);
    const std::span<float> public_copy = BlockOf(job_.public_copy, block);
    vecmath::Add(decoded, public_copy);
    sums.public_max = vecmath::BlockStatistics(public_copy).max_abs;
    sums.residual_max = vecmath::BlockStatistics(residual).max_abs;
  }

  // r := lost, or LoCo's average of it and r, rounded to what 8 bits hold.
  void Remember(std::span<float> lost, std::span<float> residual) {
    if (job_.memory == ErrorMemory::kOff) return;
    if (job_.memory == ErrorMemory::kFeedback) {
      std::copy(lost.begin(), lost.end(), residual.begin());
    } else if (job_.clear_residual) {
      std::fill(residual.begin(), residual.end(), 0.0f);
    } else {
      vecmath::Merge(job_.loco_beta, lost, residual);
      std::array<std::byte, 2 * kBlock> small;
      const std::span<std::byte> q = std::span(small).first(EncodedSize(CodecKind::kInt8, residual.size()));
      Encode(CodecKind::kInt8, residual, q);
      Decode(CodecKind::kInt8, q, residual);
    }
  }

  std::span<float> Input(size_t i, size_t elements) { return std::span(inputs_).subspan(i * kBlock, elements); }

  const MergeJob& job_;
  const size_t compared_stride_;
  std::vector<float> inputs_, merged_, decoded_;
};

}  // namespace

std::vector<ContributionScreen> ScreenAll(std::span<const RoundInput> inputs, size_t elements, unsigned threads) {
  const size_t blocks = BlockCount(elements);
  std::vector<vecmath::BlockStats> stats(inputs.size() * blocks);
  Spread(blocks, threads, [&](size_t first, size_t last) {
    std::array<float, kBlock> scratch;
    for (size_t block = first; block < last; ++block) {
      const std::span<float> x = std::span(scratch).first(std::min(kBlock, elements - block * kBlock));
      for (size_t i = 0; i < inputs.size(); ++i) {
        DecodeRange(inputs[i].codec, inputs[i].encoded, block * kBlock, x);
        stats[i * blocks + block] = vecmath::BlockStatistics(x);
      }
    }
  });
  std::vector<ContributionScreen> screens;
  for (size_t i = 0; i < inputs.size(); ++i) {
    screens.push_back(Summarise(std::span(stats).subspan(i * blocks, blocks)));
  }
  return screens;
}

size_t ComparedElements(size_t elements) {
  const size_t blocks = BlockCount(elements), stride = ComparedStride(blocks);
  return std::min(elements, (blocks + stride - 1) / stride * kBlock);
}

MergeSums MergeAll(const MergeJob& job) {
  const size_t blocks = BlockCount(job.public_copy.size());
  const size_t inputs = job.inputs.size();
  std::vector<BlockSums> sums(blocks);
  std::vector<double> dots(blocks * inputs);
  Spread(blocks, job.threads, [&](size_t first, size_t last) {
    Walker walker(job);
    for (size_t block = first; block < last; ++block) {
      sums[block] = walker.Close(block, std::span(dots).subspan(block * inputs, inputs));
    }
  });
  MergeSums total;
  total.dots.resize(inputs);
  for (size_t block = 0; block < blocks; ++block) {
    AddBlock(sums[block], total);
    for (size_t i = 0; i < inputs; ++i) total.dots[i] += dots[block * inputs + i];
  }
  return total;
}

}  // namespace atl::aggregate
