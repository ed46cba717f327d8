// SPDX-License-Identifier: Apache-2.0
#include "worker/replica/fragment_replica.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/content_root.h"
#include "common/base/ordered_loop.h"
#include "common/base/spread.h"
#include "common/codec/codec.h"
#include "common/codec/fused.h"

namespace atl {
namespace {

constexpr size_t kBlock = kCodecBlock;
static_assert(vecmath::kPiece % kCodecPiece == 0, "a piece of a block is encoded by itself");

// Blocks that a thread takes at a time.
constexpr size_t kChunk = 16;

size_t BlockCount(size_t elements) { return (elements + kBlock - 1) / kBlock; }

// The blocks and the elements of chunk number `chunk`, in a fragment of `elements` elements.
struct Chunk {
  Chunk(size_t chunk, size_t elements)
      : first_block(chunk * kChunk),
        last_block(std::min(first_block + kChunk, BlockCount(elements))),
        begin(first_block * kBlock),
        count(std::min(last_block * kBlock, elements) - begin) {}
  const size_t first_block, last_block;  // half-open
  const size_t begin, count;             // elements
};

size_t ChunkCount(size_t elements) { return (BlockCount(elements) + kChunk - 1) / kChunk; }

const char* StateName(ReplicaState state) {
  switch (state) {
    case ReplicaState::kEmpty: return "empty";
    case ReplicaState::kReady: return "ready";
    case ReplicaState::kUnsettled: return "unsettled";
    case ReplicaState::kDeviant: return "deviant";
  }
  ATOLL_CHECK(false, "a replica state outside the enumeration");
}

absl::Status AnotherHash(Digest found, Version version, Digest announced) {
  return absl::DataLossError(absl::StrCat("the fetched fragment has content hash ", found.Hex(), " at version ",
                                          version.value, ", but ", announced.Hex(), " was announced; fetch it again"));
}

}  // namespace

ContributionSums::ContributionSums(uint64_t elements, ErrorMemory memory)
    : stride_(memory != ErrorMemory::kOff ? 1 : (BlockCount(elements) + kLossBlocks - 1) / kLossBlocks) {}

void ContributionSums::Add(const FormedBlock& block) {
  finite_ = finite_ && block.sent.finite;
  squares_ += block.sent.sum_squares;
  if (AsksForLoss(block_)) {
    asked_squares_ += block.sent.sum_squares;
    lost_squares_ += block.lost_squares;
  }
  ++block_;
}

double ContributionSums::norm() const { return std::sqrt(squares_); }

double ContributionSums::lost_norm() const {
  if (stride_ == 1 || asked_squares_ == 0) return std::sqrt(lost_squares_);
  return std::sqrt(lost_squares_ / asked_squares_ * squares_);
}

absl::StatusOr<FragmentReplica> FragmentReplica::Create(std::span<float> outer, const ReplicaOptions& options) {
  if (outer.empty()) return absl::InvalidArgumentError("a fragment has no elements; check the layout");
  return FragmentReplica(outer, options);
}

FragmentReplica::FragmentReplica(std::span<float> outer, const ReplicaOptions& options)
    : outer_(outer),
      options_(options),
      errors_(options.upload_error_memory, options.loco, outer.size(), options.error_places) {
  if (options_.buffers == nullptr) options_.buffers = std::make_shared<BufferShelf>(0);
}

absl::Status FragmentReplica::CheckLocal(std::span<const float> local) const {
  if (local.size() == outer_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("local parameters of ", local.size(),
                                                 " elements given for a fragment of ", outer_.size(),
                                                 "; pass the fragment's own range"));
}

absl::Status FragmentReplica::RequireState(ReplicaState wanted, const char* verb) const {
  if (state_ == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(verb, " needs a replica that is ", StateName(wanted),
                                                    ", but this one is ", StateName(state_), " at version ",
                                                    version_.value));
}

void FragmentReplica::DropContribution() {
  unresolved_.reset();
  errors_.Discard();
}

absl::Status FragmentReplica::Install(std::span<const float> fragment, Version version, Digest hash) {
  ATOLL_RETURN_IF_ERROR(CheckLocal(fragment));
  DropContribution();
  errors_.Clear();
  std::vector<float>().swap(difference_);
  state_ = ReplicaState::kEmpty;
  const Digest found = ContentHash(fragment, version.value, options_.layout_digest);
  if (found != hash) return AnotherHash(found, version, hash);
  if (fragment.data() != outer_.data()) std::copy(fragment.begin(), fragment.end(), outer_.begin());
  version_ = version;
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

absl::Status FragmentReplica::CheckMayForm() const {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kReady, "forming a contribution"));
  if (!unresolved_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the contribution to version ", unresolved_->version.value,
                                                    " is unresolved, so this send is skipped"));
}

