// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/round_pass.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/content_root.h"
#include "common/base/ordered_loop.h"
#include "common/base/spread.h"
#include "common/codec/codec.h"
#include "common/codec/fused.h"
#include "coordinator/aggregate/contribution_screener.h"
#include "coordinator/aggregate/robust_merge.h"

namespace atl::aggregate {
namespace {

constexpr size_t kBlock = kCodecBlock;

static_assert(kBlock * sizeof(float) % kLeafBytes == 0, "a block holds whole leaves");
static_assert(kBlock == vecmath::kSumBlock,
              "one block of the pass is one block of a sum and whole blocks of every codec");

size_t BlockCount(size_t elements) { return (elements + kBlock - 1) / kBlock; }

template <typename T>
std::span<T> BlockOf(std::span<T> x, size_t block) {
  return x.subspan(block * kBlock, std::min(kBlock, x.size() - block * kBlock));
}

ContributionScreen Summarise(std::span<const vecmath::BlockStats> blocks) {
  ScreenSum sum;
  for (const vecmath::BlockStats& block : blocks) sum.Add(block);
  return sum.screen();
}

// Blocks added up at a time. Longer runs of one contribution help the prefetcher; this number keeps
// the sums in the L2 cache.
constexpr size_t kRun = 4;

// Every n-th block is compared.
size_t ComparedStride(size_t blocks) { return std::max<size_t>(1, (blocks + kComparedBlocks - 1) / kComparedBlocks); }

// One block's share of the sums. For a block that is not compared, only the first two sums and the maxima.
using BlockSums = MergeSums;

void AddBlock(const BlockSums& block, MergeSums& total) {
  total.merged_squares += block.merged_squares;
  total.step_squares += block.step_squares;
  total.compared_squares += block.compared_squares;
  total.previous_squares += block.previous_squares;
  total.compared_dot += block.compared_dot;
  total.momentum_squares += block.momentum_squares;
  total.momentum_dot += block.momentum_dot;
  total.compared_merged += block.compared_merged;
  for (size_t i = 0; i < block.dots.size(); ++i) {
    total.input_squares[i] += block.input_squares[i];
    total.dots[i] += block.dots[i];
  }
  total.sent_squares += block.sent_squares;
  total.lost_squares += block.lost_squares;
  total.public_max = std::max(total.public_max, block.public_max);
  total.momentum_max = std::max(total.momentum_max, block.momentum_max);
  total.residual_max = std::max(total.residual_max, block.residual_max);
}

// Blocks that a thread takes at a time.
constexpr size_t kChunk = 16;

// Hash of the update, fed by chunks in order.
class UpdateHasher {
 public:
  explicit UpdateHasher(const MergeJob& job) : job_(job) {}
  void Add(size_t chunk) {
    constexpr size_t kElements = kChunk * kBlock;
    const size_t begin = chunk * kElements, count = std::min(kElements, job_.public_copy.size() - begin);
    const ByteRange range = EncodedRange(job_.download_codec, begin, count);
    hasher_.Update(job_.update.subspan(range.offset, range.bytes));
  }
  Digest Finish() const { return hasher_.Finish(); }

 private:
  const MergeJob& job_;
  DigestHasher hasher_;
};

// Fills `rows` with the decoded and scaled values of the members in one block, for a rule other than kMean.
void FillRows(const MergeJob& job, size_t block, size_t elements, RowMerger& rows) {
  for (size_t r = 0; r < job.members.size(); ++r) {
    const RoundInput& input = job.inputs[job.members[r]];
    DecodeScaled(input.codec, input.encoded, block * kBlock, job.weights[job.members[r]], rows.Row(r, elements));
  }
}

// The merge pass of one thread, with scratch memory for merged blocks, a decoded block and the rows.
class Walker {
 public:
  // `pulls`: used under kCenteredClip.
  Walker(const MergeJob& job, std::span<const float> pulls, std::span<Digest> leaves)
      : job_(job),
        pulls_(pulls),
        leaves_(leaves),
        compared_stride_(ComparedStride(BlockCount(job.public_copy.size()))),
        mean_(job.merge.rule == MergeRule::kMean || job.inputs.empty()),
        merged_(kRun * kBlock),
        decoded_(kBlock),
        rows_(job.merge, job.members.size()) {
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      weighted_.push_back({job.inputs[i].codec, job.inputs[i].encoded, job.weights[i]});
    }
  }

