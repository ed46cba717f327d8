// SPDX-License-Identifier: Apache-2.0
// A number or switch of a job, described once for the job file, the message and validation.
#ifndef ATOLL_COMMON_PLAN_NUMBER_FIELD_H_
#define ATOLL_COMMON_PLAN_NUMBER_FIELD_H_

#include <tuple>
#include <type_traits>

namespace atl {

// The allowed values of one number. kZeroOr: 0, or low to high. A real number must also be finite.
struct Bounds {
  enum class Kind { kNone, kClosed, kAboveLow, kBelowHigh, kZeroOr } kind = Kind::kNone;
  double low = 0, high = 0;  // exact, also for whole numbers

  static constexpr Bounds Within(double low, double high) { return {Kind::kClosed, low, high}; }
  static constexpr Bounds Above(double low, double high) { return {Kind::kAboveLow, low, high}; }
  static constexpr Bounds Below(double low, double high) { return {Kind::kBelowHigh, low, high}; }
  static constexpr Bounds ZeroOr(double low, double high) { return {Kind::kZeroOr, low, high}; }
};

// A number or switch of a section, by its name in the job file and in the message.
template <class Section, class Value>
struct NumberField {
  constexpr NumberField(const char* its_name, Value Section::*its_member, Bounds its_bounds = {})
      : name(its_name), member(its_member), bounds(its_bounds) {}
  const char* name;
  Value Section::*member;
  Bounds bounds;
};

// Bound on step counts, far above any run and far below overflow in sums and products.
inline constexpr double kMaxSteps = 1e12;

// The NumberFields of a section, defined after its struct. common/wire copies them from and to the message;
// ValidateJobSpec checks their bounds. A number with a default that depends on other fields may have no NumberField:
// then both rooms handle it by name. Bounds that depend on other fields are also checked by name.
template <class Section>
inline constexpr auto kNumbers = nullptr;

// Calls visit(path, field, value) for each NumberField of a section. `path`: of the section in the job file.
template <class Section, class Visit>
void ForEachNumber(const char* path, Section& section, const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(path, field, section.*field.member), ...); },
             kNumbers<std::remove_const_t<Section>>);
}

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_NUMBER_FIELD_H_
