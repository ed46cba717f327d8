// SPDX-License-Identifier: Apache-2.0
#include "common/base/hash.h"

#include <openssl/evp.h>
#include <xxh_x86dispatch.h>

#include <bit>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/content_root.h"

namespace atl {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool ParseHex(const std::string& hex, std::span<uint8_t> out) {
  if (hex.size() != out.size() * 2) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexValue(hex[2 * i]), low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

std::string ToHex(std::span<const uint8_t> bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Digest FromXxh(XXH128_hash_t h) { return {h.high64, h.low64}; }

// Makes XXH3's first call for a long input on one thread, because that call selects the CPU's instructions unlocked.
void ChooseXxhInstructions() {
  [[maybe_unused]] static const bool kChosen = [] {
    constexpr size_t kLong = 1024;
    const std::array<std::byte, kLong> zeros{};
    XXH3_state_t* state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, zeros.data(), zeros.size());
    XXH3_freeState(state);
    return XXH3_128bits(zeros.data(), zeros.size()).low64 != 0;
  }();
}

void AddLeaf(Bytes bytes, DigestHasher& root) {
  const Digest leaf = DigestOf(bytes);
  root.Update(std::as_bytes(std::span(&leaf, 1)));
}

}  // namespace

std::string Sha256::Hex() const { return ToHex(bytes); }
bool Sha256::FromHex(const std::string& hex, Sha256& out) { return ParseHex(hex, out.bytes); }

struct Sha256Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { ATOLL_CHECK(context && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1, "SHA-256 unavailable"); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};
Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;
void Sha256Hasher::Update(Bytes data) {
  ATOLL_CHECK(EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1, "SHA-256 update");
}
Sha256 Sha256Hasher::Finish() {
  Sha256 out;
  unsigned size = 0;
  ATOLL_CHECK(EVP_DigestFinal_ex(state_->context, out.bytes.data(), &size) == 1 && size == 32, "SHA-256 finish");
  return out;
}
Sha256 Sha256Of(Bytes data) {
  Sha256Hasher hasher;
  hasher.Update(data);
  return hasher.Finish();
}

std::string Digest::Hex() const {
  std::array<uint8_t, 16> out;
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<uint8_t>(high >> (56 - 8 * i));
    out[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
  }
  return ToHex(out);
}
bool Digest::FromHex(const std::string& hex, Digest& out) {
  std::array<uint8_t, 16> raw;
  if (!ParseHex(hex, raw)) return false;
  out = {};
  for (size_t i = 0; i < 8; ++i) {
    out.high = (out.high << 8) | raw[i];
    out.low = (out.low << 8) | raw[8 + i];
  }
  return true;
}
Digest DigestOf(Bytes data) {
  ChooseXxhInstructions();
  return FromXxh(XXH3_128bits(data.data(), data.size()));
}

struct DigestHasher::State {
  XXH3_state_t* state = XXH3_createState();
  State() {
    ChooseXxhInstructions();
    XXH3_128bits_reset(state);
  }
  ~State() { XXH3_freeState(state); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};
DigestHasher::DigestHasher() : state_(std::make_unique<State>()) {}
DigestHasher::~DigestHasher() = default;
DigestHasher::DigestHasher(DigestHasher&&) noexcept = default;
DigestHasher& DigestHasher::operator=(DigestHasher&&) noexcept = default;
void DigestHasher::Update(Bytes data) { XXH3_128bits_update(state_->state, data.data(), data.size()); }
Digest DigestHasher::Finish() const { return FromXxh(XXH3_128bits_digest(state_->state)); }

Digest ContentHash(std::span<const float> fragment, uint64_t version, Digest layout) {
  static_assert(std::endian::native == std::endian::little, "fragments are hashed as little-endian fp32");
  const Bytes bytes = std::as_bytes(fragment);
  std::vector<Digest> leaves((bytes.size() + kLeafBytes - 1) / kLeafBytes);
  HashLeaves(bytes, leaves);
  return ContentRoot(leaves, version, layout);
}

void HashLeaves(Bytes bytes, std::span<Digest> leaves) {
  for (size_t at = 0; at < bytes.size(); at += kLeafBytes)
    leaves[at / kLeafBytes] = DigestOf(bytes.subspan(at, std::min(kLeafBytes, bytes.size() - at)));
}

Digest ContentRoot(std::span<const Digest> leaves, uint64_t version, Digest layout) {
  DigestHasher root;
  root.Update(std::as_bytes(leaves));
  const std::array<uint64_t, 3> tail = {version, layout.high, layout.low};
  root.Update(std::as_bytes(std::span(tail)));
  return root.Finish();
}

void ContentHasher::Update(Bytes data) {
  while (!data.empty()) {
    if (leaf_.empty() && data.size() >= kLeafBytes) {
      AddLeaf(data.first(kLeafBytes), root_);
      data = data.subspan(kLeafBytes);
      continue;
    }
    const size_t take = std::min(kLeafBytes - leaf_.size(), data.size());
    leaf_.insert(leaf_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(take));
    data = data.subspan(take);
    if (leaf_.size() < kLeafBytes) return;
    AddLeaf(leaf_, root_);
    leaf_.clear();
  }
}

Digest ContentHasher::Finish(uint64_t version, Digest layout) {
  if (!leaf_.empty()) AddLeaf(leaf_, root_);
  const std::array<uint64_t, 3> tail = {version, layout.high, layout.low};
  root_.Update(std::as_bytes(std::span(tail)));
  return root_.Finish();
}

}  // namespace atl
