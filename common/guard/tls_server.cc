// SPDX-License-Identifier: Apache-2.0
#include "common/guard/tls_server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/guard/pieces.h"
#include "common/trust/openssl_handles.h"
#include "common/trust/secret_files.h"

namespace atl::guard {
namespace {

constexpr Duration kLookEvery = Seconds(1);
constexpr long kLongestChainBytes = 8 << 10;
// AES-128 comes first: OpenSSL prefers AES-256, which takes four more rounds a block.
constexpr const char* kTls13Suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr size_t kRecordOverhead = 64;  // more than header, nonce and tag take

// Refuses a client that offers protocols without "h2", which gRPC clients offer. OpenSSL does not
// call this function for a client that offers no protocol: it is accepted.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                   unsigned in_length, void*) {
  static constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_length, kHttp2.data(), kHttp2.size(), in, in_length) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// All records wait for Flush, so that OpenSSL never waits for the socket to accept them.
int WriteRecord(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  static_cast<Records*>(BIO_get_app_data(bio))->waiting.append(bytes, static_cast<size_t>(count));
  return count;
}

int ReadRecords(BIO* bio, char* into, int count) {
  auto* const records = static_cast<Records*>(BIO_get_app_data(bio));
  BIO_clear_retry_flags(bio);
  if (records->refused) return -1;
  if (records->readable == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const int most = static_cast<int>(std::min<size_t>(static_cast<size_t>(count), records->readable));
  const int got = BIO_meth_get_read(BIO_s_socket())(bio, into, most);
  if (got <= 0) return got;
  records->readable -= static_cast<size_t>(got);
  if (records->hello)
    records->refused = !records->hello->Take({reinterpret_cast<const uint8_t*>(into), static_cast<size_t>(got)});
  return records->refused ? -1 : got;
}

// Whether a Certificate message (RFC 8446, section 4.4.2) has as few certificates as our identity files, with keys of
// the kind that we issue: OpenSSL takes half a millisecond for each, a third of a second for a crafted one.
bool CostsLittle(std::span<const uint8_t> message) {
  const auto take = [&message](size_t width) {  // a length of `width` bytes, and as many bytes
    size_t length = 0;
    for (size_t i = 0; i < std::min(width, message.size()); ++i) length = length << 8 | message[i];
    if (width > message.size() || length > message.size() - width) return std::optional<std::span<const uint8_t>>();
    const auto taken = message.subspan(width, length);
    message = message.subspan(width + length);
    return std::optional(taken);
  };
  message = message.subspan(std::min<size_t>(message.size(), 4));  // the message's type and length
  if (!take(1)) return false;                                      // the context
  const auto list = take(3);
  if (!list) return false;
  message = *list;
  for (size_t count = 1; !message.empty(); ++count) {
    if (count > kMostInChain) return false;
    const auto certificate = take(3);
    if (!certificate || !openssl::HasP256Key(*certificate, openssl::Signed::kCertificate)) return false;
    if (!take(2)) return false;  // its extensions
  }
  return true;
}

// Sees each message before OpenSSL reads it. Counts the peer's updates of its key, each of which costs a derivation
// and, if it asks, an answer. OpenSSL decodes all certificates before it checks their signatures. A message too many
// and a chain that would cost much are made unreadable here, by a kind of update or a length that cannot be.
void SeeMessage(int sent, int, int type, const void* bytes, size_t count, SSL*, void* held) {
  if (sent != 0 || type != SSL3_RT_HANDSHAKE || count == 0) return;
  const std::span message(static_cast<const uint8_t*>(bytes), count);
  auto* const records = static_cast<Records*>(held);
  const bool many = message[0] == SSL3_MT_KEY_UPDATE && ++records->key_updates > kMostKeyUpdates;
  const bool costly = message[0] == SSL3_MT_CERTIFICATE && !CostsLittle(message);
  if (count <= 4 || !(many || costly)) return;
  records->refused = true;
  static_cast<uint8_t*>(const_cast<void*>(bytes))[4] = 0xff;
}

// OpenSSL's socket BIO with WriteRecord and ReadRecords. Null when memory is exhausted. `records` outlives it.
BIO* NewSocketBio(int socket, Records* records) {
  static BIO_METHOD* const method = [] {
    const BIO_METHOD* const sockets = BIO_s_socket();
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "guard");
    ATOLL_CHECK(made != nullptr && BIO_meth_set_write(made, WriteRecord) == 1 &&
                    BIO_meth_set_read(made, ReadRecords) == 1 &&
                    BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(sockets)) == 1 &&
                    BIO_meth_set_create(made, BIO_meth_get_create(sockets)) == 1 &&
                    BIO_meth_set_destroy(made, BIO_meth_get_destroy(sockets)) == 1,
                "there is memory for a kind of socket");
    return made;
  }();
  BIO* const bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_fd(bio, socket, BIO_NOCLOSE);
  BIO_set_app_data(bio, records);
  return bio;
}

