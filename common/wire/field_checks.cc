// SPDX-License-Identifier: Apache-2.0
#include "common/wire/field_checks.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "common/plan/limits.h"
#include "common/wire/resource_names.h"

namespace atl {
absl::Status FieldError(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status CheckSize(size_t size, size_t limit, const std::string& path) {
  if (size <= limit) return absl::OkStatus();
  return FieldError(path, absl::StrCat("has ", size, " entries, at most ", limit, " are allowed"));
}

absl::Status CheckText(const std::string& text, const std::string& path) {
  if (text.size() <= limits::kTextBytes) return absl::OkStatus();
  return FieldError(path, absl::StrCat("has ", text.size(), " bytes, at most ", limits::kTextBytes, " are allowed"));
}

absl::Status CheckCount(uint64_t value, const std::string& path) {
  if (value <= limits::kCount) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value, " is impossible, at most ", limits::kCount, " is allowed"));
}

absl::Status CheckNotNegative(int64_t value, const std::string& path) {
  if (value >= 0) return absl::OkStatus();
  return FieldError(path, absl::StrCat(value, " is negative"));
}

absl::Status CheckLoss(int64_t micro, const std::string& path) {
  if (micro >= 0 && micro <= limits::kMostLossMicro) return absl::OkStatus();
  return FieldError(path, absl::StrCat(micro, " is not a loss: 0 to ", limits::kMostLossMicro, " is allowed"));
}

absl::StatusOr<JobId> JobField(const std::string& id, Emptiness empty, const std::string& path) {
  if (id.empty() && empty == Emptiness::kAllowed) return JobId{};
  if (absl::Status status = CheckId(id, path.c_str()); !status.ok()) return status;
  return JobId{id};
}

absl::StatusOr<WorkerId> WorkerField(const std::string& id, Emptiness empty, const std::string& path) {
  if (id.empty() && empty == Emptiness::kAllowed) return WorkerId{};
  if (absl::Status status = CheckId(id, path.c_str()); !status.ok()) return status;
  return WorkerId{id};
}

v1::FragmentVersion ToProto(const FragmentVersion& value) {
  v1::FragmentVersion proto;
  proto.set_fragment(value.fragment.value);
  proto.set_version(value.version.value);
  return proto;
}

absl::StatusOr<FragmentVersion> FromProto(const v1::FragmentVersion& proto, const std::string& path) {
  if (proto.fragment() >= limits::kFragments) {
    return FieldError(path + ".fragment", absl::StrCat(proto.fragment(), " is not below ", limits::kFragments));
  }
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.version(), path + ".version"));
  return FragmentVersion{{proto.fragment()}, {proto.version()}};
}

v1::LeaseCursor ToProto(const LeaseCursor& value) {
  v1::LeaseCursor proto;
  proto.set_lease(value.lease.value);
  proto.set_cursor(value.cursor);
  return proto;
}

absl::StatusOr<LeaseCursor> FromProto(const v1::LeaseCursor& proto, const std::string& path) {
  if (proto.lease() == 0) return FieldError(path + ".lease", "0 is no lease");
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.lease(), path + ".lease"));
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.cursor(), path + ".cursor"));
  return LeaseCursor{{proto.lease()}, proto.cursor()};
}

std::string Sendable(std::string_view text, size_t most) {
  constexpr std::string_view kNote = "...";
  const size_t room = text.size() <= most ? most : most - std::min(most, kNote.size());
  std::string out;
  out.reserve(std::min(text.size(), most));
  for (size_t at = 0; at < text.size();) {
    const size_t length = ValidUtf8Length(text, at);
    if (out.size() + std::max<size_t>(length, 1) > room) return out.append(kNote, 0, most - room);
    if (length == 0) {
      out += '?';
      ++at;
    } else {
      out.append(text, at, length);
      at += length;
    }
  }
  return out;
}

}  // namespace atl
