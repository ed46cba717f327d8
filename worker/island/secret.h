// SPDX-License-Identifier: Apache-2.0
// The shared secret of an island. A rank proves its knowledge without sending it: HMAC-SHA256 (RFC
// 2104) over both sides' random numbers. Pure except for the random numbers; no thread rule.
#ifndef ATOLL_WORKER_ISLAND_SECRET_H_
#define ATOLL_WORKER_ISLAND_SECRET_H_

#include <string>

#include "common/base/hash.h"
#include "common/base/secret.h"
#include "common/base/status.h"

namespace atl {

// 64 hexadecimal digits of system randomness.
absl::StatusOr<std::string> MakeIslandSecret();
// A number used once.
absl::StatusOr<Sha256> MakeNonce();
// A proof. Proofs are compared in constant time, so that a guess reveals nothing about its correct part.
using Proof = Secret<32>;
Proof HmacSha256(const std::string& key, const std::string& message);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_SECRET_H_
