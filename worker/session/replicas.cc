// SPDX-License-Identifier: Apache-2.0
#include "worker/session/replicas.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"

namespace atl {
namespace {

FormedBlock BlockOf(const atoll_gpu_block_sums& sums) {
  constexpr uint32_t kInfinity = 0x7f800000u;  // magnitudes are ordered like their bits
  if (sums.largest >= kInfinity) return {{.sum_squares = 0, .max_abs = 0, .finite = false}, 0};
  return {{.sum_squares = sums.sent_squares, .max_abs = std::bit_cast<float>(sums.largest), .finite = true},
          sums.lost_squares};
}

absl::Status AnotherThanTheHosts(const char* what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the device's kernels form a contribution that differs from the host's in its ", what));
}

// Compares the device's contribution with the host's from the same parameters.
absl::Status Compared(const FormedParts& parts, Digest lost, const absl::Status& formed, const FragmentReplica& replica,
                      ErrorMemory memory) {
  ContributionSums sums(replica.outer().size(), memory);
  for (const atoll_gpu_block_sums& block : parts.blocks) sums.Add(BlockOf(block));
  if (!formed.ok() && !absl::IsInvalidArgument(formed)) return absl::OkStatus();  // the host's failure proves nothing
  if (sums.finite() != formed.ok()) return AnotherThanTheHosts("verdict on what is finite");
  if (!formed.ok()) return absl::OkStatus();
  const StoredContribution& host = *replica.unresolved();
  if (DigestOf(parts.encoded) != host.digest) return AnotherThanTheHosts("encoding");
  if (lost != DigestOf(std::as_bytes(replica.PendingLoss()))) return AnotherThanTheHosts("loss");
  if (sums.norm() != host.norm || sums.lost_norm() != host.lost_norm) return AnotherThanTheHosts("norm");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replicas>> Replicas::Create(const ModelLayout& layout, const JobSpec& spec,
                                                           Device& device, std::span<float> parameters,
                                                           void* compute_stream, Executor& executor, FormedBy formed_by,
                                                           SyncThreads threads) {
  auto made = std::unique_ptr<Replicas>(new Replicas(executor, threads));
  made->layout_ = layout;
  made->download_codec_ = spec.sync.download_codec;
  made->upload_error_memory_ = spec.sync.upload_error_memory;
  made->compute_stream_ = compute_stream;
  if (formed_by == FormedBy::kDevice) made->forming_refused_ = made->OpenFormer(device, spec);
  if (made->pinned_outer_ == nullptr) made->own_outer_.resize(layout.elements);
  made->outer_ = made->pinned_outer_ != nullptr ? made->pinned_outer_->values() : std::span(made->own_outer_);
  ReplicaOptions options{.upload_codec = spec.sync.upload_codec,
                         .download_codec = spec.sync.download_codec,
                         .upload_error_memory = spec.sync.upload_error_memory,
                         .loco = spec.sync.loco,
                         .layout_digest = layout.digest,
                         .buffers = std::make_shared<BufferShelf>(1)};
  for (const FragmentInfo& fragment : layout.fragments) {
    One& one = made->fragments_.emplace_back();
    const std::span<float> outer = made->outer_.subspan(fragment.offset, fragment.elements);
    one.local = parameters.subspan(fragment.offset, fragment.elements);
    options.error_places = made->ErrorPlacesOf(fragment);
    ATOLL_ASSIGN_OR_RETURN(one.replica, FragmentReplica::Create(outer, options));
    ATOLL_ASSIGN_OR_RETURN(one.window, device.OpenWindow(parameters.subspan(fragment.offset, fragment.elements)));
    if (one.window->is_direct()) made->largest_copied_ = std::max<size_t>(made->largest_copied_, fragment.elements);
  }
  return made;
}

// Opens all or nothing.
absl::Status Replicas::OpenFormer(Device& device, const JobSpec& spec) {
  if (spec.sync.upload_error_memory == ErrorMemory::kLoco) {
    return absl::UnimplementedError("sync.upload_error_memory is loco, which only the host supports");
  }
  const bool residual = spec.sync.upload_error_memory == ErrorMemory::kFeedback;
  uint64_t most = 0;
  for (const FragmentInfo& fragment : layout_.fragments) most = std::max<uint64_t>(most, fragment.elements);
  ATOLL_ASSIGN_OR_RETURN(auto former, device.OpenFormer({spec.sync.upload_codec, most, residual}));
  ATOLL_ASSIGN_OR_RETURN(auto outer, former->OpenPinned(layout_.elements));
  if (residual) {
    ATOLL_ASSIGN_OR_RETURN(auto kept, former->OpenPinned(layout_.elements));
    ATOLL_ASSIGN_OR_RETURN(pinned_pending_, former->OpenPinned(layout_.elements));
    pinned_residual_ = std::move(kept);
  }
  pinned_outer_ = std::move(outer);
  former_ = std::move(former);
  return absl::OkStatus();
}

ErrorPlaces Replicas::ErrorPlacesOf(const FragmentInfo& fragment) {
  if (pinned_residual_ == nullptr) return {};
  return {pinned_residual_->values().subspan(fragment.offset, fragment.elements),
          pinned_pending_->values().subspan(fragment.offset, fragment.elements)};
}

Replicas::~Replicas() {
  for (uint32_t p = 0; p < fragments_.size(); ++p) TakenBack(FragmentIndex{p});
}

Replicas::One& Replicas::Idle(FragmentIndex fragment) {
  One& one = At(fragment);
  ATOLL_CHECK(one.errand == 0, "a fragment stays as it is while its contribution is formed or its update applied");
  return one;
}

// Also waits for the window: if the errand never began, its copy may still be running.
Replicas::One& Replicas::TakenBack(FragmentIndex fragment) {
  One& one = At(fragment);
  if (one.forming != nullptr) one.forming->TakeBack();
  if (one.applying != nullptr) one.applying->TakeBack();
  static_cast<void>(one.window->Wait());
  if (former_user_ == &one) former_->Settle();
  TakeVerdict(one);
  one.forming.reset();
  one.applying.reset();
  one.errand = 0;
  return one;
}

uint64_t Replicas::FragmentBytes(FragmentIndex fragment) const {
  return layout_.fragments[fragment.value].elements * sizeof(float);
}

uint64_t Replicas::UpdateBytes(FragmentIndex fragment) const {
  return EncodedSize(download_codec_, layout_.fragments[fragment.value].elements);
}

void Replicas::Keep(FetchedBytes fetched) {
  One& one = At(fetched.at.fragment);
  if (fetched.whole) {
    one.whole = std::move(fetched);
  } else {
    const Version version = fetched.at.version;
    one.updates.insert_or_assign(version, std::move(fetched));
  }
}

void Replicas::DropKept(FragmentIndex fragment) {
  At(fragment).whole.reset();
  At(fragment).updates.clear();
}

absl::StatusOr<FetchedBytes> Replicas::TakeWhole(FragmentIndex fragment, Version version) {
  One& one = At(fragment);
  if (!one.whole || one.whole->at.version != version) {
    return absl::NotFoundError(
        absl::StrCat("version ", version.value, " of fragment ", fragment.value, " was not fetched"));
  }
  FetchedBytes fetched = std::move(*one.whole);
  one.whole.reset();
  if (fetched.bytes->size() != FragmentBytes(fragment)) {
    return absl::DataLossError(absl::StrCat("fragment ", fragment.value, " arrived with ", fetched.bytes->size(),
                                            " bytes instead of ", FragmentBytes(fragment)));
  }
  return fetched;
}

absl::Status Replicas::Install(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  const FragmentInfo& place = layout_.fragments[fragment.value];
  const std::span<float> outer = outer_.subspan(place.offset, place.elements);
  One& one = TakenBack(fragment);
  one.merging.reset();
  std::memcpy(outer.data(), fetched.bytes->data(), fetched.bytes->size());
  return one.replica->Install(outer, version, fetched.hash);
}

absl::Status Replicas::Leap(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  One& one = Idle(fragment);
  one.merging.reset();
  return one.replica->Leap(*fetched.bytes, version, fetched.hash);
}

// With the announced hash, if there is one, instead of the download's own.
absl::StatusOr<FetchedBytes> Replicas::TakeUpdate(One& one, Version version, Digest expected_hash) {
  const auto kept = one.updates.find(version);
  if (kept == one.updates.end()) {
    return absl::NotFoundError(absl::StrCat("the update to version ", version.value, " was not fetched"));
  }
  FetchedBytes fetched = std::move(kept->second);
  one.updates.erase(one.updates.begin(), std::next(kept));
  if (!expected_hash.IsZero()) fetched.hash = expected_hash;
  return fetched;
}

absl::StatusOr<ApplyVerdict> Replicas::Apply(FragmentVersion reached, Standing standing, Digest expected_hash) {
  One& one = Idle(reached.fragment);
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeUpdate(one, reached.version, expected_hash));
  one.merging.reset();
  return one.replica->ApplyUpdate({reached.version, Bytes(*fetched.bytes), fetched.hash}, standing, threads_.at_rest);
}

void Replicas::BeginApply(FragmentVersion reached, Standing standing, Digest expected_hash, uint64_t errand,
                          std::function<void(ApplyEnded)> tell) {
  One& one = Idle(reached.fragment);
  one.errand = errand;
  one.merging.reset();
  const auto apply = [this, &one, reached, standing](const FetchedBytes& fetched) {
    return one.replica->ApplyUpdate({reached.version, Bytes(*fetched.bytes), fetched.hash}, standing, threads_.beside);
  };
  // A missing update is reported in the same way.
  one.applying = Errand::Send(executor_, [apply, reached, errand, tell = std::move(tell),
                                          fetched = TakeUpdate(one, reached.version, expected_hash)] {
    tell({reached, errand, fetched.ok() ? apply(*fetched) : fetched.status()});
  });
}

Replicas::One* Replicas::EndErrand(FragmentIndex fragment, uint64_t errand) {
  if (fragment.value >= fragments_.size()) return nullptr;  // of an earlier job with more fragments
  One& one = At(fragment);
  if (one.errand != errand) return nullptr;
  one.forming.reset();
  one.applying.reset();
  one.errand = 0;
  return &one;
}

bool Replicas::EndApply(const ApplyEnded& ended) { return EndErrand(ended.reached.fragment, ended.errand) != nullptr; }

void Replicas::FinishApplies() {
  for (One& one : fragments_) {
    if (one.applying != nullptr) one.applying->Finish();
  }
}

const StoredContribution* Replicas::unresolved(FragmentIndex fragment) const {
  const One& one = At(fragment);
  if (one.applying != nullptr) one.applying->Finish();
  return one.replica->unresolved();
}

absl::StatusOr<std::span<float>> Replicas::Read(One& one) {
  ATOLL_RETURN_IF_ERROR(one.window->Snapshot(compute_stream_));
  ATOLL_RETURN_IF_ERROR(one.window->Wait());
  return one.window->host();
}

absl::Status Replicas::Write(One& one) {
  ATOLL_RETURN_IF_ERROR(one.window->WriteBack(compute_stream_));
  return one.window->Wait();
}

absl::Status Replicas::Resolve(FragmentIndex fragment, Standing standing, double mix) {
  One& one = Idle(fragment);
  if (standing == Standing::kContributor) {
    const bool on_device = former_ != nullptr && forming_refused_.ok();
    return on_device ? Merge(one, mix) : MergeOnHost(one, mix);
  }
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(one));
  ATOLL_RETURN_IF_ERROR(standing == Standing::kAhead ? one.replica->ResolveAhead(local)
                                                     : one.replica->ResolveAsNonContributor(local));
  return Write(one);
}

// Does not read parameters that are overwritten, and does not write unchanged ones.
absl::Status Replicas::MergeOnHost(One& one, double mix) {
  if (mix == 1) return one.replica->ResolveMerged(mix);
  if (mix > 0) ATOLL_RETURN_IF_ERROR(Read(one).status());
  ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsContributor(one.window->host(), mix, threads_.at_rest));
  return Write(one);
}

