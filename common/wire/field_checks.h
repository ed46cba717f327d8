// SPDX-License-Identifier: Apache-2.0
// Checks of single fields from the network, shared by this room's conversions. Each error is
// InvalidArgument that begins with the field's path.
#ifndef ATOLL_COMMON_WIRE_FIELD_CHECKS_H_
#define ATOLL_COMMON_WIRE_FIELD_CHECKS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/v1/worker.pb.h"
#include "common/base/status.h"
#include "common/plan/limits.h"
#include "common/plan/messages.h"

namespace atl {

absl::Status FieldError(const std::string& path, const std::string& what);

// At most limits::kTextBytes.
absl::Status CheckText(const std::string& text, const std::string& path);
// At most limits::kCount.
absl::Status CheckCount(uint64_t value, const std::string& path);
absl::Status CheckSize(size_t size, size_t limit, const std::string& path);
absl::Status CheckNotNegative(int64_t value, const std::string& path);
// A mean training loss: 0 to limits::kMostLossMicro.
absl::Status CheckLoss(int64_t micro, const std::string& path);

enum class Emptiness { kRefused, kAllowed };
absl::StatusOr<JobId> JobField(const std::string& id, Emptiness empty, const std::string& path);
absl::StatusOr<WorkerId> WorkerField(const std::string& id, Emptiness empty, const std::string& path);

v1::FragmentVersion ToProto(const FragmentVersion& value);
absl::StatusOr<FragmentVersion> FromProto(const v1::FragmentVersion& proto, const std::string& path);
v1::LeaseCursor ToProto(const LeaseCursor& value);
absl::StatusOr<LeaseCursor> FromProto(const v1::LeaseCursor& proto, const std::string& path);

// Returns text that is valid to send: UTF-8 (other bytes become '?'), cut to `most` bytes, then
// ending with "...".
std::string Sendable(std::string_view text, size_t most = limits::kTextBytes);
// The first entries of a list that the receiver takes.
template <typename T>
std::span<const T> First(const std::vector<T>& list, size_t most) {
  return std::span(list).first(std::min(list.size(), most));
}
// A figure that was measured, as the receiver takes it.
inline uint64_t Countable(uint64_t value) { return std::min(value, limits::kCount); }

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_FIELD_CHECKS_H_
