// SPDX-License-Identifier: Apache-2.0
#include "worker/island/secret.h"

#include <sys/random.h>

#include <array>

namespace atl {
namespace {

constexpr size_t kHashBlock = 64;

std::string TextOf(const Sha256& hash) { return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()}; }

Sha256 HashOf(const std::string& padded_key, const std::string& message) {
  Sha256Hasher hasher;
  hasher.Update(AsBytes(padded_key));
  hasher.Update(AsBytes(message));
  return hasher.Finish();
}

}  // namespace

absl::StatusOr<Sha256> MakeNonce() {
  Sha256 nonce;
  if (::getrandom(nonce.bytes.data(), nonce.bytes.size(), 0) != static_cast<ssize_t>(nonce.bytes.size())) {
    return absl::InternalError("the system returned no random bytes for an island");
  }
  return nonce;
}

absl::StatusOr<std::string> MakeIslandSecret() {
  ATOLL_ASSIGN_OR_RETURN(const Sha256 random, MakeNonce());
  return random.Hex();
}

Proof HmacSha256(const std::string& key, const std::string& message) {
  std::string block = key.size() > kHashBlock ? TextOf(Sha256Of(AsBytes(key))) : key;
  block.resize(kHashBlock, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return Proof(HashOf(outer, TextOf(HashOf(inner, message))).bytes);
}

}  // namespace atl