absl::Status FragmentReplica::NotFinite(size_t at) {
  errors_.Discard();
  return absl::InvalidArgumentError(absl::StrCat("the pseudo-gradient is not finite in the block at element ", at,
                                                 " of the fragment; take the outer copy"));
}

absl::StatusOr<const StoredContribution*> FragmentReplica::FormContribution(std::span<const float> local,
                                                                            unsigned threads) {
  ATOLL_RETURN_IF_ERROR(CheckMayForm());
  ATOLL_RETURN_IF_ERROR(CheckLocal(local));
  StoredContribution formed{version_, nullptr, {}, 0, 0};
  const uint64_t size = EncodedSize(options_.upload_codec, outer_.size());
  std::vector<std::byte> encoded = options_.buffers->Take(size);
  encoded.resize(size);
  const auto encoding_of = [&](size_t at, size_t count) {
    const ByteRange range = EncodedRange(options_.upload_codec, at, count);
    return std::span(encoded).subspan(range.offset, range.bytes);
  };
  DigestHasher digest;
  errors_.Begin();
  ContributionSums sums(outer_.size(), options_.upload_error_memory);
  std::vector<FormedBlock> blocks(BlockCount(outer_.size()));
  constexpr size_t kNone = SIZE_MAX;
  std::atomic<size_t> broken = kNone;  // the first block that is not finite; later ones are skipped
  const auto encode = [&](size_t chunk) {
    const Chunk part(chunk, outer_.size());
    for (size_t block = part.first_block; block < part.last_block && broken == kNone; ++block) {
      const size_t at = block * kBlock, count = std::min(kBlock, outer_.size() - at);
      blocks[block] = EncodeBlock(local, at, encoding_of(at, count), sums.AsksForLoss(block));
    }
  };
  const auto add = [&](size_t chunk) {
    const Chunk part(chunk, outer_.size());
    for (size_t block = part.first_block; block < part.last_block && broken == kNone; ++block) {
      sums.Add(blocks[block]);
      if (!sums.finite()) broken = block;
    }
    if (broken == kNone) digest.Update(encoding_of(part.begin, part.count));
  };
  SpreadInOrder(ChunkCount(outer_.size()), threads, encode, add);
  if (broken != kNone) return NotFinite(broken * kBlock);
  formed.digest = digest.Finish();
  formed.encoded = ShareFrom(options_.buffers, std::move(encoded));
  formed.norm = sums.norm();
  formed.lost_norm = sums.lost_norm();
  unresolved_ = std::move(formed);
  return &*unresolved_;
}

absl::StatusOr<ContributionParts> FragmentReplica::BeginForming() {
  ATOLL_RETURN_IF_ERROR(CheckMayForm());
  if (options_.upload_error_memory == ErrorMemory::kLoco) {
    return absl::UnimplementedError("the error memory of loco is not fp32, so the host forms contributions");
  }
  errors_.Begin();
  return ContributionParts{outer_, errors_.Memory(), errors_.PendingAt(0, outer_.size())};
}

absl::StatusOr<const StoredContribution*> FragmentReplica::TakeFormed(Bytes encoded,
                                                                      std::span<const FormedBlock> blocks) {
  ATOLL_RETURN_IF_ERROR(CheckMayForm());
  ATOLL_RETURN_IF_ERROR(CheckEncodedSize(options_.upload_codec, outer_.size(), encoded.size()));
  if (blocks.size() != BlockCount(outer_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(blocks.size(), " blocks given of a fragment of ", outer_.size(), " elements"));
  }
  ContributionSums sums(outer_.size(), options_.upload_error_memory);
  for (size_t b = 0; b < blocks.size(); ++b) {
    sums.Add(blocks[b]);
    if (!sums.finite()) return NotFinite(b * kBlock);
  }
  std::vector<std::byte> kept = options_.buffers->Take(encoded.size());
  kept.assign(encoded.begin(), encoded.end());
  unresolved_ = StoredContribution{version_, ShareFrom(options_.buffers, std::move(kept)), DigestOf(encoded),
                                   sums.norm(), sums.lost_norm()};
  return &*unresolved_;
}

