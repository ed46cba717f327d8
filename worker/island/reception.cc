// SPDX-License-Identifier: Apache-2.0
#include "worker/island/reception.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr char kMagic[8] = {'A', 'T', 'O', 'L', 'I', 'S', 'L', '1'};
constexpr size_t kMostGuests = 128;  // above it, the oldest connection is closed
constexpr Duration kGuestPatience = Seconds(10);

template <typename T>
std::string TextOf(const T& plain) {
  return {reinterpret_cast<const char*>(&plain), sizeof(plain)};
}

template <typename T>
Bytes BytesOf(const T& plain) {
  return std::as_bytes(std::span(&plain, 1));
}

Proof ProofOfClaim(const std::string& secret, const Sha256& challenge, Claim claim) {
  claim.proof = Proof();
  return HmacSha256(secret, "atoll island claim" + TextOf(challenge) + TextOf(claim));
}

Proof ProofOfWelcome(const std::string& secret, const Sha256& challenge, const Claim& claim, uint32_t verdict) {
  return HmacSha256(secret, "atoll island welcome" + TextOf(challenge) + TextOf(claim.nonce) + TextOf(verdict));
}

Sha256 ProgramOf(const IslandPlace& place) { return Sha256Of(AsBytes(place.program)); }

absl::Status Refused(const IslandPlace& place, uint32_t verdict) {
  const std::string who =
      absl::StrCat("rank ", place.rank, " is refused by the island at ", place.address, " port ", place.port, ": ");
  switch (static_cast<DoorVerdict>(verdict)) {
    case DoorVerdict::kWrongSecret:
      return absl::FailedPreconditionError(
          absl::StrCat(who, "the secrets differ; give all ranks the same ATOLL_ISLAND_SECRET"));
    case DoorVerdict::kWrongProgram:
      return absl::FailedPreconditionError(absl::StrCat(who, "it runs version ", place.program,
                                                        ", rank 0 runs another; install the same version everywhere"));
    case DoorVerdict::kWrongWorld:
      return absl::FailedPreconditionError(
          absl::StrCat(who, "it expects ", place.world, " ranks, rank 0 expects another number"));
    default:
      return absl::FailedPreconditionError(absl::StrCat(
          who, "that rank is already connected or not part of the island; give each process its own RANK"));
  }
}

}  // namespace

absl::Status Reception::TakeNew() {
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(Descriptor socket, AcceptFrom(listener_));
    if (!socket.open()) return absl::OkStatus();
    Guest guest;
    guest.socket = std::move(socket);
    ATOLL_ASSIGN_OR_RETURN(guest.nonce, MakeNonce());
    guest.until = clock_.Now() + kGuestPatience;
    Challenge challenge{};
    std::memcpy(challenge.magic, kMagic, sizeof(kMagic));
    challenge.nonce = guest.nonce;
    const auto sent = SendSome(guest.socket, BytesOf(challenge));  // a new connection has buffer space for it
    if (!sent.ok() || *sent != sizeof(challenge)) continue;
    if (guests_.size() == kMostGuests) guests_.pop_front();
    guests_.push_back(std::move(guest));
  }
}

bool Reception::Read(Guest& guest) {
  const auto rest = std::as_writable_bytes(std::span(&guest.claim, 1)).subspan(guest.got);
  const auto got = ReceiveSome(guest.socket, rest);
  if (!got.ok()) return true;
  guest.got += *got;
  const size_t seen = std::min(guest.got, sizeof(kMagic));
  return std::memcmp(guest.claim.magic, kMagic, seen) != 0 || clock_.Now() >= guest.until;
}

DoorVerdict Reception::Judge(const Guest& guest, const std::function<bool(IslandLink, uint32_t)>& expects) const {
  const Claim& claim = guest.claim;
  if (claim.proof != ProofOfClaim(place_.secret, guest.nonce, claim)) return DoorVerdict::kWrongSecret;
  if (claim.program != ProgramOf(place_)) return DoorVerdict::kWrongProgram;
  if (claim.world != place_.world) return DoorVerdict::kWrongWorld;
  const bool link_known = claim.link <= static_cast<uint32_t>(IslandLink::kChain);
  if (!link_known || !expects(static_cast<IslandLink>(claim.link), claim.rank)) return DoorVerdict::kWrongRank;
  return DoorVerdict::kWelcome;
}

absl::StatusOr<std::optional<Arrival>> Reception::Turn(const std::function<bool(IslandLink, uint32_t)>& expects) {
  std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) waiting.push_back({guest.socket.get(), POLLIN, 0});
  AwaitAny(waiting);
  ATOLL_RETURN_IF_ERROR(TakeNew());
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const bool goes = Read(*guest);
    if (guest->got < sizeof(Claim) || goes) {
      guest = goes ? guests_.erase(guest) : std::next(guest);
      continue;
    }
    Guest known = std::move(*guest);
    guest = guests_.erase(guest);
    const DoorVerdict verdict = Judge(known, expects);
    ClaimReply welcome{};
    std::memcpy(welcome.magic, kMagic, sizeof(kMagic));
    welcome.verdict = static_cast<uint32_t>(verdict);
    // A peer that did not prove the secret gets nothing derived from it.
    if (verdict != DoorVerdict::kWrongSecret) {
      welcome.proof = ProofOfWelcome(place_.secret, known.nonce, known.claim, welcome.verdict);
    }
    const auto sent = SendSome(known.socket, BytesOf(welcome));
    if (verdict != DoorVerdict::kWelcome || !sent.ok() || *sent != sizeof(welcome)) continue;
    return Arrival{std::move(known.socket), static_cast<IslandLink>(known.claim.link), known.claim.rank,
                   known.claim.port};
  }
  return std::nullopt;
}

absl::Status ProveAt(const Descriptor& socket, IslandLink link, uint32_t port, const IslandPlace& place,
                     const Deadline& deadline) {
  Challenge challenge{};
  ATOLL_RETURN_IF_ERROR(ReceiveAll(socket, std::as_writable_bytes(std::span(&challenge, 1)), deadline));
  if (std::memcmp(challenge.magic, kMagic, sizeof(kMagic)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server at ", place.address, " port ", place.port, " is not an island"));
  }
  Claim claim{};
  std::memcpy(claim.magic, kMagic, sizeof(kMagic));
  claim.link = static_cast<uint32_t>(link);
  claim.rank = place.rank;
  claim.world = place.world;
  claim.port = port;
  claim.program = ProgramOf(place);
  ATOLL_ASSIGN_OR_RETURN(claim.nonce, MakeNonce());
  claim.proof = ProofOfClaim(place.secret, challenge.nonce, claim);
  ATOLL_RETURN_IF_ERROR(SendAll(socket, BytesOf(claim), deadline));
  ClaimReply welcome{};
  ATOLL_RETURN_IF_ERROR(ReceiveAll(socket, std::as_writable_bytes(std::span(&welcome, 1)), deadline));
  if (welcome.verdict == static_cast<uint32_t>(DoorVerdict::kWrongSecret)) return Refused(place, welcome.verdict);
  if (welcome.proof != ProofOfWelcome(place.secret, challenge.nonce, claim, welcome.verdict)) {
    return absl::FailedPreconditionError(absl::StrCat("the server at ", place.address, " port ", place.port,
                                                      " does not know the secret of this island"));
  }
  if (welcome.verdict != static_cast<uint32_t>(DoorVerdict::kWelcome)) return Refused(place, welcome.verdict);
  return absl::OkStatus();
}

}  // namespace atl
