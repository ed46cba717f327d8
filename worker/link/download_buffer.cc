// SPDX-License-Identifier: Apache-2.0
#include "worker/link/download_buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace atl {

absl::Status DownloadBuffer::OnHeader(const DownloadHeader& header) {
  if (header.total_bytes > limit_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat("the coordinator announces ", header.total_bytes,
                                                   " bytes, but at most ", limit_bytes_, " are possible"));
  }
  if (header.version < at_least_) {
    return absl::NotFoundError(absl::StrCat("the newest snapshot is of version ", header.version.value,
                                            ", and one below ", at_least_.value, " is not worth its size"));
  }
  const bool same = header_ && header_->version == header.version && header_->hash == header.hash &&
                    header_->digest == header.digest && header_->total_bytes == header.total_bytes;
  if (header_ && !same) {
    // Another version, or one of a discarded history: the received bytes are useless.
    restart_ = true;
    return absl::AbortedError("another version is now served");
  }
  header_ = header;
  if (bytes_.capacity() < header.total_bytes) {
    bytes_ = buffers_->Take(header.total_bytes);
    bytes_.clear();
  }
  return absl::OkStatus();
}

absl::Status DownloadBuffer::OnBytes(uint64_t offset, Bytes bytes) {
  if (offset != bytes_.size()) return absl::DataLossError("bytes arrived out of order");
  if (bytes_.size() + bytes.size() > header_->total_bytes) return absl::DataLossError("more bytes than announced");
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  if (!header_->digest.IsZero()) hasher_.Update(bytes);
  return absl::OkStatus();
}

void DownloadBuffer::PrepareResume(Version at_least) {
  at_least_ = at_least;
  if (restart_ || (header_ && header_->version < at_least)) Clear();
}

void DownloadBuffer::Clear() {
  restart_ = false;
  header_.reset();
  bytes_.clear();
  hasher_ = DigestHasher();
}

bool DownloadBuffer::intact() const { return header_->digest.IsZero() || hasher_.Finish() == header_->digest; }

std::shared_ptr<const std::vector<std::byte>> DownloadBuffer::Take() { return ShareFrom(buffers_, std::move(bytes_)); }

}  // namespace atl