// Only the next change of the outer copy waits for the merge.
absl::Status Replicas::Merge(One& one, double mix) {
  if (one.merge_proofs < kFormingProofs) return MergeByBoth(one, mix);
  ATOLL_RETURN_IF_ERROR(one.replica->CheckMayMerge(mix));
  if (mix < 1) {
    auto begun = former_->BeginMerge(mix, one.replica->outer(), one.local, compute_stream_);
    if (!begun.ok()) {
      Refuse(begun.status());
      return MergeByBoth(one, mix);
    }
    one.merging = *std::move(begun);
  }
  return one.replica->ResolveMerged(mix);
}

// The host's result is used.
absl::Status Replicas::MergeByBoth(One& one, double mix) {
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(one));
  std::vector<float> wanted(local.begin(), local.end());
  ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsContributor(wanted, mix));
  if (mix == 1) return absl::OkStatus();
  if (forming_refused_.ok()) {
    const absl::Status verdict = ProveMerge(one, mix, wanted);
    if (verdict.ok()) {
      ++one.merge_proofs;
      return absl::OkStatus();
    }
    Refuse(verdict);
  }
  std::ranges::copy(wanted, one.window->host().begin());
  return Write(one);
}

absl::Status Replicas::ProveMerge(One& one, double mix, std::span<const float> wanted) {
  ATOLL_ASSIGN_OR_RETURN(const auto work, former_->BeginMerge(mix, one.replica->outer(), one.local, compute_stream_));
  ATOLL_RETURN_IF_ERROR(work->Wait());
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> got, Read(one));
  if (std::memcmp(got.data(), wanted.data(), wanted.size_bytes()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError("the device's kernels merge to different parameters than the host");
}

absl::Status Replicas::KeepLocal(FragmentIndex fragment) { return Idle(fragment).replica->KeepLocal(); }

absl::Status Replicas::AdoptOuter(FragmentIndex fragment) {
  One& one = TakenBack(fragment);
  ATOLL_RETURN_IF_ERROR(one.replica->AdoptOuter(one.window->host()));
  return Write(one);
}

// The core still gets the result of an update being applied.
void Replicas::DropContribution(FragmentIndex fragment) {
  One& one = At(fragment);
  if (one.applying == nullptr) return TakenBack(fragment).replica->DropContribution();
  one.applying->Finish();
  one.replica->DropContribution();
}

// On a GPU the window is a copy: later work of the compute stream waits until it is made.
absl::Status Replicas::BeginSnapshot(One& one) {
  if (!one.window->is_direct()) return one.window->Snapshot(compute_stream_);
  if (copy_reader_ != nullptr) copy_reader_->Finish();
  copy_.resize(largest_copied_);
  const std::span<float> local = one.window->host();
  vecmath::Copy(local, std::span(copy_).first(local.size()));
  return absl::OkStatus();
}

absl::Status Replicas::FormFromSnapshot(One& one) {
  ATOLL_RETURN_IF_ERROR(one.window->Wait());
  const std::span<const float> local = one.window->host();
  const bool copied = one.window->is_direct() && !one.in_place;
  const unsigned threads = one.in_place ? threads_.at_rest : threads_.beside;
  return one.replica->FormContribution(copied ? std::span<const float>(copy_).first(local.size()) : local, threads)
      .status();
}

// The former handles one fragment at a time: waits for another one's contribution. If a fragment
// may not form a contribution now, the host reports the error.
bool Replicas::BeginOnDevice(One& one) {
  if (former_ == nullptr) return false;
  if (copy_reader_ != nullptr) copy_reader_->Finish();
  if (!forming_refused_.ok()) {
    former_user_ = nullptr;
    former_.reset();
    return false;
  }
  const absl::StatusOr<ContributionParts> parts = one.replica->BeginForming();
  if (!parts.ok()) return false;
  former_user_ = &one;
  const absl::Status begun = former_->Begin(one.local, {parts->outer, parts->residual, parts->lost}, compute_stream_);
  if (!begun.ok()) Refuse(begun);
  return begun.ok();
}

// For a contribution formed by both.
void Replicas::TakeVerdict(One& one) {
  if (!one.differs.ok()) Refuse(one.differs);
}

// Keeps the first reason.
void Replicas::Refuse(absl::Status why) {
  if (forming_refused_.ok()) forming_refused_ = std::move(why);
}

absl::Status Replicas::FormOnDevice(One& one, bool prove) {
  const absl::StatusOr<FormedParts> parts = former_->Wait();
  if (!parts.ok() && prove) {
    one.differs = parts.status();
    return FormFromSnapshot(one);
  }
  if (!parts.ok()) return parts.status();
  if (prove) return ProveAgainstHost(one, *parts);
  std::vector<FormedBlock> blocks;
  blocks.reserve(parts->blocks.size());
  for (const atoll_gpu_block_sums& sums : parts->blocks) blocks.push_back(BlockOf(sums));
  return one.replica->TakeFormed(parts->encoded, blocks).status();
}

// The host's result is used. The device's loss is in the memory that the host overwrites.
absl::Status Replicas::ProveAgainstHost(One& one, const FormedParts& parts) {
  const Digest lost = DigestOf(std::as_bytes(one.replica->PendingLoss()));
  absl::Status formed = FormFromSnapshot(one);
  one.differs = Compared(parts, lost, formed, *one.replica, upload_error_memory_);
  if (one.differs.ok() && formed.ok()) ++one.proofs;
  return formed;
}

void Replicas::BeginForm(FragmentVersion target, uint64_t errand, bool at_rest,
                         std::function<void(FormingEnded)> tell) {
  One& one = Idle(target.fragment);
  one.errand = errand;
  const bool on_device = BeginOnDevice(one);
  const bool prove = on_device && one.proofs < kFormingProofs;
  one.in_place = at_rest && one.window->is_direct();
  const bool snapshot = !one.in_place && (!on_device || prove);
  if (const absl::Status begun = snapshot ? BeginSnapshot(one) : absl::OkStatus(); !begun.ok()) {
    if (on_device) former_->Settle();
    tell({target, errand, begun});
    return;
  }
  one.forming = Errand::Send(executor_, [this, &one, target, errand, on_device, prove, tell = std::move(tell)] {
    tell({target, errand, on_device ? FormOnDevice(one, prove) : FormFromSnapshot(one)});
  });
  if (on_device || (snapshot && one.window->is_direct())) copy_reader_ = one.forming;
}

void Replicas::ReleaseParameters() {
  for (One& one : fragments_) {
    if (one.in_place && one.forming != nullptr) one.forming->Finish();
  }
}

bool Replicas::EndForm(const FormingEnded& ended) {
  One* const one = EndErrand(ended.target.fragment, ended.errand);
  if (one != nullptr) TakeVerdict(*one);
  return one != nullptr;
}

}  // namespace atl
