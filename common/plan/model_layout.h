// SPDX-License-Identifier: Apache-2.0
// The parameter arena: the offset of each tensor. Pure arithmetic from a job's ModelSpec and fragment pattern, with
// the same result in coordinator and worker. All parameters are in one contiguous fp32 buffer,
// ordered by fragment. Gradients, moments and outer copies have the same layout. Tensor names are
// those of Hugging Face, so that an export renames nothing.
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
  uint64_t elements = 0;          // any number above 0
  std::vector<uint32_t> tensors;  // indices into ModelLayout::tensors, in arena order
};

struct ModelLayout {
  std::vector<TensorInfo> tensors;      // in arena order
  std::vector<FragmentInfo> fragments;  // in arena order, covering the arena without gaps
  uint64_t elements = 0;                // of the whole arena
  Digest digest;                        // over names, shapes, offsets and fragments: equal digests mean equal arenas
};

// Returns the layout of a resolved spec (all sizes non-zero), with fragments by `pattern`. whole is one fragment.
// strided, sequential and balanced (Streaming DiLoCo section 3) group the transformer blocks: layers /
// `layers_per_fragment` groups, rounded up. The last sequential group may be smaller; the other patterns give groups
// that differ by at most one block. Embeddings, final norm and head form one more fragment, the last.
ModelLayout MakeModelLayout(const ModelSpec& model, FragmentPattern pattern, uint32_t layers_per_fragment);
// Returns the digest of a job's layout (docs/formats/layout.md); zero if a size of the model is 0 (unresolved).
Digest LayoutDigest(const JobSpec& spec);

// Writes the initial values of arena elements [begin, begin + out.size()). Each element depends
// only on (seed, tensor name, index in tensor), so that any range can be computed alone.
void InitialParameters(const ModelLayout& layout, uint64_t seed, uint64_t begin, std::span<float> out);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_MODEL_LAYOUT_H_
