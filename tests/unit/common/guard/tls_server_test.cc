// SPDX-License-Identifier: Apache-2.0
// TLS over a real TCP connection with plain OpenSSL at the other end: data for a slowly reading
// peer, and the cost of a connection with a partial record or with updates of its key (S34).
#include "common/guard/tls_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/wall_time.h"
#include "common/trust/authority.h"
#include "common/trust/secret_files.h"
#include "tests/unit/common/trust/foreign_keys.h"

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

  // Until the server's end has something to read.
  static void Await(const Pair& pair) {
    pollfd input{.fd = pair.server_end.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&input, 1, -1), 1);
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

// S34: earlier records that go out in part are not counted as the new bytes.
TEST_F(TlsServerTest, OnlyNewBytesAreCounted) {
  Pair pair = Open();
  const int small = 16 << 10;  // room of the socket, less than the records that wait
  ASSERT_EQ(::setsockopt(pair.server_end.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
  const std::vector<uint8_t> piece(1 << 20, 7), few(10, 9);
  std::vector<uint8_t> sent, received, room(4'000);
  const auto write = [&](const std::vector<uint8_t>& bytes) {
    const Moved moved = pair.server->Write(bytes);
    ASSERT_EQ(moved.end, Moved::End::kOpen);
    ASSERT_LE(moved.bytes, bytes.size());
    sent.insert(sent.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
  };
  while (pair.server->waiting_bytes() == 0) write(piece);
  bool in_part = false;
  while (pair.server->waiting_bytes() > 0) {
    size_t bytes = 0;
    if (SSL_read_ex(pair.client.get(), room.data(), room.size(), &bytes) == 1)
      received.insert(received.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes));
    const size_t before = pair.server->waiting_bytes();
    write(few);
    in_part = in_part || (pair.server->waiting_bytes() > 0 && pair.server->waiting_bytes() < before);
  }
  EXPECT_TRUE(in_part);
  while (received.size() < sent.size()) Receive(pair, received);
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

TEST_F(TlsServerTest, AnAnnouncedHelloIsRefusedAtItsHeader) {
  Pair pair;
  ConnectSockets(pair);
  SecureSocket server(pair.server_end.get(), tls_->Current(clock_.Now()));
  const uint8_t announced[] = {22, 3, 1, 0, 4, 1, 2, 1, 68};
  ASSERT_EQ(::send(pair.client_end.get(), announced, sizeof(announced), 0), ssize_t{sizeof(announced)});
  EXPECT_EQ(server.Handshake().end, Moved::End::kFailed);
  EXPECT_TRUE(server.refused());
}

// OpenSSL decodes all of a chain before it checks signatures (S40).
TEST_F(TlsServerTest, AChainThatCostsMuchIsRefusedBeforeItIsRead) {
  using openssl::KeyKind;
  for (const auto& [kind, certificates] :
       {std::pair(KeyKind::kNamed, 1U), {KeyKind::kNamed, 4U}, {KeyKind::kNamed, 5U}, {KeyKind::kP384, 1U}}) {
    auto tls = TlsServer::Open(directory_ + "/server.pem", ClientCertificates::kDemanded);
    ASSERT_TRUE(tls.ok()) << tls.status();
    const openssl::Key key = openssl::MakeKey(kind);
    const std::unique_ptr<SSL_CTX, FreeSsl> context(SSL_CTX_new(TLS_client_method()));
    ASSERT_EQ(SSL_CTX_use_certificate(context.get(), openssl::MakeCertificate(key).get()), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
    for (size_t i = 1; i < certificates; ++i)
      ASSERT_EQ(SSL_CTX_add0_chain_cert(context.get(), openssl::MakeCertificate(key).release()), 1);
    Pair pair;
    ConnectSockets(pair);
    SecureSocket server(pair.server_end.get(), (*tls)->Current(clock_.Now()));
    const std::unique_ptr<SSL, FreeSsl> client(SSL_new(context.get()));
    ASSERT_EQ(SSL_set_fd(client.get(), pair.client_end.get()), 1);
    SSL_set_connect_state(client.get());
    Moved moved;
    while (moved.end == Moved::End::kOpen) {
      (void)SSL_do_handshake(client.get());
      moved = server.Handshake();
    }
    EXPECT_EQ(moved.end, Moved::End::kFailed) << "its issuer is unknown";
    EXPECT_EQ(server.refused(), kind == KeyKind::kP384 || certificates > kMostInChain) << certificates;
  }
}

TEST_F(TlsServerTest, KeyUpdatesAreBounded) {
  Pair pair = Open();
  std::vector<uint8_t> scratch(1000);
  for (uint32_t i = 1; i <= kMostKeyUpdates + 1; ++i) {
    ASSERT_EQ(SSL_key_update(pair.client.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(pair.client.get()), 1);
    Await(pair);
    const bool allowed = i <= kMostKeyUpdates;
    EXPECT_EQ(pair.server->Read(scratch).end, allowed ? Moved::End::kOpen : Moved::End::kFailed) << i;
    EXPECT_EQ(pair.server->refused(), !allowed) << i;
  }
}

TEST_F(TlsServerTest, KeyUpdatesOfOneReadAreBounded) {
  Pair pair = Open();
  constexpr uint32_t kUpdates = 10 * kMostKeyUpdates;
  for (uint32_t i = 0; i < kUpdates; ++i) {
    ASSERT_EQ(SSL_key_update(pair.client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(pair.client.get()), 1);
  }
  Await(pair);
  std::vector<uint8_t> scratch(1000);
  EXPECT_EQ(pair.server->Read(scratch).end, Moved::End::kFailed);
  EXPECT_TRUE(pair.server->refused());
  constexpr size_t kAnswer = 27;  // a record with one update
  EXPECT_LE(pair.server->waiting_bytes(), kMostKeyUpdates * kAnswer);
}

TEST_F(TlsServerTest, AnswersToKeyUpdatesWaitLikeOtherRecords) {
  Pair pair = Open();
  const std::vector<uint8_t> piece(60 << 10, 7);
  std::vector<uint8_t> scratch(1000), received;
  size_t sent = 0;
  for (size_t taken = 1; taken > 0; sent += taken) taken = pair.server->Write(piece).bytes;
  ASSERT_EQ(SSL_key_update(pair.client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(SSL_do_handshake(pair.client.get()), 1);
  Await(pair);
  const Moved moved = pair.server->Read(scratch);
  EXPECT_EQ(moved.end, Moved::End::kOpen);
  EXPECT_FALSE(moved.wants_write);
  while (pair.server->waiting_bytes() > 0) {
    Receive(pair, received);
    ASSERT_EQ(pair.server->Flush().end, Moved::End::kOpen);
  }
  sent += pair.server->Write(piece).bytes;
  while (received.size() < sent) Receive(pair, received);
  EXPECT_EQ(received, std::vector<uint8_t>(sent, 7)) << "also with the new key";
}

TEST_F(TlsServerTest, ATurnReadsABoundedNumberOfBytes) {
  Pair pair = Open();
  const uint8_t byte = 1;
  size_t written = 0, read = 0;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(SSL_write_ex(pair.client.get(), &byte, 1, &written), 1);
  std::vector<uint8_t> scratch(1000);
  const auto turn = [&] {
    size_t count = 0;
    pair.server->AllowReading(230);  // ten records of 23 bytes
    while (const size_t bytes = pair.server->Read(scratch).bytes) count += bytes;
    return count;
  };
  while (read < 500) {
    Await(pair);
    const size_t count = turn();
    ASSERT_LE(count, 10u);
    read += count;
  }
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
