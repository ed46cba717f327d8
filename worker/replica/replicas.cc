// SPDX-License-Identifier: Apache-2.0
#include "worker/replica/replicas.h"

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
                                                           void* compute_stream, Executor& executor,
                                                           EncodedBy formed_by, SyncThreads threads) {
  auto made = std::unique_ptr<Replicas>(new Replicas(executor, threads));
  made->layout_ = layout;
  made->download_codec_ = spec.sync.download_codec;
  made->upload_error_memory_ = spec.sync.upload_error_memory;
  made->compute_stream_ = compute_stream;
  if (formed_by == EncodedBy::kDevice) made->forming_refused_ = made->OpenEncoder(device, spec);
  if (made->pinned_outer_ == nullptr) made->own_outer_.resize(layout.elements);
  made->outer_ = made->pinned_outer_ != nullptr ? made->pinned_outer_->values() : std::span(made->own_outer_);
  ReplicaOptions options{.upload_codec = spec.sync.upload_codec,
                         .download_codec = spec.sync.download_codec,
                         .upload_error_memory = spec.sync.upload_error_memory,
                         .loco = spec.sync.loco,
                         .layout_digest = layout.digest,
                         .buffers = std::make_shared<BufferShelf>(1)};
  for (const FragmentInfo& fragment : layout.fragments) {
    FragmentSlot& slot = made->fragments_.emplace_back();
    const std::span<float> outer = made->outer_.subspan(fragment.offset, fragment.elements);
    slot.local = parameters.subspan(fragment.offset, fragment.elements);
    options.error_places = made->ErrorPlacesOf(fragment);
    ATOLL_ASSIGN_OR_RETURN(slot.replica, FragmentReplica::Create(outer, options));
    ATOLL_ASSIGN_OR_RETURN(slot.window, device.OpenWindow(parameters.subspan(fragment.offset, fragment.elements)));
    if (slot.window->is_direct()) made->largest_copied_ = std::max<size_t>(made->largest_copied_, fragment.elements);
  }
  return made;
}

// Opens the encoder and all pinned memory, or changes nothing.
absl::Status Replicas::OpenEncoder(Device& device, const JobSpec& spec) {
  if (spec.sync.upload_error_memory == ErrorMemory::kLoco) {
    return absl::UnimplementedError("sync.upload_error_memory is loco, which only the host supports");
  }
  const bool residual = spec.sync.upload_error_memory == ErrorMemory::kFeedback;
  uint64_t most = 0;
  for (const FragmentInfo& fragment : layout_.fragments) most = std::max<uint64_t>(most, fragment.elements);
  ATOLL_ASSIGN_OR_RETURN(auto encoder, device.OpenEncoder({spec.sync.upload_codec, most, residual}));
  ATOLL_ASSIGN_OR_RETURN(auto outer, encoder->OpenPinned(layout_.elements));
  if (residual) {
    ATOLL_ASSIGN_OR_RETURN(auto kept, encoder->OpenPinned(layout_.elements));
    ATOLL_ASSIGN_OR_RETURN(pinned_pending_, encoder->OpenPinned(layout_.elements));
    pinned_residual_ = std::move(kept);
  }
  pinned_outer_ = std::move(outer);
  encoder_ = std::move(encoder);
  return absl::OkStatus();
}

ErrorPlaces Replicas::ErrorPlacesOf(const FragmentInfo& fragment) {
  if (pinned_residual_ == nullptr) return {};
  return {pinned_residual_->values().subspan(fragment.offset, fragment.elements),
          pinned_pending_->values().subspan(fragment.offset, fragment.elements)};
}

Replicas::~Replicas() {
  for (uint32_t p = 0; p < fragments_.size(); ++p) CancelPending(FragmentIndex{p});
}

Replicas::FragmentSlot& Replicas::CheckIdle(FragmentIndex fragment) {
  FragmentSlot& slot = At(fragment);
  ATOLL_CHECK(slot.task == 0, "a fragment stays as it is while its contribution is formed or its update applied");
  return slot;
}

// Also waits for the window: if the task never began, the copy of the parameters to the window may still be running.
Replicas::FragmentSlot& Replicas::CancelPending(FragmentIndex fragment) {
  FragmentSlot& slot = At(fragment);
  if (slot.forming != nullptr) slot.forming->Cancel();
  if (slot.applying != nullptr) slot.applying->Cancel();
  static_cast<void>(slot.window->Wait());
  if (encoder_user_ == &slot) encoder_->Settle();
  TakeVerdict(slot);
  slot.forming.reset();
  slot.applying.reset();
  slot.task = 0;
  return slot;
}

