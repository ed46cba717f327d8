// SPDX-License-Identifier: Apache-2.0
// Strongly typed identifiers. Two kinds cannot be mixed up, and no bare integer converts
// implicitly.
#ifndef ATOLL_COMMON_BASE_IDS_H_
#define ATOLL_COMMON_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace atl {

template <typename Tag, typename Value>
struct StrongId {
  Value value{};
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

struct JobTag {};
struct WorkerTag {};
struct LeaseTag {};
struct IncarnationTag {};
struct BootTag {};
struct VersionTag {};
struct FragmentTag {};

using JobId = StrongId<JobTag, std::string>;             // "tiny-llama": the part of jobs/{job} after the slash
using WorkerId = StrongId<WorkerTag, std::string>;       // "paris-1": the part of workers/{worker} after the slash
using LeaseId = StrongId<LeaseTag, uint64_t>;            // never reused by a coordinator; 0 is none
using Incarnation = StrongId<IncarnationTag, uint64_t>;  // grows each time a worker (re)joins; 0 is none
using BootNumber = StrongId<BootTag, uint64_t>;          // grows each time the coordinator starts; 0 is none
using Version = StrongId<VersionTag, uint64_t>;          // number of outer steps of a fragment
using FragmentIndex = StrongId<FragmentTag, uint32_t>;   // index in ModelLayout::fragments, from 0

}  // namespace atl

template <typename Tag, typename Value>
struct std::hash<atl::StrongId<Tag, Value>> {
  size_t operator()(const atl::StrongId<Tag, Value>& id) const { return std::hash<Value>{}(id.value); }
};

#endif  // ATOLL_COMMON_BASE_IDS_H_
