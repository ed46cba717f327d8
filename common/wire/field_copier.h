// SPDX-License-Identifier: Apache-2.0
// Copies a message between its proto and its domain form, in both directions by one list of fields:
//
//   static void Fields(FieldCopier& copy, LeaseRequest& m) {
//     copy("job", m.job)("request", m.request)("samples", m.samples);
//   }
//
// The names are those in proto/. Reading checks values (except in Any), and a list's length before the list is
// converted. The first error ends it: InvalidArgument that begins with the field's path, "lease_request.samples".
//
// Writing makes a message that the receiver accepts: longer texts and lists are cut, larger counts lowered. Otherwise
// the stream would end, and its sender would repeat the message after each reconnect.
#ifndef ATOLL_COMMON_WIRE_FIELD_COPIER_H_
#define ATOLL_COMMON_WIRE_FIELD_COPIER_H_

#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/substitute.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/plan/messages.h"

namespace atl {

// Whether `domain`, the last value of its enumeration, matches the last one in proto/, where the first is `first`.
constexpr bool IsLast(auto proto, auto domain, int first = 1) {
  return static_cast<int>(proto) == static_cast<int>(domain) + first;
}

class FieldCopier {
 public:
  using Message = google::protobuf::Message;
  // Reads. `path` precedes the names in errors and may be empty.
  FieldCopier(const Message& in, const char* path) : FieldCopier(&in, nullptr) { path_ = path; }
  // Reads the spec of a job and appends all errors to `violations`. An enumeration left out keeps its default.
  // `before_submit`: the spec is from a job file, which may have paths.
  FieldCopier(const Message& in, std::vector<Violation>& violations, bool before_submit) : FieldCopier(&in, nullptr) {
    violations_ = &violations;
    before_submit_ = before_submit;
  }
  explicit FieldCopier(Message& out) : FieldCopier(&out, &out) {}
  FieldCopier(const FieldCopier&) = delete;
  FieldCopier& operator=(const FieldCopier&) = delete;

  bool reads() const { return out_ == nullptr; }
  bool before_submit() const { return before_submit_; }
  const absl::Status& status() const { return *status_; }
  // The message that is read (In) or written (Out). Null in the other direction; In also after an error.
  template <class Proto>
  const Proto* In() const {
    return reads() && status_->ok() ? static_cast<const Proto*>(in_) : nullptr;
  }
  template <class Proto>
  Proto* Out() const {
    return static_cast<Proto*>(out_);
  }

  // ---- one field ----
  // A number, boolean or text without a bound.
  FieldCopier& Any(const char* name, auto& value) {
    Plain(name, value);
    return *this;
  }
  template <class Tag, class T>
  FieldCopier& Any(const char* name, StrongId<Tag, T>& id) {
    return Any(name, id.value);
  }
  FieldCopier& Any(const char* name, std::optional<uint64_t>& value);
  FieldCopier& operator()(const char* name, bool& value) { return Any(name, value); }
  FieldCopier& operator()(const char* name, double& value) { return Any(name, value); }
  FieldCopier& operator()(const char* name, uint32_t& value) { return Any(name, value); }
  FieldCopier& operator()(const char* name, uint64_t& count);  // at most limits::kCount
  FieldCopier& operator()(const char* name, std::string& text, size_t most = limits::kTextBytes);
  FieldCopier& operator()(const char* name, Sha256& hash);  // as hexadecimal digits
  FieldCopier& operator()(const char* name, CodecKind& codec);
  FieldCopier& operator()(const char* name, LeaseId& lease);           // not 0
  FieldCopier& operator()(const char* name, FragmentIndex& fragment);  // below limits::kFragments
  template <class Tag>
  FieldCopier& operator()(const char* name, StrongId<Tag, uint64_t>& id) {
    return (*this)(name, id.value);
  }
  // The name of a job or worker.
  template <class Tag>
  FieldCopier& operator()(const char* name, StrongId<Tag, std::string>& id) {
    return Name(name, id.value);
  }
  // A value from `low` to `high`; writing clamps it. In `problem` $0 is the value, $1 and $2 are the bounds.
  template <class T>
  FieldCopier& Within(const char* name, T& value, T low, T high, const char* problem) {
    if (!reads()) value = std::clamp(value, low, high);
    Any(name, value);
    const bool within = value == std::clamp(value, low, high);
    return within ? *this : Check(name, false, absl::Substitute(problem, value, low, high));
  }
  // The domain's values are those in proto/ less `first`; IsLast must hold.
  template <class T>
  FieldCopier& Enum(const char* name, T& value, int32_t first = 1) {
    int32_t number = static_cast<int32_t>(value) + first;
    Any(name, number);
    if (IsKnown(name, number, first)) value = static_cast<T>(number - first);
    return *this;
  }
  // A message: its own Fields function copies it.
  FieldCopier& operator()(const char* name, auto& message) {
    return Sub(name, [&message](FieldCopier& copy) { Fields(copy, message); });
  }
  FieldCopier& Sub(const char* name, const auto& fields) {
    if (const Field* field = Find(name)) {
      FieldCopier copy(*this, *field, Begin(*field));
      fields(copy);
    }
    return *this;
  }
  // Reads the field if it is present (without presence: not empty, not 0); true if so. Writes it if `written`.
  bool Optional(const char* name, auto& value, bool written = true) {
    if (reads() ? !Has(name) : !written) return false;
    (*this)(name, value);
    return reads();
  }