uint64_t Replicas::FragmentBytes(FragmentIndex fragment) const {
  return layout_.fragments[fragment.value].elements * sizeof(float);
}

uint64_t Replicas::UpdateBytes(FragmentIndex fragment) const {
  return EncodedSize(download_codec_, layout_.fragments[fragment.value].elements);
}

void Replicas::Keep(FetchedBytes fetched) {
  FragmentSlot& slot = At(fetched.at.fragment);
  if (fetched.whole) {
    slot.whole = std::move(fetched);
  } else {
    const Version version = fetched.at.version;
    slot.updates.insert_or_assign(version, std::move(fetched));
  }
}

void Replicas::DropKept(FragmentIndex fragment) {
  At(fragment).whole.reset();
  At(fragment).updates.clear();
}

absl::StatusOr<FetchedBytes> Replicas::TakeWhole(FragmentIndex fragment, Version version) {
  FragmentSlot& slot = At(fragment);
  if (!slot.whole || slot.whole->at.version != version) {
    return absl::NotFoundError(
        absl::StrCat("version ", version.value, " of fragment ", fragment.value, " was not fetched"));
  }
  FetchedBytes fetched = std::move(*slot.whole);
  slot.whole.reset();
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
  FragmentSlot& slot = CancelPending(fragment);
  slot.merging.reset();
  std::memcpy(outer.data(), fetched.bytes->data(), fetched.bytes->size());
  return slot.replica->Install(outer, version, fetched.hash);
}

absl::Status Replicas::Leap(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  FragmentSlot& slot = CheckIdle(fragment);
  slot.merging.reset();
  return slot.replica->Leap(*fetched.bytes, version, fetched.hash);
}

// Takes the stored update, with `expected_hash` as its content hash unless that is zero. Drops older stored updates.
absl::StatusOr<FetchedBytes> Replicas::TakeUpdate(FragmentSlot& slot, Version version, Digest expected_hash) {
  const auto kept = slot.updates.find(version);
  if (kept == slot.updates.end()) {
    return absl::NotFoundError(absl::StrCat("the update to version ", version.value, " was not fetched"));
  }
  FetchedBytes fetched = std::move(kept->second);
  slot.updates.erase(slot.updates.begin(), std::next(kept));
  if (!expected_hash.IsZero()) fetched.hash = expected_hash;
  return fetched;
}

absl::StatusOr<ApplyVerdict> Replicas::Apply(FragmentVersion reached, Standing standing, Digest expected_hash) {
  FragmentSlot& slot = CheckIdle(reached.fragment);
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeUpdate(slot, reached.version, expected_hash));
  slot.merging.reset();
  return slot.replica->ApplyUpdate({reached.version, Bytes(*fetched.bytes), fetched.hash}, standing, threads_.at_rest);
}

void Replicas::BeginApply(FragmentVersion reached, Standing standing, Digest expected_hash, uint64_t task,
                          std::function<void(ApplyEnded)> tell) {
  FragmentSlot& slot = CheckIdle(reached.fragment);
  slot.task = task;
  slot.merging.reset();
  const auto apply = [this, &slot, reached, standing](const FetchedBytes& fetched) {
    return slot.replica->ApplyUpdate({reached.version, Bytes(*fetched.bytes), fetched.hash}, standing, threads_.beside);
  };
  // If TakeUpdate fails, the task reports that error instead.
  slot.applying = CancellableTask::Send(executor_, [apply, reached, task, tell = std::move(tell),
                                                    fetched = TakeUpdate(slot, reached.version, expected_hash)] {
    tell({reached, task, fetched.ok() ? apply(*fetched) : fetched.status()});
  });
}

Replicas::FragmentSlot* Replicas::EndTask(FragmentIndex fragment, uint64_t task) {
  if (fragment.value >= fragments_.size()) return nullptr;  // of an earlier job with more fragments
  FragmentSlot& slot = At(fragment);
  if (slot.task != task) return nullptr;
  slot.forming.reset();
  slot.applying.reset();
  slot.task = 0;
  return &slot;
}

bool Replicas::EndApply(const ApplyEnded& ended) { return EndTask(ended.reached.fragment, ended.task) != nullptr; }

void Replicas::FinishApplies() {
  for (FragmentSlot& slot : fragments_) {
    if (slot.applying != nullptr) slot.applying->Finish();
  }
}

const StoredContribution* Replicas::unresolved(FragmentIndex fragment) const {
  const FragmentSlot& slot = At(fragment);
  if (slot.applying != nullptr) slot.applying->Finish();
  return slot.replica->unresolved();
}

