// SPDX-License-Identifier: Apache-2.0
#include "common/wire/field_copier.h"

#include <google/protobuf/descriptor.h>

#include <type_traits>

#include "common/base/check.h"
#include "common/base/names.h"
#include "common/wire/resource_names.h"
#include "common/wire/sendable.h"

namespace atl {

FieldCopier::FieldCopier(const Message* in, Message* out)
    : in_(in), out_(out), kind_(*in->GetDescriptor()), reflection_(*in->GetReflection()) {}

FieldCopier::FieldCopier(FieldCopier& outer, const Field& field, Message* out)
    : FieldCopier(out != nullptr        ? out
                  : field.is_repeated() ? &outer.reflection_.GetRepeatedMessage(*outer.in_, &field, outer.element_)
                                        : &outer.reflection_.GetMessage(*outer.in_, &field),
                  out) {
  outer_ = &outer;
  path_ = field.name().c_str();
  violations_ = outer.violations_;
  before_submit_ = outer.before_submit_;
  status_ = outer.status_;
}

FieldCopier::Message* FieldCopier::Begin(const Field& field) const {
  if (reads()) return nullptr;
  return field.is_repeated() ? reflection_.AddMessage(out_, &field) : reflection_.MutableMessage(out_, &field);
}

const FieldCopier::Field* FieldCopier::Find(const char* name) const {
  if (!status_->ok()) return nullptr;
  const int end = kind_.field_count();
  for (int i = 0, at = found_; i < end; ++i, at = at + 1 == end ? 0 : at + 1) {
    const Field* field = kind_.field(at);
    if (field->name() != name) continue;
    found_ = at;  // the next search begins here: Fields functions have nearly the order of proto/
    return field;
  }
  ATOLL_CHECK(false, "a list names a field that its message in proto/ lacks");
}

bool FieldCopier::Has(const char* name) const {
  const Field* field = Find(name);
  return field != nullptr && reflection_.HasField(*in_, field);
}

bool FieldCopier::IsMessage(const char* name) const {
  const Field* field = Find(name);
  return field != nullptr && field->message_type() != nullptr;
}

size_t FieldCopier::Size(const char* name) const {
  const Field* field = Find(name);
  return field == nullptr ? 0 : static_cast<size_t>(reflection_.FieldSize(*in_, field));
}

size_t FieldCopier::CheckedSize(const char* name, size_t most) {
  const size_t size = Size(name);
  if (size <= most) return size;
  Refuse(name, absl::StrCat("has ", size, " entries", violations_ ? "; " : ", ", "at most ", most, " are allowed"));
  return violations_ ? most : 0;
}

std::string FieldCopier::Path(absl::string_view name) const {
  std::string path = outer_ != nullptr ? outer_->Path(path_) : path_;
  if (!path.empty() && !name.empty()) path += '.';
  return absl::StrCat(path, name, indexed_ ? absl::StrCat("[", element_, "]") : "");
}

void FieldCopier::Refuse(absl::string_view name, const std::string& problem) {
  if (violations_ != nullptr) {
    violations_->push_back({Path(name), problem});
  } else {
    Refuse(absl::InvalidArgumentError(absl::StrCat(Path(name), ": ", problem)));
  }
}

void FieldCopier::Refuse(const absl::Status& status) { status_->Update(status); }

template <class T>
void FieldCopier::Plain(const char* name, T& value) {
  using R = google::protobuf::Reflection;
  const Field* field = Find(name);
  if (field == nullptr) return;
  const R& r = reflection_;
  if (reads() && field->has_presence() && !r.HasField(*in_, field)) return;
  const auto copy = [&](auto get, auto set, auto get_element, auto add) {
    const bool element = field->is_repeated();
    if (reads()) {
      value = element ? (r.*get_element)(*in_, field, element_) : (r.*get)(*in_, field);
    } else if (element) {
      (r.*add)(out_, field, value);
    } else {
      (r.*set)(out_, field, value);
    }
  };
  if constexpr (std::is_same_v<T, bool>) copy(&R::GetBool, &R::SetBool, &R::GetRepeatedBool, &R::AddBool);
  if constexpr (std::is_same_v<T, double>) copy(&R::GetDouble, &R::SetDouble, &R::GetRepeatedDouble, &R::AddDouble);
  if constexpr (std::is_same_v<T, int64_t>) copy(&R::GetInt64, &R::SetInt64, &R::GetRepeatedInt64, &R::AddInt64);
  if constexpr (std::is_same_v<T, uint32_t>) copy(&R::GetUInt32, &R::SetUInt32, &R::GetRepeatedUInt32, &R::AddUInt32);
  if constexpr (std::is_same_v<T, uint64_t>) copy(&R::GetUInt64, &R::SetUInt64, &R::GetRepeatedUInt64, &R::AddUInt64);
  if constexpr (std::is_same_v<T, std::string>)
    copy(&R::GetString, &R::SetString, &R::GetRepeatedString, &R::AddString);
  if constexpr (std::is_same_v<T, int32_t>) {
    if (field->enum_type() != nullptr) {
      copy(&R::GetEnumValue, &R::SetEnumValue, &R::GetRepeatedEnumValue, &R::AddEnumValue);
    } else {
      copy(&R::GetInt32, &R::SetInt32, &R::GetRepeatedInt32, &R::AddInt32);
    }
  }
}
template void FieldCopier::Plain(const char*, bool&);
template void FieldCopier::Plain(const char*, double&);
template void FieldCopier::Plain(const char*, int32_t&);
template void FieldCopier::Plain(const char*, int64_t&);
template void FieldCopier::Plain(const char*, uint32_t&);
template void FieldCopier::Plain(const char*, uint64_t&);
template void FieldCopier::Plain(const char*, std::string&);

FieldCopier& FieldCopier::Any(const char* name, std::optional<uint64_t>& value) {
  if (reads() ? Has(name) : value.has_value()) Plain(name, reads() ? value.emplace() : *value);
  return *this;
}

FieldCopier& FieldCopier::operator()(const char* name, uint64_t& count) {
  return Within(name, count, uint64_t{0}, limits::kCount, "$0 is impossible, at most $2 is allowed");
}

FieldCopier& FieldCopier::operator()(const char* name, std::string& text, size_t most) {
  if (!reads()) text = Sendable(text, most);
  return Any(name, text)
      .Check(name, text.size() <= most, "has ", text.size(), " bytes, at most ", most, " are allowed");
}

FieldCopier& FieldCopier::operator()(const char* name, Sha256& hash) {
  std::string hex = reads() ? "" : hash.Hex();
  Any(name, hex);
  const char* problem = violations_ ? "must be 64 hexadecimal digits" : "is not a SHA-256 of 64 hexadecimal digits";
  return Check(name, !reads() || Sha256::FromHex(hex, hash), problem);
}

FieldCopier& FieldCopier::operator()(const char* name, CodecKind& codec) {
  int32_t number = static_cast<int32_t>(codec) + 1;
  Any(name, number);
  const bool known = number >= 1 && number <= std::ssize(kCodecKinds);
  if (known) codec = static_cast<CodecKind>(number - 1);
  return Check(name, known, "codec ", number, " is not known");
}

FieldCopier& FieldCopier::operator()(const char* name, LeaseId& lease) {
  return Any(name, lease).Check(name, lease.value != 0, "0 is no lease");
}

FieldCopier& FieldCopier::operator()(const char* name, FragmentIndex& fragment) {
  Any(name, fragment);
  return Check(name, fragment.value < limits::kFragments, fragment.value, " is not below ", limits::kFragments);
}

FieldCopier& FieldCopier::Name(const char* name, std::string& id) {
  Any(name, id);
  if (reads() && !IsName(id)) Refuse(CheckId(id, Path(name).c_str()));
  return *this;
}

bool FieldCopier::IsKnown(const char* name, int32_t number, int32_t first) {
  const Field* field = Find(name);
  if (!reads() || field == nullptr) return true;
  if (number >= first && field->enum_type()->FindValueByNumber(number) != nullptr) return true;
  if (violations_ == nullptr) {
    Refuse(name, absl::StrCat(number, " is not known"));
  } else if (number != 0) {
    Refuse(name, absl::StrCat("has the value ", number, ", which this version does not know"));
  }
  return false;
}

void Fields(FieldCopier& copy, Digest& m) { copy.Any("high", m.high).Any("low", m.low); }

void Fields(FieldCopier& copy, FragmentVersion& m) { copy("fragment", m.fragment)("version", m.version); }

void Fields(FieldCopier& copy, LeaseCursor& m) { copy("lease", m.lease)("lease", m.lease.value)("cursor", m.cursor); }

void Fields(FieldCopier& copy, TaskScore& m) {
  copy("name", m.name)
      .Any("examples", m.examples)
      .Any("correct", m.correct)
      .Any("correct_per_byte", m.correct_per_byte);
}

void Fields(FieldCopier& copy, ContributionHeader& m) {
  copy("job", m.job)("worker", m.worker)("incarnation", m.incarnation)("encoded_bytes", m.encoded_bytes);
  copy("tokens", m.tokens)("steps", m.steps)("send_step", m.send_step);
  copy.Check("encoded_bytes", m.encoded_bytes != 0 && m.encoded_bytes <= limits::kParameters * sizeof(float),
             m.encoded_bytes, " is not a size of a contribution");
  copy("target", m.target)("digest", m.digest)("codec", m.codec).Any("mean_loss_micro", m.mean_loss_micro);
  copy("cursors", m.cursors, limits::kLeasesPerWorker).Any("upload_error_nano", m.upload_error_nano);
}

}  // namespace atl