bool Harden(SSL_CTX* context, ClientCertificates clients) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_max_cert_list(context, kLongestChainBytes);
  SSL_CTX_set_read_ahead(context, 1);
  if (clients == ClientCertificates::kDemanded) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_verify_depth(context, 4);
    SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  }
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, kTls13Suites) == 1 && SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const std::string& file, ClientCertificates clients) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, ReadIdentityFile(file));
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(identity.key_pem));
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate own, openssl::ParseCertificate(identity.certificate_pem));
  ATOLL_ASSIGN_OR_RETURN(const auto authorities, openssl::ParseCertificates(identity.authority_pem));
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  bool good = context != nullptr && Harden(context.get(), clients) &&
              SSL_CTX_use_certificate(context.get(), own.get()) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 && SSL_CTX_check_private_key(context.get()) == 1;
  for (const openssl::Certificate& authority : authorities) {
    good = good && X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1 &&
           SSL_CTX_add1_chain_cert(context.get(), authority.get()) == 1 &&
           SSL_CTX_add_client_CA(context.get(), authority.get()) == 1;
  }
  // After a rotation the list contains a cross-certificate of the new key signed by the old one. It
  // is a trust anchor, too, because the old authority's own certificate may be retired.
  good = good && X509_STORE_set_flags(SSL_CTX_get_cert_store(context.get()), X509_V_FLAG_PARTIAL_CHAIN) == 1;
  if (!good) return openssl::Failed(file);
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Open(const std::string& identity_file,
                                                           ClientCertificates clients) {
  std::unique_ptr<TlsServer> server(new TlsServer(identity_file, clients));
  const Stamp stamp = server->Look();
  ATOLL_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> context, MakeContext(identity_file, clients));
  const MutexLock lock(server->mutex_);
  server->context_ = std::move(context);
  server->stamp_ = stamp;
  return server;
}

TlsServer::Stamp TlsServer::Look() const {
  struct stat file {};
  if (::stat(file_.c_str(), &file) != 0) return {};
  return {.modified_ns = file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec,
          .size = file.st_size,
          .inode = file.st_ino};
}

std::shared_ptr<SSL_CTX> TlsServer::Current(Instant now) {
  const MutexLock lock(mutex_);
  if (now - looked_ < kLookEvery) return context_;
  looked_ = now;
  const Stamp stamp = Look();
  if (stamp == stamp_) return context_;
  absl::StatusOr<std::shared_ptr<SSL_CTX>> context = MakeContext(file_, clients_);
  if (context.ok()) {
    context_ = *std::move(context);
    stamp_ = stamp;
  }
  return context_;
}

SecureSocket::SecureSocket(int socket, const std::shared_ptr<SSL_CTX>& context) : socket_(socket) {
  if (!context) return;
  ssl_ = SSL_new(context.get());
  BIO* const bio = NewSocketBio(socket, &records_);
  ATOLL_CHECK(ssl_ != nullptr && bio != nullptr, "there is memory for a TLS connection");
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_accept_state(ssl_);
  SSL_set_msg_callback(ssl_, SeeMessage);
  SSL_set_msg_callback_arg(ssl_, &records_);
  records_.hello.emplace();
}

SecureSocket::~SecureSocket() { SSL_free(ssl_); }

