#include "worker/session/replicas.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/codec/codec.h"

namespace atl {

absl::StatusOr<std::unique_ptr<Replicas>> Replicas::Create(const ModelLayout& layout, const JobSpec& spec,
                                                           Device& device, std::span<float> parameters,
                                                           void* compute_stream) {
  auto made = std::unique_ptr<Replicas>(new Replicas);
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
  for (const FragmentInfo& fragment : layout.fragments) {
    One& one = made->fragments_.emplace_back();
    const std::span<float> outer = std::span(made->outer_).subspan(fragment.offset, fragment.elements);
    ATOLL_ASSIGN_OR_RETURN(one.replica, FragmentReplica::Create(outer, options));
    ATOLL_ASSIGN_OR_RETURN(one.window, device.OpenWindow(parameters.subspan(fragment.offset, fragment.elements)));
  }
  return made;
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
  std::memcpy(outer.data(), fetched.bytes->data(), fetched.bytes->size());
  return At(fragment).replica->Install(outer, version, fetched.hash);
}

absl::Status Replicas::Leap(FragmentIndex fragment, Version version) {
  ATOLL_ASSIGN_OR_RETURN(const FetchedBytes fetched, TakeWhole(fragment, version));
  return At(fragment).replica->Leap(*fetched.bytes, version, fetched.hash);
}

absl::StatusOr<ApplyVerdict> Replicas::Apply(FragmentVersion reached, Standing standing, Digest expected_hash) {
  One& one = At(reached.fragment);
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
  One& one = At(fragment);
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(one));
  switch (standing) {
    case Standing::kContributor: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsContributor(local, mix)); break;
    case Standing::kAhead: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAhead(local)); break;
    case Standing::kNotContributor: ATOLL_RETURN_IF_ERROR(one.replica->ResolveAsNonContributor(local)); break;
  }
  return Write(one);
}

absl::Status Replicas::KeepLocal(FragmentIndex fragment) { return At(fragment).replica->KeepLocal(); }

absl::Status Replicas::AdoptOuter(FragmentIndex fragment) {
  One& one = At(fragment);
  ATOLL_RETURN_IF_ERROR(one.replica->AdoptOuter(one.window->host()));
  return Write(one);
}

absl::StatusOr<const StoredContribution*> Replicas::Form(FragmentIndex fragment) {
  One& one = At(fragment);
  ATOLL_ASSIGN_OR_RETURN(const std::span<float> local, Read(one));
  return one.replica->FormContribution(local);
}

}  // namespace atl
