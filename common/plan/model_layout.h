// SPDX-License-Identifier: Apache-2.0
// The parameter arena: which tensor lies where. Pure arithmetic from the job's ModelSpec, equal in coordinator and
// worker. All parameters are one contiguous fp32 buffer ordered by fragment; tensors, gradients, moments and outer
// copies are arenas of the same layout. Tensor names are Hugging Face's, so export needs no renaming.
#ifndef ATOLL_COMMON_PLAN_MODEL_LAYOUT_H_
#define ATOLL_COMMON_PLAN_MODEL_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/plan/job_spec.h"

namespace atl {

enum class InitKind { kNormal, kOnes };

struct TensorInfo {
  std::string name;             // "model.layers.0.self_attn.q_proj.weight"
  std::vector<uint64_t> shape;  // row-major: [out, in] for projections, [n] for norms
  uint64_t offset = 0;          // first element in the arena
  uint64_t elements = 0;
  int32_t layer = -1;     // transformer block, -1 for embeddings, final norm and head
  uint32_t fragment = 0;  // index into ModelLayout::fragments
  InitKind init = InitKind::kNormal;
  double init_std = 0;  // for kNormal
  bool decay = true;    // weight decay applies (false for norms)
};

// A contiguous range of the arena: the unit of synchronisation.
struct FragmentInfo {
  uint64_t offset = 0;            // first element in the arena
  uint64_t elements = 0;          // a multiple of nothing in particular; never 0
  std::vector<uint32_t> tensors;  // indices into ModelLayout::tensors, in arena order
};

struct ModelLayout {
  std::vector<TensorInfo> tensors;      // in arena order
  std::vector<FragmentInfo> fragments;  // in arena order, covering the arena without holes
  uint64_t elements = 0;                // of the whole arena
  Digest digest;                        // of names, shapes, offsets and fragments: equal digests, equal arenas
};

// The layout of a resolved spec (all sizes non-zero). Fragments by `pattern`: whole = one; strided, sequential and
// balanced group transformer blocks (Streaming DiLoCo section 3; `layers_per_fragment` blocks each, the last may be
// smaller), with embeddings, final norm and head as a fragment of their own, last.
ModelLayout MakeModelLayout(const ModelSpec& model, FragmentPattern pattern, uint32_t layers_per_fragment);
// The digest of a job's layout (docs/formats/layout.md); zero where the spec is not resolved.
Digest LayoutDigest(const JobSpec& spec);

// Writes the initial values of arena elements [begin, begin + out.size()) from `seed`: each element is a function of
// (seed, tensor name, index in tensor) alone, so any range can be made on its own.
void InitialParameters(const ModelLayout& layout, uint64_t seed, uint64_t begin, std::span<float> out);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_MODEL_LAYOUT_H_