absl::StatusOr<std::span<float>> Replicas::Read(FragmentSlot& slot) {
  ATOLL_RETURN_IF_ERROR(slot.window->Snapshot(compute_stream_));
  ATOLL_RETURN_IF_ERROR(slot.window->Wait());
  return slot.window->host();
}

absl::Status Replicas::Write(FragmentSlot& slot) {
  ATOLL_RETURN_IF_ERROR(slot.window->WriteBack(compute_stream_));
  return slot.window->Wait();
}

absl::Status Replicas::Resolve(FragmentIndex fragment, Standing standing, double mix) {
  FragmentSlot& slot = CheckIdle(fragment);
  if (standing == Standing::kContributor) {
    const bool on_device = encoder_ != nullptr && forming_refused_.ok();
    return on_device ? Merge(slot, mix) : MergeOnHost(slot, mix);
  }
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(slot));
  ATOLL_RETURN_IF_ERROR(standing == Standing::kAhead ? slot.replica->ResolveAhead(local)
                                                     : slot.replica->ResolveAsNonContributor(local));
  return Write(slot);
}

// With mix 0 all parameters are overwritten, so they are not read. With mix 1 none changes, so none is written.
absl::Status Replicas::MergeOnHost(FragmentSlot& slot, double mix) {
  if (mix == 1) return slot.replica->ResolveMerged(mix);
  if (mix > 0) ATOLL_RETURN_IF_ERROR(Read(slot).status());
  ATOLL_RETURN_IF_ERROR(slot.replica->ResolveAsContributor(slot.window->host(), mix, threads_.at_rest));
  return Write(slot);
}

// The first merges are made by both sides (MergeByBoth), as is one that the device refuses. Later ones are only
// enqueued on the device: the next change of the outer copy waits for them.
absl::Status Replicas::Merge(FragmentSlot& slot, double mix) {
  if (slot.merge_proofs < kFormingProofs) return MergeByBoth(slot, mix);
  ATOLL_RETURN_IF_ERROR(slot.replica->CheckMayMerge(mix));
  if (mix < 1) {
    auto begun = encoder_->BeginMerge(mix, slot.replica->outer(), slot.local, compute_stream_);
    if (!begun.ok()) {
      Refuse(begun.status());
      return MergeByBoth(slot, mix);
    }
    slot.merging = *std::move(begun);
  }
  return slot.replica->ResolveMerged(mix);
}

// Merges on the host, and on the device unless it was refused. The host's result is used.
absl::Status Replicas::MergeByBoth(FragmentSlot& slot, double mix) {
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(slot));
  std::vector<float> wanted(local.begin(), local.end());
  ATOLL_RETURN_IF_ERROR(slot.replica->ResolveAsContributor(wanted, mix));
  if (mix == 1) return absl::OkStatus();
  if (forming_refused_.ok()) {
    const absl::Status verdict = ProveMerge(slot, mix, wanted);
    if (verdict.ok()) {
      ++slot.merge_proofs;
      return absl::OkStatus();
    }
    Refuse(verdict);
  }
  std::ranges::copy(wanted, slot.window->host().begin());
  return Write(slot);
}

