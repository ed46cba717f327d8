#include "worker/session/replicas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/codec.h"

namespace atl {

absl::StatusOr<std::unique_ptr<Replicas>> Replicas::Create(const ModelLayout& layout, const JobSpec& spec,
                                                           Device& device, std::span<float> parameters,
                                                           void* compute_stream, Executor& executor) {
  auto made = std::unique_ptr<Replicas>(new Replicas(executor));
  made->layout_ = layout;
  made->download_codec_ = spec.sync.download_codec;
  made->compute_stream_ = compute_stream;
  made->outer_.resize(layout.elements);
  const ReplicaOptions options{.upload_codec = spec.sync.upload_codec,
                               .download_codec = spec.sync.download_codec,
                               .upload_error_memory = spec.sync.upload_error_memory,
                               .loco = spec.sync.loco,
                               .layout_digest = layout.digest,
                               .buffers = std::make_shared<BufferShelf>(1)};
  size_t to_copy = 0;
  for (const FragmentInfo& fragment : layout.fragments) {
    One& one = made->fragments_.emplace_back();
    const std::span<float> outer = std::span(made->outer_).subspan(fragment.offset, fragment.elements);
    ATOLL_ASSIGN_OR_RETURN(one.replica, FragmentReplica::Create(outer, options));
    ATOLL_ASSIGN_OR_RETURN(one.window, device.OpenWindow(parameters.subspan(fragment.offset, fragment.elements)));
    if (one.window->is_direct()) to_copy = std::max<size_t>(to_copy, fragment.elements);
  }
  made->copy_.resize(to_copy);
  return made;
}

Replicas::~Replicas() {
  for (uint32_t p = 0; p < fragments_.size(); ++p) TakenBack(FragmentIndex{p});
}

Replicas::One& Replicas::Idle(FragmentIndex fragment) {
  One& one = At(fragment);
  ATOLL_CHECK(one.errand == 0, "a fragment stays as it is while its contribution is being formed");
  return one;
}

// The window is waited for too: where the errand was never begun its copy may still be under way.
Replicas::One& Replicas::TakenBack(FragmentIndex fragment) {
  One& one = At(fragment);
  if (one.forming != nullptr) one.forming->TakeBack();
  static_cast<void>(one.window->Wait());
  one.forming.reset();
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
    return absl::DataLossError(absl::StrCat("fragment ", fragment.value, " came with ", fetched.bytes->size(),
                                            " bytes instead of ", FragmentBytes(fragment)));
  }
  return fetched;
}

absl::Status Replicas::Install(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  const FragmentInfo& place = layout_.fragments[fragment.value];
  const std::span<float> outer = std::span(outer_).subspan(place.offset, place.elements);
  One& one = TakenBack(fragment);
  std::memcpy(outer.data(), fetched.bytes->data(), fetched.bytes->size());
  return one.replica->Install(outer, version, fetched.hash);
}

absl::Status Replicas::Leap(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  return Idle(fragment).replica->Leap(*fetched.bytes, version, fetched.hash);
}

absl::StatusOr<ApplyVerdict> Replicas::Apply(FragmentVersion reached, Standing standing, Digest expected_hash) {
  One& one = Idle(reached.fragment);
  const auto kept = one.updates.find(reached.version);
  if (kept == one.updates.end()) {
    return absl::NotFoundError(absl::StrCat("the update to version ", reached.version.value, " was not fetched"));
  }
  const FetchedBytes fetched = std::move(kept->second);
  one.updates.erase(one.updates.begin(), std::next(kept));
  const Digest hash = expected_hash.IsZero() ? fetched.hash : expected_hash;
  return one.replica->ApplyUpdate({reached.version, Bytes(*fetched.bytes), hash}, standing);
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
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(one));
  switch (standing) {
    case Standing::kContributor: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsContributor(local, mix)); break;
    case Standing::kAhead: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAhead(local)); break;
    case Standing::kNotContributor: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsNonContributor(local)); break;
  }
  return Write(one);
}

absl::Status Replicas::KeepLocal(FragmentIndex fragment) { return Idle(fragment).replica->KeepLocal(); }

absl::Status Replicas::AdoptOuter(FragmentIndex fragment) {
  One& one = TakenBack(fragment);
  ATOLL_RETURN_IF_ERROR(one.replica->AdoptOuter(one.window->host()));
  return Write(one);
}

void Replicas::DropContribution(FragmentIndex fragment) { TakenBack(fragment).replica->DropContribution(); }

// On a GPU the window is a copy: work of the compute stream that comes later waits until it is made.
absl::Status Replicas::BeginSnapshot(One& one) {
  if (!one.window->is_direct()) return one.window->Snapshot(compute_stream_);
  if (copy_reader_ != nullptr) copy_reader_->Finish();
  std::ranges::copy(one.window->host(), copy_.begin());
  return absl::OkStatus();
}

absl::Status Replicas::FormFromSnapshot(One& one) {
  ATOLL_RETURN_IF_ERROR(one.window->Wait());
  const std::span<const float> local = one.window->host();
  const bool direct = one.window->is_direct();
  return one.replica->FormContribution(direct ? std::span<const float>(copy_).first(local.size()) : local).status();
}

void Replicas::BeginForm(FragmentVersion target, uint64_t errand, std::function<void(FormingEnded)> tell) {
  One& one = Idle(target.fragment);
  one.errand = errand;
  if (const absl::Status begun = BeginSnapshot(one); !begun.ok()) {
    tell({target, errand, begun});
    return;
  }
  one.forming = Errand::Send(executor_, [this, &one, target, errand, tell = std::move(tell)] {
    tell({target, errand, FormFromSnapshot(one)});
  });
  if (one.window->is_direct()) copy_reader_ = one.forming;
}

bool Replicas::EndForm(const FormingEnded& ended) {
  if (ended.target.fragment.value >= fragments_.size()) return false;  // of a job that had more
  One& one = At(ended.target.fragment);
  if (one.errand != ended.errand) return false;
  one.forming.reset();
  one.errand = 0;
  return true;
}

}  // namespace atl