  // ---- several ----
  // At most `most` elements. Paths in errors: "held.target", or "held[1].target" if `indexed`.
  template <class T>
  FieldCopier& operator()(const char* name, std::vector<T>& list, size_t most, bool indexed = false) {
    return List(name, list, most, indexed, [this, name](T& element) { (*this)(name, element); });
  }
  template <class T>
  FieldCopier& Any(const char* name, std::vector<T>& list, size_t most) {
    return List(name, list, most, false, [this, name](T& element) { Any(name, element); });
  }
  // Reads the first `most` elements and drops the incorrect ones without an error.
  template <class T>
  FieldCopier& Lenient(const char* name, std::vector<T>& list, size_t most) {
    if (!reads() || !status_->ok()) return (*this)(name, list, most);
    const int end = static_cast<int>(std::min(Size(name), most));
    for (element_ = 0; element_ < end; ++element_) {
      (*this)(name, list.emplace_back());
      if (!std::exchange(*status_, absl::OkStatus()).ok()) list.pop_back();
    }
    return *this;
  }
  // A oneof; `names`: the field of each alternative. A field that is no message is copied by the Fields of its kind.
  template <class... Kinds>
  FieldCopier& OneOf(const char* path, std::variant<Kinds...>& value, const char* const (&names)[sizeof...(Kinds)]) {
    if (reads()) {
      size_t kind = 0;
      while (kind < sizeof...(Kinds) && !Has(names[kind])) ++kind;
      Emplace(value, kind, std::index_sequence_for<Kinds...>());
      if (kind == sizeof...(Kinds))
        Refuse(absl::InvalidArgumentError(absl::StrCat(path, ": has a kind unknown to this program")));
    }
    const char* const name = names[value.index()];
    const bool message = IsMessage(name);
    std::visit([&](auto& kind) { message ? static_cast<void>((*this)(name, kind)) : Fields(*this, kind); }, value);
    return *this;
  }

  // ---- checks, when reading ----
  size_t Size(const char* name) const;  // of the list in the message
  FieldCopier& Check(absl::string_view name, bool allowed, const auto&... problem) {
    if (reads() && !allowed) Refuse(name, absl::StrCat(problem...));
    return *this;
  }
  void Refuse(absl::string_view name, const std::string& problem);
  void Refuse(const absl::Status& status);

 private:
  using Field = google::protobuf::FieldDescriptor;

  FieldCopier(const Message* in, Message* out);
  FieldCopier(FieldCopier& outer, const Field& field, Message* out);
  // The message in a field, to be written; null when reading.
  Message* Begin(const Field& field) const;
  // Null after an error.
  const Field* Find(const char* name) const;
  bool Has(const char* name) const;
  bool IsMessage(const char* name) const;
  size_t CheckedSize(const char* name, size_t most);
  std::string Path(absl::string_view name) const;

  template <class T>
  FieldCopier& List(const char* name, std::vector<T>& list, size_t most, bool indexed, const auto& copy) {
    list.resize(reads() ? CheckedSize(name, most) : std::min(list.size(), most));
    indexed_ = indexed;
    element_ = 0;
    for (T& element : list) {
      copy(element);
      ++element_;
    }
    indexed_ = false;
    return *this;
  }
  template <class T>
  void Plain(const char* name, T& value);
  bool IsKnown(const char* name, int32_t number, int32_t first);
  FieldCopier& Name(const char* name, std::string& id);
  template <class Variant, size_t... I>
  static void Emplace(Variant& value, size_t kind, std::index_sequence<I...>) {
    static_cast<void>(((kind == I && (value.template emplace<I>(), true)) || ...));
  }

  const Message* const in_;
  Message* const out_;
  const google::protobuf::Descriptor& kind_;
  const google::protobuf::Reflection& reflection_;
  const FieldCopier* outer_ = nullptr;
  const char* path_ = "";
  std::vector<Violation>* violations_ = nullptr;
  bool before_submit_ = false;
  absl::Status own_status_;
  absl::Status* status_ = &own_status_;
  mutable int found_ = 0;  // index of the field found last
  int element_ = 0;        // of a list
  bool indexed_ = false;
};

void Fields(FieldCopier& copy, Digest& m);
void Fields(FieldCopier& copy, FragmentVersion& m);
void Fields(FieldCopier& copy, LeaseCursor& m);
void Fields(FieldCopier& copy, TaskScore& m);
void Fields(FieldCopier& copy, ContributionHeader& m);

template <class Domain>
absl::StatusOr<Domain> FromProto(const google::protobuf::Message& proto, const char* path) {
  Domain out;
  FieldCopier copy(proto, path);
  Fields(copy, out);
  if (!copy.status().ok()) return copy.status();
  return out;
}
template <class Proto, class Domain>
Proto ToProto(Domain in) {
  Proto out;
  FieldCopier copy(out);
  Fields(copy, in);
  return out;
}

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_FIELD_COPIER_H_
