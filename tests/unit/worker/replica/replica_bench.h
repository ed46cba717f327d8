// SPDX-License-Identifier: Apache-2.0
// A replica with an outer copy and local parameters, and updates for it.
#ifndef ATOLL_TESTS_UNIT_WORKER_REPLICA_REPLICA_BENCH_H_
#define ATOLL_TESTS_UNIT_WORKER_REPLICA_REPLICA_BENCH_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "gtest/gtest.h"
#include "worker/replica/fragment_replica.h"

namespace atl {

inline constexpr Digest kLayout{5, 6};
inline constexpr size_t kElements = kCodecBlock + 500;

inline std::vector<float> Normals(uint64_t seed, size_t n = kElements, float scale = 1.0f) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = NormalAt(seed, i) * scale;
  return out;
}

inline std::vector<std::byte> Encoded(CodecKind codec, std::span<const float> in) {
  std::vector<std::byte> out(EncodedSize(codec, in.size()));
  Encode(codec, in, out);
  return out;
}

inline std::vector<float> Decoded(CodecKind codec, std::span<const std::byte> in, size_t n) {
  std::vector<float> out(n);
  Decode(codec, in, out);
  return out;
}

// A replica installed at version 4, and an update for it.
struct Bench {
  explicit Bench(ReplicaOptions options = {}, std::vector<float> start = Normals(1))
      : base(std::move(start)), outer(base.size()), local(base), replica(Make(options)) {
    EXPECT_TRUE(replica.Install(base, Version{4}, ContentHash(base, 4, kLayout)).ok());
  }

  FragmentReplica Make(ReplicaOptions options) {
    options.layout_digest = kLayout;
    download = options.download_codec;
    auto made = FragmentReplica::Create(outer, options);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }

  // Encodes `change` as the update from the current version; the bytes are stored in `bytes`.
  OuterUpdate Update(std::span<const float> change) {
    bytes = Encoded(download, change);
    std::vector<float> after(outer.begin(), outer.end());
    DecodeAdd(download, bytes, after);
    const uint64_t reached = replica.version().value + 1;
    return {Version{reached}, bytes, ContentHash(after, reached, kLayout)};
  }

  std::vector<float> base, outer, local;
  CodecKind download = CodecKind::kFp32;
  std::vector<std::byte> bytes;
  FragmentReplica replica;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_REPLICA_REPLICA_BENCH_H_