  BlockSums Close(size_t block) {
    const size_t at = block % kRun * kBlock;
    const std::span<float> g = std::span(merged_).subspan(at, BlockOf(job_.public_copy, block).size());
    const bool compared = block % compared_stride_ == 0;
    BlockSums sums;
    if (!mean_) MergeRows(block, g);
    if (mean_ && at == 0) {
      const size_t run = std::min(merged_.size(), job_.public_copy.size() - block * kBlock);
      DecodeWeightedSum(weighted_, block * kBlock, std::span(merged_).first(run));  // in worker order
    }
    const std::span<float> momentum = BlockOf(job_.momentum, block);
    if (compared) CompareInputs(block, g, momentum, sums);
    Step(block, momentum, g, compared, sums);
    Publish(block, g, compared, sums);
    Hash(block);
    return sums;
  }

 private:
  void MergeRows(size_t block, std::span<float> g) {
    FillRows(job_, block, g.size(), rows_);
    if (job_.merge.rule != MergeRule::kCenteredClip) return rows_.Middle(g);
    const std::span<float> middle = std::span(decoded_).first(g.size());
    rows_.Middle(middle);
    rows_.Pull(middle, pulls_, g);
  }

  // Compares each input, and the momentum, with the merge of the inputs.
  void CompareInputs(size_t block, std::span<const float> g, std::span<const float> momentum, BlockSums& sums) {
    if (job_.outer.kind != OuterKind::kSgd) {
      sums.momentum_squares = vecmath::BlockSquares(momentum);
      sums.momentum_dot = vecmath::BlockDot(g, momentum);
    }
    sums.compared_merged = vecmath::BlockSquares(g);
    sums.input_squares.resize(job_.inputs.size());
    sums.dots.resize(job_.inputs.size());
    const std::span<float> x = std::span(decoded_).first(g.size());
    for (size_t i = 0; i < job_.inputs.size(); ++i) {
      DecodeRange(job_.inputs[i].codec, job_.inputs[i].encoded, block * kBlock, x);
      sums.input_squares[i] = vecmath::BlockSquares(x);
      sums.dots[i] = vecmath::BlockDot(x, g);
    }
  }

  // One block: g -> h = u + r, where u is the outer step and r the residual; updates the momentum.
  void Step(size_t block, std::span<float> momentum, std::span<float> g_to_h, bool compared, BlockSums& sums) {
    const std::span<float> residual =
        job_.memory == ErrorMemory::kOff ? std::span<float>() : BlockOf(job_.residual, block);
    const vecmath::OuterSums step =
        vecmath::OuterStep(job_.outer, momentum, compared ? std::span<float>() : residual, g_to_h);
    sums.merged_squares = step.merged_squares;
    sums.step_squares = step.step_squares;
    sums.momentum_max = step.momentum_max;
    if (!compared) return;
    CompareSteps(block / compared_stride_, g_to_h, sums);
    if (!residual.empty()) vecmath::Add(residual, g_to_h);
  }

  // Compares this block of the step with the same block of the previous step, and keeps it for the next comparison.
  void CompareSteps(size_t kept, std::span<const float> step, BlockSums& sums) {
    const std::span<float> previous = job_.compared_step.subspan(kept * kBlock, step.size());
    sums.compared_squares = sums.step_squares;
    sums.previous_squares = vecmath::BlockSquares(previous);
    sums.compared_dot = vecmath::BlockDot(step, previous);
    std::copy(step.begin(), step.end(), previous.begin());
  }

  // q = Q(h); public += D(q); r from the loss.
  void Publish(size_t block, std::span<float> h, bool compared, BlockSums& sums) {
    const std::span<float> residual = BlockOf(job_.residual, block);
    const ByteRange range = EncodedRange(job_.download_codec, block * kBlock, h.size());
    const std::span<std::byte> q = job_.update.subspan(range.offset, range.bytes);
    Encode(job_.download_codec, h, q);
    const bool direct = job_.memory == ErrorMemory::kFeedback;
    const std::span<float> lost = direct ? residual : std::span(decoded_).first(h.size());
    const Settled settled = DecodeSettle(job_.download_codec, q, h, lost, BlockOf(job_.public_copy, block));
    if (compared) {
      sums.sent_squares = vecmath::BlockSquares(h);
      sums.lost_squares = vecmath::BlockSquares(lost);
    }
    sums.public_max = settled.public_max;
    if (job_.memory == ErrorMemory::kLoco) Remember(lost, residual);
    sums.residual_max = direct ? settled.lost_max : vecmath::MaxAbs(residual);
  }

