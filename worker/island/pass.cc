// SPDX-License-Identifier: Apache-2.0
#include "worker/island/pass.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr size_t kWholeBlock = 16;

// own := before + own. Whole blocks of a known size compile to vector instructions.
template <typename T>
void AddBefore(T* __restrict own, const T* __restrict before, size_t count) {
  size_t i = 0;
  for (; i + kWholeBlock <= count; i += kWholeBlock) {
    for (size_t j = 0; j < kWholeBlock; ++j) own[i + j] = before[i + j] + own[i + j];
  }
  for (; i < count; ++i) own[i] = before[i] + own[i];
}

void Scale(float* values, size_t count, float factor) {
  size_t i = 0;
  for (; i + kWholeBlock <= count; i += kWholeBlock) {
    for (size_t j = 0; j < kWholeBlock; ++j) values[i + j] *= factor;
  }
  for (; i < count; ++i) values[i] *= factor;
}

}  // namespace

std::string NameOf(const PassHeader& header) {
  const char* kind = header.kind == PassKind::kBroadcast ? "broadcast " : "all-reduce ";
  return absl::StrCat(kind, header.number, " of ", header.elements, " values");
}

Pass::Pass(const Mesh& mesh, const PassHeader& header, std::span<std::byte> values, std::span<std::byte> scratch)
    : mesh_(mesh), header_(header), values_(values), scratch_(scratch) {
  if (first()) {
    summed_ = values_.size();
    header_in_ = sizeof(PassHeader);
  }
  if (last()) header_out_ = sizeof(PassHeader);
}

bool Pass::Done() const {
  const size_t all = values_.size();
  if (header_in_ < sizeof(PassHeader) || header_out_ < sizeof(PassHeader) || summed_ < all) return false;
  if (!last() && (up_out_ < all || (reduces() && down_in_ < all))) return false;
  return first() || !reduces() || down_out_ == all;
}

uint32_t Pass::WaitsFor() const {
  if (lost_) return *lost_;
  const bool takes_up = header_in_ < sizeof(PassHeader) || summed_ < values_.size();
  if (!first() && takes_up) return mesh_.rank - 1;
  const bool with_next =
      up_out_ < values_.size() || header_out_ < sizeof(PassHeader) || (reduces() && down_in_ < values_.size());
  return !last() && with_next ? mesh_.rank + 1 : mesh_.rank - 1;
}

absl::StatusOr<size_t> Pass::Send(uint32_t to, Bytes bytes) {
  auto sent = SendSome(To(to), bytes);
  if (!sent.ok()) lost_ = to;
  return sent;
}

absl::StatusOr<size_t> Pass::Receive(uint32_t from, std::span<std::byte> bytes) {
  auto got = ReceiveSome(To(from), bytes);
  if (!got.ok()) lost_ = from;
  return got;
}

absl::StatusOr<bool> Pass::Move() {
  bool moved = false;
  for (const auto step : {&Pass::MoveHeaders, &Pass::TakeUp, &Pass::GiveUp, &Pass::TakeDown, &Pass::GiveDown}) {
    ATOLL_ASSIGN_OR_RETURN(const bool some, (this->*step)());
    moved = moved || some;
  }
  return moved;
}

absl::StatusOr<bool> Pass::MoveHeaders() {
  size_t moved = 0;
  if (header_out_ < sizeof(PassHeader)) {
    const Bytes own = std::as_bytes(std::span(&header_, 1));
    ATOLL_ASSIGN_OR_RETURN(const size_t sent, Send(mesh_.rank + 1, own.subspan(header_out_)));
    header_out_ += sent;
    moved += sent;
  }
  if (header_in_ < sizeof(PassHeader)) {
    const auto place = std::as_writable_bytes(std::span(&theirs_, 1));
    ATOLL_ASSIGN_OR_RETURN(const size_t got, Receive(mesh_.rank - 1, place.subspan(header_in_)));
    header_in_ += got;
    moved += got;
    if (got > 0 && header_in_ == sizeof(PassHeader) && theirs_ != header_) {
      return absl::InternalError(absl::StrCat("rank ", mesh_.rank - 1, " is at ", NameOf(theirs_), " and rank ",
                                              mesh_.rank, " at ", NameOf(header_)));
    }
  }
  return moved > 0;
}