// Result of an SSL call that returned no bytes. Clears the error queue.
Moved SecureSocket::Result(int code) const {
  const int error = SSL_get_error(ssl_, code);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ && !records_.refused) return {};
  return {.end = error == SSL_ERROR_ZERO_RETURN ? Moved::End::kClosed : Moved::End::kFailed};
}

Moved SecureSocket::Handshake() {
  if (ssl_ == nullptr) return {.end = Moved::End::kClosed};
  ERR_clear_error();
  const int code = SSL_do_handshake(ssl_);
  Moved moved = code == 1 ? Moved{.end = Moved::End::kClosed} : Result(code);
  if (code == 1) records_.hello.reset();
  const bool lost = Flush().end != Moved::End::kOpen;  // sends an alert, too
  Release();
  if (lost || (code != 1 && moved.end != Moved::End::kOpen)) moved.end = Moved::End::kFailed;
  return moved;
}

Moved SecureSocket::Read(std::span<uint8_t> into) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    size_t bytes = 0;
    const int code = SSL_read_ex(ssl_, into.data(), into.size(), &bytes);
    const Moved moved = code == 1 ? Moved{.bytes = bytes} : Result(code);
    return Flush().end == Moved::End::kOpen ? moved : Moved{.end = Moved::End::kFailed};
  }
  const ssize_t bytes = ::recv(socket_, into.data(), into.size(), 0);
  if (bytes > 0) return {.bytes = static_cast<size_t>(bytes)};
  if (bytes == 0) return {.end = Moved::End::kClosed};
  return {.end = errno == EAGAIN || errno == EINTR ? Moved::End::kOpen : Moved::End::kFailed};
}

Moved SecureSocket::Write(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return {};
  if (ssl_ == nullptr) return Send(bytes);
  // Bytes of earlier calls that Flush sends now do not count as taken by this call.
  if (const Moved before = Flush(); before.end != Moved::End::kOpen || waiting_bytes() > 0) {
    return {.end = before.end, .wants_write = before.end == Moved::End::kOpen};
  }
  ERR_clear_error();
  records_.waiting.reserve(bytes.size() + (bytes.size() / SSL3_RT_MAX_PLAIN_LENGTH + 1) * kRecordOverhead);
  size_t taken = 0;
  int code = 1;
  while (code == 1 && taken < bytes.size()) {
    size_t written = 0;  // a record at most
    code = SSL_write_ex(ssl_, bytes.data() + taken, bytes.size() - taken, &written);
    taken += written;
  }
  if (code != 1) return Result(code);
  Moved moved = Flush();
  moved.bytes = taken;
  return moved;
}

Moved SecureSocket::Flush() {
  std::string& waiting = records_.waiting;
  if (waiting.empty()) return {};
  const Moved moved = Send(BytesOf(waiting));
  waiting.erase(0, moved.bytes);
  return moved;
}

void SecureSocket::Release() {
  if (records_.waiting.empty()) records_.waiting.shrink_to_fit();
}

Moved SecureSocket::Send(std::span<const uint8_t> records) {
  const ssize_t sent = ::send(socket_, records.data(), records.size(), MSG_NOSIGNAL);
  if (sent > 0) return {.bytes = static_cast<size_t>(sent)};
  const bool later = errno == EAGAIN || errno == EINTR;
  return {.end = later ? Moved::End::kOpen : Moved::End::kFailed, .wants_write = later};
}

void SecureSocket::SayGoodbye() {
  if (ssl_ == nullptr || waiting_bytes() > 0) return;
  ERR_clear_error();
  (void)SSL_shutdown(ssl_);
  ERR_clear_error();
  (void)Flush();
}

std::optional<CertificateFacts> SecureSocket::PeerCertificate() const {
  if (ssl_ == nullptr) return std::nullopt;
  const openssl::Certificate shown(SSL_get1_peer_certificate(ssl_));
  if (!shown) return std::nullopt;
  const absl::StatusOr<std::string> pem = openssl::WriteCertificate(shown.get());
  if (!pem.ok()) return std::nullopt;
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(*pem);
  if (!facts.ok()) return std::nullopt;
  return *facts;
}

}  // namespace atl::guard