// h = (outer - local) + residual; q = Q(h); the loss is h - D(q). The loss is computed only if an error memory keeps
// it or `asks_for_loss`, and not for a non-finite h, nor for fp32 without an error memory, which loses nothing.
FormedBlock FragmentReplica::EncodeBlock(std::span<const float> local, size_t at, std::span<std::byte> q,
                                         bool asks_for_loss) {
  const CodecKind codec = options_.upload_codec;
  const size_t count = std::min(kBlock, outer_.size() - at);
  const std::span<const float> outer = outer_.subspan(at, count), trained = local.subspan(at, count);
  const bool remembers = errors_.Remembers();
  if (!remembers && codec == CodecKind::kFp32)
    return {vecmath::PseudoGradient(outer, trained, {}, {reinterpret_cast<float*>(q.data()), count}), 0};
  if (!remembers && !asks_for_loss) {
    return {vecmath::PseudoGradient(outer, trained, {},
                                    [&](size_t begin, std::span<const float> h) {
                                      const ByteRange range = EncodedRange(codec, begin, h.size());
                                      Encode(codec, h, q.subspan(range.offset, range.bytes));
                                    }),
            0};
  }
  std::array<float, kBlock> sum, memory;
  const std::span<float> h = std::span(sum).first(count);
  const vecmath::BlockStats sent =
      vecmath::PseudoGradient(outer, trained, errors_.MemoryAt(at, std::span(memory).first(count)), h);
  if (!sent.finite) return {sent, 0};
  Encode(codec, h, q);
  const std::span<float> pending = errors_.PendingAt(at, count);
  if (!pending.empty()) return {sent, DecodeLost(codec, q, h, pending)};
  const double lost_squares = DecodeLost(codec, q, h, h);
  errors_.Keep(at, h);
  return {sent, lost_squares};
}

absl::StatusOr<ApplyVerdict> FragmentReplica::ApplyUpdate(const OuterUpdate& update, Standing standing,
                                                          unsigned threads) {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kReady, "applying an update"));
  if (update.reached.value != version_.value + 1) {
    return absl::FailedPreconditionError(absl::StrCat("the update reaches version ", update.reached.value,
                                                      ", but the outer copy is at ", version_.value,
                                                      "; apply the updates in order"));
  }
  ATOLL_RETURN_IF_ERROR(CheckEncodedSize(options_.download_codec, outer_.size(), update.encoded.size()));
  if (standing != Standing::kNotContributor && !unresolved_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the update to version ", update.reached.value,
                     " includes a contribution that is no longer stored; fetch the fragment and take the outer copy"));
  }
  if (standing != Standing::kContributor) difference_.assign(outer_.begin(), outer_.end());
  std::vector<Digest> leaves((outer_.size_bytes() + kLeafBytes - 1) / kLeafBytes);
  Spread(BlockCount(outer_.size()), threads, [&](size_t first, size_t last) {
    for (size_t at = first * kBlock; at < std::min(last * kBlock, outer_.size()); at += kBlock) {
      const std::span<float> block = outer_.subspan(at, std::min(kBlock, outer_.size() - at));
      DecodeScaledAccumulate(options_.download_codec, update.encoded, at, 1, block);
      HashLeaves(std::as_bytes(block), std::span(leaves).subspan(at * sizeof(float) / kLeafBytes));  // from the cache
    }
  });
  version_ = update.reached;
  standing_ = standing;
  if (ContentRoot(leaves, version_.value, options_.layout_digest) != update.hash) {
    DropContribution();
    std::vector<float>().swap(difference_);
    state_ = ReplicaState::kDeviant;
    return ApplyVerdict::kDeviant;
  }
  // difference_ held the old outer copy and becomes new minus old.
  if (standing != Standing::kContributor) vecmath::Subtract(outer_, difference_, difference_);
  state_ = ReplicaState::kUnsettled;
  return ApplyVerdict::kApplied;
}