absl::StatusOr<bool> Pass::TakeUp() {
  if (first() || header_in_ < sizeof(PassHeader) || summed_ + held_ >= values_.size()) return false;
  const size_t left = values_.size() - summed_;
  if (!reduces()) {
    ATOLL_ASSIGN_OR_RETURN(const size_t got, Receive(mesh_.rank - 1, values_.subspan(summed_)));
    summed_ += got;
    return got > 0;
  }
  const size_t room = std::min(scratch_.size(), left);
  ATOLL_ASSIGN_OR_RETURN(const size_t got, Receive(mesh_.rank - 1, scratch_.subspan(held_, room - held_)));
  if (got == 0) return false;
  const size_t whole = (held_ + got) / header_.element_bytes * header_.element_bytes;
  Combine(whole);
  held_ = held_ + got - whole;
  std::memmove(scratch_.data(), scratch_.data() + whole, held_);
  return true;
}

void Pass::Combine(size_t bytes) {
  std::byte* own = values_.data() + summed_;
  if (header_.kind == PassKind::kMean) {
    auto* floats = reinterpret_cast<float*>(own);
    AddBefore(floats, reinterpret_cast<const float*>(scratch_.data()), bytes / sizeof(float));
    if (last()) Scale(floats, bytes / sizeof(float), 1.0F / static_cast<float>(mesh_.world));
  } else {
    AddBefore(reinterpret_cast<double*>(own), reinterpret_cast<const double*>(scratch_.data()), bytes / sizeof(double));
  }
  summed_ += bytes;
}

absl::StatusOr<bool> Pass::GiveUp() {
  if (last() || header_out_ < sizeof(PassHeader) || up_out_ == summed_) return false;
  ATOLL_ASSIGN_OR_RETURN(const size_t sent, Send(mesh_.rank + 1, values_.subspan(up_out_, summed_ - up_out_)));
  up_out_ += sent;
  return sent > 0;
}

// A result arrives only after its sum was sent from here, so it may replace the sum in memory.
absl::StatusOr<bool> Pass::TakeDown() {
  if (last() || !reduces() || down_in_ == up_out_) return false;
  ATOLL_ASSIGN_OR_RETURN(const size_t got, Receive(mesh_.rank + 1, values_.subspan(down_in_, up_out_ - down_in_)));
  down_in_ += got;
  return got > 0;
}

absl::StatusOr<bool> Pass::GiveDown() {
  const size_t ready = last() ? summed_ : down_in_;
  if (first() || !reduces() || down_out_ == ready) return false;
  ATOLL_ASSIGN_OR_RETURN(const size_t sent, Send(mesh_.rank - 1, values_.subspan(down_out_, ready - down_out_)));
  down_out_ += sent;
  return sent > 0;
}

void Pass::Watch(std::vector<pollfd>& sockets) const {
  const auto watch = [&sockets](const Descriptor& socket, bool takes, bool gives) {
    const int events = (takes ? POLLIN : 0) | (gives ? POLLOUT : 0);
    if (events != 0) sockets.push_back({socket.get(), static_cast<short>(events), 0});
  };
  if (!first()) {
    watch(mesh_.previous, header_in_ < sizeof(PassHeader) || summed_ < values_.size(),
          reduces() && down_out_ < (last() ? summed_ : down_in_));
  }
  if (!last()) {
    watch(mesh_.next, reduces() && down_in_ < up_out_, header_out_ < sizeof(PassHeader) || up_out_ < summed_);
  }
}

}  // namespace atl