absl::Status Replicas::ProveMerge(FragmentSlot& slot, double mix, std::span<const float> wanted) {
  ATOLL_ASSIGN_OR_RETURN(const auto work,
                         encoder_->BeginMerge(mix, slot.replica->outer(), slot.local, compute_stream_));
  ATOLL_RETURN_IF_ERROR(work->Wait());
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> got, Read(slot));
  if (std::memcmp(got.data(), wanted.data(), wanted.size_bytes()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError("the device's kernels merge to different parameters than the host");
}

absl::Status Replicas::KeepLocal(FragmentIndex fragment) { return CheckIdle(fragment).replica->KeepLocal(); }

absl::Status Replicas::AdoptOuter(FragmentIndex fragment) {
  FragmentSlot& slot = CancelPending(fragment);
  ATOLL_RETURN_IF_ERROR(slot.replica->AdoptOuter(slot.window->host()));
  return Write(slot);
}

// An update that is being applied is not cancelled: waits until it is applied, because the core needs the result.
void Replicas::DropContribution(FragmentIndex fragment) {
  FragmentSlot& slot = At(fragment);
  if (slot.applying == nullptr) return CancelPending(fragment).replica->DropContribution();
  slot.applying->Finish();
  slot.replica->DropContribution();
}

// On a GPU the window is a copy: later work of the compute stream waits until it is made.
absl::Status Replicas::BeginSnapshot(FragmentSlot& slot) {
  if (!slot.window->is_direct()) return slot.window->Snapshot(compute_stream_);
  if (copy_reader_ != nullptr) copy_reader_->Finish();
  copy_.resize(largest_copied_);
  const std::span<float> local = slot.window->host();
  vecmath::Copy(local, std::span(copy_).first(local.size()));
  return absl::OkStatus();
}

absl::Status Replicas::FormFromSnapshot(FragmentSlot& slot) {
  ATOLL_RETURN_IF_ERROR(slot.window->Wait());
  const std::span<const float> local = slot.window->host();
  const bool copied = slot.window->is_direct() && !slot.in_place;
  const unsigned threads = slot.in_place ? threads_.at_rest : threads_.beside;
  return slot.replica->FormContribution(copied ? std::span<const float>(copy_).first(local.size()) : local, threads)
      .status();
}

// False if the host is to form the contribution: after a refusal, and if none may be formed now, an error that the
// host then reports. The encoder handles one fragment at a time: waits for another one's contribution.
bool Replicas::BeginOnDevice(FragmentSlot& slot) {
  if (encoder_ == nullptr) return false;
  if (copy_reader_ != nullptr) copy_reader_->Finish();
  if (!forming_refused_.ok()) {
    encoder_user_ = nullptr;
    encoder_.reset();
    return false;
  }
  const absl::StatusOr<ContributionParts> parts = slot.replica->BeginForming();
  if (!parts.ok()) return false;
  encoder_user_ = &slot;
  const absl::Status begun = encoder_->Begin(slot.local, {parts->outer, parts->residual, parts->lost}, compute_stream_);
  if (!begun.ok()) Refuse(begun);
  return begun.ok();
}

// Stops using the device if its checked contribution failed or differed from the host's.
void Replicas::TakeVerdict(FragmentSlot& slot) {
  if (!slot.differs.ok()) Refuse(slot.differs);
}

// Keeps the first reason.
void Replicas::Refuse(absl::Status why) {
  if (forming_refused_.ok()) forming_refused_ = std::move(why);
}

absl::Status Replicas::FormOnDevice(FragmentSlot& slot, bool prove) {
  const absl::StatusOr<FormedParts> parts = encoder_->Wait();
  if (!parts.ok() && prove) {
    slot.differs = parts.status();
    return FormFromSnapshot(slot);
  }
  if (!parts.ok()) return parts.status();
  if (prove) return ProveAgainstHost(slot, *parts);
  std::vector<FormedBlock> blocks;
  blocks.reserve(parts->blocks.size());
  for (const atoll_gpu_block_sums& sums : parts->blocks) blocks.push_back(BlockOf(sums));
  return slot.replica->TakeFormed(parts->encoded, blocks).status();
}

// The host's result is used. The host overwrites the device's loss, so a digest of this loss is computed first.
absl::Status Replicas::ProveAgainstHost(FragmentSlot& slot, const FormedParts& parts) {
  const Digest lost = DigestOf(std::as_bytes(slot.replica->PendingLoss()));
  absl::Status formed = FormFromSnapshot(slot);
  slot.differs = Compared(parts, lost, formed, *slot.replica, upload_error_memory_);
  if (slot.differs.ok() && formed.ok()) ++slot.proofs;
  return formed;
}

void Replicas::BeginForm(FragmentVersion target, uint64_t task, bool at_rest, std::function<void(FormingEnded)> tell) {
  FragmentSlot& slot = CheckIdle(target.fragment);
  slot.task = task;
  const bool on_device = BeginOnDevice(slot);
  const bool prove = on_device && slot.proofs < kFormingProofs;
  slot.in_place = at_rest && slot.window->is_direct();
  const bool snapshot = !slot.in_place && (!on_device || prove);
  if (const absl::Status begun = snapshot ? BeginSnapshot(slot) : absl::OkStatus(); !begun.ok()) {
    if (on_device) encoder_->Settle();
    tell({target, task, begun});
    return;
  }
  slot.forming =
      CancellableTask::Send(executor_, [this, &slot, target, task, on_device, prove, tell = std::move(tell)] {
        tell({target, task, on_device ? FormOnDevice(slot, prove) : FormFromSnapshot(slot)});
      });
  if (on_device || (snapshot && slot.window->is_direct())) copy_reader_ = slot.forming;
}

void Replicas::ReleaseParameters() {
  for (FragmentSlot& slot : fragments_) {
    if (slot.in_place && slot.forming != nullptr) slot.forming->Finish();
  }
}

bool Replicas::EndForm(const FormingEnded& ended) {
  FragmentSlot* const slot = EndTask(ended.target.fragment, ended.task);
  if (slot != nullptr) TakeVerdict(*slot);
  return slot != nullptr;
}

}  // namespace atl
