// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/raw_tls.h"

#include <algorithm>
#include <array>
#include <thread>

#include "common/base/check.h"

namespace atl::bench {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

Context ContextOf(const SSL_METHOD* method, const std::string& identity_file) {
  Context context(SSL_CTX_new(method));
  const char* file = identity_file.c_str();
  ATOLL_CHECK(context && SSL_CTX_use_certificate_chain_file(context.get(), file) == 1 &&
                  SSL_CTX_use_PrivateKey_file(context.get(), file, SSL_FILETYPE_PEM) == 1 &&
                  SSL_CTX_load_verify_locations(context.get(), file, nullptr) == 1,
              "OpenSSL does not take an identity file");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Reads header and body of a record in one system call.
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

SSL* Over(const Context& context, const Socket& socket) {
  SSL* ssl = SSL_new(context.get());
  ATOLL_CHECK(ssl != nullptr && SSL_set_fd(ssl, socket.fd()) == 1, "OpenSSL does not take a socket");
  return ssl;
}

std::string Told(const SSL* ssl) { return std::string(SSL_get_version(ssl)) + " " + SSL_get_cipher_name(ssl); }

}  // namespace

std::string NegotiatedWith(int port, const TlsFiles& files) {
  const Context context = ContextOf(TLS_client_method(), files.client);
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  ATOLL_CHECK(SSL_CTX_set_alpn_protos(context.get(), kHttp2.data(), kHttp2.size()) == 0, "OpenSSL without ALPN");
  const Socket socket = ConnectTo(port);
  SSL* ssl = Over(context, socket);
  ATOLL_CHECK(SSL_connect(ssl) == 1, "the server refuses a handshake");
  std::string told = Told(ssl);
  SSL_free(ssl);
  return told;
}

TlsPair::TlsPair(const TlsFiles& files, const std::string& negotiated) : sockets_(Connect()) {
  const Context client = ContextOf(TLS_client_method(), files.client);
  const std::string suite = negotiated.substr(negotiated.find(' ') + 1);
  ATOLL_CHECK(SSL_CTX_set_ciphersuites(client.get(), suite.c_str()) == 1, "OpenSSL does not know the server's suite");
  const Context server = ContextOf(TLS_server_method(), files.server);
  client_.reset(Over(client, sockets_.client));
  server_.reset(Over(server, sockets_.server));
  std::jthread other([this] { ATOLL_CHECK(SSL_accept(server_.get()) == 1, "a handshake over loopback failed"); });
  ATOLL_CHECK(SSL_connect(client_.get()) == 1, "a handshake over loopback failed");
  ATOLL_CHECK(Told(client_.get()) == negotiated, "raw TLS negotiates another suite than the server");
}

void SendAll(SSL* ssl, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t sent = 0;
    ATOLL_CHECK(SSL_write_ex(ssl, bytes.data(), std::min(bytes.size(), kWriteBytes), &sent) == 1,
                "sending over TLS failed");
    bytes = bytes.subspan(sent);
  }
}

void ReceiveAll(SSL* ssl, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    size_t got = 0;
    ATOLL_CHECK(SSL_read_ex(ssl, bytes.data(), std::min(bytes.size(), kWriteBytes), &got) == 1,
                "receiving over TLS failed");
    bytes = bytes.subspan(got);
  }
}

}  // namespace atl::bench
