// SPDX-License-Identifier: Apache-2.0
// TLS over a real TCP connection with plain OpenSSL at the other end: data for a slowly reading
// peer, and the cost of a connection with a partial record.
#include "common/guard/tls_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/wall_time.h"
#include "common/trust/authority.h"
#include "common/trust/secret_files.h"

namespace atl::guard {
namespace {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

void NeverBlock(const Descriptor& socket) { ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0); }

class TlsServerTest : public testing::Test {
 protected:
  struct Pair {
    Descriptor server_end, client_end;
    std::unique_ptr<SecureSocket> server;
    std::unique_ptr<SSL, FreeSsl> client;
  };

  void SetUp() override {
    std::string name = testing::TempDir() + "/guardXXXXXX";
    directory_ = mkdtemp(name.data());
    const int64_t now_s = WallSeconds(SystemClock());
    const std::string file = directory_ + "/server.pem";
    const auto identity = IssueIdentity(*Authority::Create(now_s), {Role::kCoordinator, "coordinator", ""}, now_s);
    ASSERT_TRUE(identity.ok() && WriteIdentityFile(file, *identity).ok());
    auto tls = TlsServer::Open(file, ClientCertificates::kNotAsked);
    ASSERT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static void ConnectSockets(Pair& pair) {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener.get(), any, length), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), any, &length), 0);
    pair.client_end = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(pair.client_end.get(), any, length), 0);
    pair.server_end = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    NeverBlock(pair.client_end);
    NeverBlock(pair.server_end);
  }

  // Returns after the handshake.
  Pair Open() {
    Pair pair;
    ConnectSockets(pair);
    pair.server = std::make_unique<SecureSocket>(pair.server_end.get(), tls_->Current(clock_.Now()));
    pair.client.reset(SSL_new(client_context_.get()));
    EXPECT_EQ(SSL_set_fd(pair.client.get(), pair.client_end.get()), 1);
    SSL_set_connect_state(pair.client.get());
    bool client_is_done = false, server_is_done = false;
    while (!client_is_done || !server_is_done) {
      client_is_done = client_is_done || SSL_do_handshake(pair.client.get()) == 1;
      const Moved moved = server_is_done ? Moved{} : pair.server->Handshake();
      if (moved.end == Moved::End::kFailed) {
        ADD_FAILURE() << "the handshake failed";
        break;
      }
      server_is_done = server_is_done || moved.end == Moved::End::kClosed;
    }
    return pair;
  }

  // Receives the bytes that are available.
  static void Receive(Pair& pair, std::vector<uint8_t>& into) {
    std::vector<uint8_t> room(10'000);
    size_t bytes = 0;
    while (SSL_read_ex(pair.client.get(), room.data(), room.size(), &bytes) == 1)
      into.insert(into.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes));
  }

  SystemClock clock_;
  std::string directory_;
  std::unique_ptr<TlsServer> tls_;
  const std::unique_ptr<SSL_CTX, FreeSsl> client_context_{SSL_CTX_new(TLS_client_method())};
};

TEST_F(TlsServerTest, EveryByteArrivesAtAPeerThatReadsSlowly) {
  Pair pair = Open();
  std::vector<uint8_t> sent(8 << 20), received;
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 2654435761U >> 24);
  size_t at = 0, most = 0;
  int refusals = 0;
  while (at < sent.size()) {
    const Moved moved = pair.server->Write(std::span(sent).subspan(at, std::min<size_t>(60 << 10, sent.size() - at)));
    ASSERT_EQ(moved.end, Moved::End::kOpen);
    at += moved.bytes;
    most = std::max(most, pair.server->waiting_bytes());
    if (moved.bytes > 0) continue;
    EXPECT_TRUE(moved.wants_write);
    ++refusals;
    Receive(pair, received);
  }
  EXPECT_GT(refusals, 0) << "the socket took everything at once";
  EXPECT_GT(most, 0u) << "no record waited";
  while (received.size() < sent.size()) {
    Receive(pair, received);
    ASSERT_EQ(pair.server->Flush().end, Moved::End::kOpen);
  }
  EXPECT_EQ(pair.server->waiting_bytes(), 0u);
  EXPECT_TRUE(received == sent);
}

TEST_F(TlsServerTest, NothingIsHeldBackAtTheEnd) {
  Pair pair = Open();
  const std::vector<uint8_t> sent(50'000, 7);
  for (size_t at = 0; at < sent.size();) at += pair.server->Write(std::span(sent).subspan(at)).bytes;
  std::vector<uint8_t> received;
  while (received.size() < sent.size()) Receive(pair, received);
  EXPECT_TRUE(received == sent);
}

TEST_F(TlsServerTest, NegotiatesTheFasterSuiteOfAes) {
  const Pair pair = Open();
  EXPECT_STREQ(SSL_get_cipher_name(pair.client.get()), "TLS_AES_128_GCM_SHA256");
}

#ifndef ATOLL_SANITIZED
TEST_F(TlsServerTest, APartOfARecordCostsOneRecord) {
  constexpr size_t kPairs = 32;
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kPairs; ++i) pairs.push_back(Open());
  std::vector<uint8_t> scratch(64 << 10);
  const size_t before = mallinfo2().uordblks;
  for (Pair& pair : pairs) {
    const uint8_t begun[] = {23, 3, 3, 64, 0, 1, 2, 3};
    ASSERT_EQ(::send(pair.client_end.get(), begun, sizeof(begun), 0), ssize_t{sizeof(begun)});
    EXPECT_EQ(pair.server->Read(scratch).end, Moved::End::kOpen);
  }
  EXPECT_LT((mallinfo2().uordblks - before) / kPairs, size_t{20} << 10);
}
#endif

}  // namespace
}  // namespace atl::guard