absl::Status FragmentReplica::Leap(Bytes fragment, Version version, Digest hash) {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kReady, "leaping over updates"));
  if (version <= version_ || unresolved_) {
    return absl::FailedPreconditionError(absl::StrCat("the outer copy at version ", version_.value,
                                                      " cannot leap to version ", version.value,
                                                      unresolved_ ? " while a contribution is unresolved" : ""));
  }
  if (fragment.size() != outer_.size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the fetched fragment has ", fragment.size(), " bytes instead of ", outer_.size_bytes()));
  }
  std::vector<float> whole(outer_.size());
  std::memcpy(whole.data(), fragment.data(), fragment.size());
  const Digest found = ContentHash(whole, version.value, options_.layout_digest);
  if (found != hash) return AnotherHash(found, version, hash);
  std::swap_ranges(whole.begin(), whole.end(), outer_.begin());
  vecmath::Subtract(outer_, whole, whole);
  difference_ = std::move(whole);
  version_ = version;
  standing_ = Standing::kNotContributor;
  state_ = ReplicaState::kUnsettled;
  return absl::OkStatus();
}

absl::Status FragmentReplica::CheckMayMerge(double mix) const {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kUnsettled, "resolving as a contributor"));
  if (standing_ != Standing::kContributor) {
    return absl::FailedPreconditionError("the update was applied without this worker among its contributors");
  }
  if (!(mix >= 0 && mix <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the share of own parameters is ", mix, "; it must be between 0 and 1"));
  }
  return absl::OkStatus();
}

absl::Status FragmentReplica::ResolveAsContributor(std::span<float> local, double mix, unsigned threads) {
  ATOLL_RETURN_IF_ERROR(CheckMayMerge(mix));
  ATOLL_RETURN_IF_ERROR(CheckLocal(local));
  Spread(ChunkCount(outer_.size()), threads, [&](size_t first, size_t last) {
    const size_t begin = first * kChunk * kBlock, end = std::min(last * kChunk * kBlock, outer_.size());
    vecmath::Merge(mix, outer_.subspan(begin, end - begin), local.subspan(begin, end - begin));
  });
  return ResolveMerged(mix);
}

absl::Status FragmentReplica::ResolveMerged(double mix) {
  ATOLL_RETURN_IF_ERROR(CheckMayMerge(mix));
  errors_.Commit(1 - mix);
  DropContribution();
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

absl::Status FragmentReplica::ResolveAhead(std::span<float> local) {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kUnsettled, "resolving ahead"));
  ATOLL_RETURN_IF_ERROR(CheckLocal(local));
  if (standing_ != Standing::kAhead) {
    return absl::FailedPreconditionError("the update was applied without a contribution that was sent ahead");
  }
  vecmath::Add(difference_, local);
  DecodeAdd(options_.upload_codec, *unresolved_->encoded, local);
  std::vector<float>().swap(difference_);
  DropContribution();
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

absl::Status FragmentReplica::ResolveAsNonContributor(std::span<float> local) {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kUnsettled, "resolving as a non-contributor"));
  ATOLL_RETURN_IF_ERROR(CheckLocal(local));
  if (standing_ != Standing::kNotContributor) {
    return absl::FailedPreconditionError("the update was applied with this worker among its contributors");
  }
  vecmath::Add(difference_, local);
  std::vector<float>().swap(difference_);
  DropContribution();
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

absl::Status FragmentReplica::KeepLocal() {
  ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kUnsettled, "keeping the own parameters"));
  if (standing_ != Standing::kNotContributor) {
    return absl::FailedPreconditionError("the update was applied with this worker among its contributors");
  }
  std::vector<float>().swap(difference_);
  DropContribution();
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

absl::Status FragmentReplica::AdoptOuter(std::span<float> local) {
  if (state_ != ReplicaState::kUnsettled) {
    ATOLL_RETURN_IF_ERROR(RequireState(ReplicaState::kReady, "taking the outer copy"));
  }
  ATOLL_RETURN_IF_ERROR(CheckLocal(local));
  vecmath::Copy(outer_, local);
  errors_.Clear();
  DropContribution();
  std::vector<float>().swap(difference_);
  state_ = ReplicaState::kReady;
  return absl::OkStatus();
}

}  // namespace atl
