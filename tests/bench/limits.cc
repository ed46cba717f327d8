// SPDX-License-Identifier: Apache-2.0
// bench_limits [ROUNDS [ELEMENTS]]: the machine's limits, as JSON for scripts/bench. Memory copy
// and triad with 1 and 2 threads over arrays of ELEMENTS floats; TCP over loopback with 1, 2 and 4
// connections; OpenSSL AES-128-GCM and AES-256-GCM in records of 16 KiB; checksums and hashes.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/hash.h"
#include "tests/bench/bench.h"
#include "tests/bench/memory.h"
#include "tests/bench/sockets.h"

namespace atl::bench {
namespace {

constexpr size_t kRecordBytes = 16 << 10;  // the largest TLS record

// Sends the same MiB repeatedly; the receiver reuses one buffer.
void SendMany(int fd, size_t bytes) {
  const std::vector<std::byte> buffer(kWriteBytes, std::byte{'x'});
  for (; bytes > 0; bytes -= std::min(bytes, buffer.size()))
    SendAll(fd, std::span(buffer).first(std::min(bytes, buffer.size())));
}

void ReceiveMany(int fd, size_t bytes) {
  std::vector<std::byte> buffer(kWriteBytes);
  for (; bytes > 0; bytes -= std::min(bytes, buffer.size()))
    ReceiveAll(fd, std::span(buffer).first(std::min(bytes, buffer.size())));
}

// One thread for each end of each connection.
Variant Tcp(size_t connections, size_t bytes) {
  auto pairs = std::make_shared<std::vector<SocketPair>>();
  for (size_t i = 0; i < connections; ++i) pairs->push_back(Connect());
  const std::string name = "tcp, " + std::to_string(connections) + (connections == 1 ? " connection" : " connections");
  return {name,
          static_cast<double>(bytes / connections * connections),
          [pairs, bytes] {
            InParallel(static_cast<unsigned>(2 * pairs->size()), [&](unsigned part) {
              const auto& [client, server] = (*pairs)[part / 2];
              if (part % 2 == 0) {
                ReceiveMany(server.fd(), bytes / pairs->size());
              } else {
                SendMany(client.fd(), bytes / pairs->size());
              }
            });
          },
          {}};
}

// Seals or opens a buffer record by record with one key and a counter nonce, as a TLS connection
// does.
class Gcm {
 public:
  Gcm(const EVP_CIPHER* cipher, size_t bytes)
      : plain_(bytes / kRecordBytes * kRecordBytes, 1), sealed_(plain_.size()), tags_(plain_.size() / kRecordBytes) {
    ATOLL_CHECK(seal_ && open_ && EVP_EncryptInit_ex(seal_.get(), cipher, nullptr, key_.data(), nullptr) == 1 &&
                    EVP_DecryptInit_ex(open_.get(), cipher, nullptr, key_.data(), nullptr) == 1,
                "OpenSSL has no AES-GCM");
  }

  void Seal() {
    int size = 0;
    for (size_t i = 0; i < tags_.size(); ++i) {
      const auto nonce = Nonce(i);
      ATOLL_CHECK(EVP_EncryptInit_ex(seal_.get(), nullptr, nullptr, nullptr, nonce.data()) == 1 &&
                      EVP_EncryptUpdate(seal_.get(), &sealed_[i * kRecordBytes], &size, &plain_[i * kRecordBytes],
                                        kRecordBytes) == 1 &&
                      EVP_EncryptFinal_ex(seal_.get(), &sealed_[i * kRecordBytes], &size) == 1 &&
                      EVP_CIPHER_CTX_ctrl(seal_.get(), EVP_CTRL_GCM_GET_TAG, 16, tags_[i].data()) == 1,
                  "sealing a record failed");
    }
  }

  void Open() {
    int size = 0;
    for (size_t i = 0; i < tags_.size(); ++i) {
      const auto nonce = Nonce(i);
      ATOLL_CHECK(EVP_DecryptInit_ex(open_.get(), nullptr, nullptr, nullptr, nonce.data()) == 1 &&
                      EVP_DecryptUpdate(open_.get(), &plain_[i * kRecordBytes], &size, &sealed_[i * kRecordBytes],
                                        kRecordBytes) == 1 &&
                      EVP_CIPHER_CTX_ctrl(open_.get(), EVP_CTRL_GCM_SET_TAG, 16, tags_[i].data()) == 1 &&
                      EVP_DecryptFinal_ex(open_.get(), &plain_[i * kRecordBytes], &size) == 1,
                  "opening a record failed");
    }
  }

  double bytes() const { return static_cast<double>(plain_.size()); }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  using Context = std::unique_ptr<EVP_CIPHER_CTX, Free>;

  static std::array<unsigned char, 12> Nonce(size_t record) {
    std::array<unsigned char, 12> nonce{};
    for (size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<unsigned char>(record >> (56 - 8 * i));
    return nonce;
  }

  std::array<unsigned char, 32> key_{1, 2, 3};  // the cipher uses as much of it as it needs
  std::vector<unsigned char> plain_, sealed_;
  std::vector<std::array<unsigned char, 16>> tags_;
  Context seal_{EVP_CIPHER_CTX_new()}, open_{EVP_CIPHER_CTX_new()};
};

// Stores to a volatile, so that the value is computed.
void Use(uint64_t value) {
  [[maybe_unused]] static volatile uint64_t sink;
  sink = value;
}

Group Hashes(size_t rounds, size_t elements) {
  const std::vector<float> values(elements, 0.25f);
  const Bytes bytes = std::as_bytes(std::span(values));
  const double size = static_cast<double>(bytes.size());
  return Interleave("checksums and hashes", 1,
                    {{"crc32c", size, [bytes] { Use(Crc32c(0, bytes)); }, {}},
                     {"digest (XXH3)", size, [bytes] { Use(DigestOf(bytes).low); }, {}},
                     {"content hash", size, [&values] { Use(ContentHash(values, 1, {}).low); }, {}}},
                    rounds);
}

std::vector<Group> Run(size_t rounds, size_t elements) {
  std::vector<Group> groups;
  MemoryYard yard(elements);
  for (const unsigned threads : {1u, 2u}) {
    groups.push_back(Interleave("memory", threads,
                                {yard.CopyOn(threads), yard.TriadOn(threads), yard.TriadStreamingOn(threads)}, rounds));
  }
  const size_t bytes = 16 * elements;
  groups.push_back(Interleave("loopback", 2, {Tcp(1, bytes), Tcp(2, bytes), Tcp(4, bytes)}, rounds));
  for (const auto& [name, cipher] : {std::pair{"AES-128-GCM", EVP_aes_128_gcm()}, {"AES-256-GCM", EVP_aes_256_gcm()}}) {
    Gcm gcm(cipher, 4 * elements);
    groups.push_back(Interleave(name, 1,
                                {{"seal", gcm.bytes(), [&gcm] { gcm.Seal(); }, {}},
                                 {"open", gcm.bytes(), [&gcm] { gcm.Open(); }, {}},
                                 {"seal and open", gcm.bytes(), [&gcm] { gcm.Seal(), gcm.Open(); }, {}}},
                                rounds));
  }
  groups.push_back(Hashes(rounds, elements));
  return groups;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) { return atl::bench::Main(argc, argv, atl::bench::Run); }