  // Under kLoco: r := LoCo's average of the loss and r, rounded to 8 bits; 0 if this step clears r.
  void Remember(std::span<const float> lost, std::span<float> residual) {
    if (job_.clear_residual) {
      std::fill(residual.begin(), residual.end(), 0.0f);
      return;
    }
    vecmath::Merge(job_.loco_beta, lost, residual);
    std::array<std::byte, 2 * kBlock> small;
    const std::span<std::byte> q = std::span(small).first(EncodedSize(CodecKind::kInt8, residual.size()));
    Encode(CodecKind::kInt8, residual, q);
    Decode(CodecKind::kInt8, q, residual);
  }

  // Hashes this block's leaves of the content hash while the block is in the cache.
  void Hash(size_t block) {
    const Bytes bytes = std::as_bytes(std::span<const float>(BlockOf(job_.public_copy, block)));
    HashLeaves(bytes, leaves_.subspan(block * kBlock * sizeof(float) / kLeafBytes));
  }

  const MergeJob& job_;
  const std::span<const float> pulls_;
  const std::span<Digest> leaves_;
  const size_t compared_stride_;
  const bool mean_;
  std::vector<float> merged_, decoded_;
  std::vector<WeightedEncoding> weighted_;
  RowMerger rows_;
};

// Euclidean distances of the members from the median, added in block order.
std::vector<double> DistancesOf(const MergeJob& job) {
  const size_t blocks = BlockCount(job.public_copy.size()), members = job.members.size();
  std::vector<double> squares(blocks * members);
  Spread(blocks, job.threads, [&](size_t first, size_t last) {
    RowMerger rows(job.merge, members);
    std::array<float, kBlock> scratch;
    for (size_t block = first; block < last; ++block) {
      const std::span<float> middle = std::span(scratch).first(BlockOf(job.public_copy, block).size());
      FillRows(job, block, middle.size(), rows);
      rows.Middle(middle);
      rows.AddSquares(middle, std::span(squares).subspan(block * members, members));
    }
  });
  std::vector<double> distances(members);
  for (size_t i = 0; i < squares.size(); ++i) distances[i % members] += squares[i];
  for (double& distance : distances) distance = std::sqrt(distance);
  return distances;
}

}  // namespace

std::vector<ContributionScreen> ScreenAll(std::span<const RoundInput> inputs, size_t elements, unsigned threads) {
  const size_t blocks = BlockCount(elements);
  std::vector<vecmath::BlockStats> stats(inputs.size() * blocks);
  Spread(blocks, threads, [&](size_t first, size_t last) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].screen) continue;
      for (size_t block = first; block < last; ++block) {
        const size_t count = std::min(kBlock, elements - block * kBlock);
        stats[i * blocks + block] = DecodedStatistics(inputs[i].codec, inputs[i].encoded, block * kBlock, count);
      }
    }
  });
  std::vector<ContributionScreen> screens;
  for (size_t i = 0; i < inputs.size(); ++i) {
    screens.push_back(inputs[i].screen ? *inputs[i].screen : Summarise(std::span(stats).subspan(i * blocks, blocks)));
  }
  return screens;
}

size_t ComparedElements(size_t elements) {
  const size_t blocks = BlockCount(elements), stride = ComparedStride(blocks);
  return std::min(elements, (blocks + stride - 1) / stride * kBlock);
}

MergeSums MergeAll(const MergeJob& job) {
  const size_t blocks = BlockCount(job.public_copy.size());
  std::vector<BlockSums> sums(blocks);
  std::vector<float> pulls;
  if (job.merge.rule == MergeRule::kCenteredClip && !job.inputs.empty()) pulls = Pulls(job.merge, DistancesOf(job));
  MergeSums total;
  total.leaves.resize((job.public_copy.size_bytes() + kLeafBytes - 1) / kLeafBytes);
  const size_t chunks = (blocks + kChunk - 1) / kChunk;
  OrderedLoop loop(chunks);
  UpdateHasher update(job);
  Spread(std::min<size_t>(job.threads, chunks), job.threads, [&](size_t, size_t) {
    Walker walker(job, pulls, total.leaves);
    loop.Run(
        [&](size_t chunk) {
          for (size_t block = chunk * kChunk; block < std::min(blocks, (chunk + 1) * kChunk); ++block)
            sums[block] = walker.Close(block);
        },
        [&](size_t chunk) { update.Add(chunk); });
  });
  total.update = update.Finish();
  total.input_squares.resize(job.inputs.size());
  total.dots.resize(job.inputs.size());
  for (const BlockSums& block : sums) AddBlock(block, total);
  return total;
}

}  // namespace atl::aggregate
