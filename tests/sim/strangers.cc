// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/strangers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr int kHeartbeatsUntilItGoes = 60;  // a worker may be in the middle of a long step

}  // namespace

ContributionUpload ComesAgain(const ContributionHeader& once, const Laws& laws, Rng& rng) {
  ContributionUpload again{once, laws.life()};
  const uint64_t ways = rng.Below(6);
  if (ways % 2 == 1) again.header.digest.low ^= 1 + rng.Below(1000);
  if (ways >= 2) again.header.target.version = laws.VersionOf(once.job, once.target.fragment);
  if (ways >= 4) again.header.incarnation = laws.IncarnationOf(once.worker);
  if (rng.Below(4) == 0) again.boot.value += 1 + rng.Below(3);
  if (rng.Below(4) == 0) again.header.cursors.clear();  // as after other workers consumed all its leases
  return again;
}

void Offer(BulkHandler& handler, const ContributionUpload& upload, Laws& laws) {
  const std::shared_ptr<UploadHandler> far_end = handler.NewUpload("memory");
  laws.Keep(far_end);  // not owned by its own reply, which may never arrive
  far_end->OnBegin(upload, [weak = std::weak_ptr(far_end), &laws,
                            why = laws.VoidBy(upload.header, upload.boot)](const absl::StatusOr<UploadStatus>& reply) {
    if (!reply.ok()) return;
    const std::string& law = reply->accepted ? why.accepted : why.granted;
    if (!law.empty() && laws.StillHolds(why)) laws.Break(law);
    const std::shared_ptr<UploadHandler> end = weak.lock();
    if (!reply->accepted && end != nullptr) end->OnBroken(absl::CancelledError("nobody goes on with it"));
  });
}

bool OfferFromAVoidIncarnation(BulkHandler& handler, std::span<const ContributionHeader> accepted, Laws& laws) {
  constexpr size_t kLookedAt = 256;
  for (size_t back = 1; back <= std::min(accepted.size(), kLookedAt); ++back) {
    const ContributionHeader& once = accepted[accepted.size() - back];
    if (once.incarnation >= laws.IncarnationOf(once.worker)) continue;
    ContributionUpload again{once, laws.life()};
    again.header.target.version = laws.VersionOf(once.job, once.target.fragment);
    again.header.cursors.clear();
    Offer(handler, again, laws);
    return true;
  }
  return false;
}

OlderCoordinator::OlderCoordinator(std::unique_ptr<CoordinatorEnd> stream, Laws& laws)
    : laws_(laws), stream_(std::move(stream)) {
  stream_->Start({[this](const WorkerMessage& message) { Hear(message); }, [](const absl::Status&) {}});
}

void OlderCoordinator::Hear(const WorkerMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->last_boot.value < 2) return stream_->Close(absl::UnavailableError("starting"));
    (void)stream_->Send(
        Welcome{BootNumber{hello->last_boot.value - 1}, hello->incarnation, true, Seconds(2), Seconds(20), {}});
    return;
  }
  heartbeats_ += std::holds_alternative<Heartbeat>(message) ? 1 : 0;
  if (heartbeats_ > kHeartbeatsUntilItGoes)
    laws_.Break("I11: a worker stays with a coordinator that is older than one it knows");
}

}  // namespace atl
