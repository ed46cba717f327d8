#include "common/trust/handshake.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/trust/certificate.h"
#include "common/trust/openssl_handles.h"

namespace atl {
namespace {

using SslContext = std::unique_ptr<SSL_CTX, openssl::Freer<SSL_CTX, SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL, openssl::Freer<SSL, SSL_free>>;

// A connected socket that is closed with its owner.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

absl::Status Unreachable(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("no TLS handshake with ", address, ": ", why));
}

// Every later read and write of the socket has the same limit as the connect.
bool Connect(int fd, const addrinfo& to) {
  const timeval limit{.tv_sec = kHandshakeLimit_s, .tv_usec = 0};
  return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
         ::connect(fd, to.ai_addr, to.ai_addrlen) == 0;
}

absl::StatusOr<std::unique_ptr<Socket>> Dial(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not HOST:PORT"));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (code != 0) return Unreachable(address, gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    auto socket = std::make_unique<Socket>(::socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol));
    if (socket->fd() >= 0 && Connect(socket->fd(), *to)) return socket;
    error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return Unreachable(address, std::strerror(error));
}

// The pinned certificate of the chain, when it signed the first one.
absl::StatusOr<std::string> Pinned(SSL* session, const std::string& address, const Sha256& fingerprint) {
  const STACK_OF(X509)* chain = SSL_get_peer_cert_chain(session);
  X509* leaf = SSL_get0_peer_certificate(session);
  std::string seen;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* certificate = sk_X509_value(chain, i);
    seen = openssl::Fingerprint(certificate).Hex();
    if (openssl::Fingerprint(certificate) != fingerprint) continue;
    const bool signed_by_it = X509_verify(leaf, X509_get0_pubkey(certificate)) == 1 &&
                              X509_check_host(leaf, kCoordinatorDnsName, 0, 0, nullptr) == 1;
    ERR_clear_error();
    const openssl::Bio out(BIO_new(BIO_s_mem()));
    if (signed_by_it && PEM_write_bio_X509(out.get(), certificate) == 1) return openssl::Written(out.get());
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the join token is for another coordinator than the one at ", address, " (authority ", fingerprint.Hex(),
      " wanted, ", seen.empty() ? "none" : seen, " shown): check the address, or ask for a token of this one"));
}

}  // namespace

absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Sha256& fingerprint) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address));
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  const SslSession session(context ? SSL_new(context.get()) : nullptr);
  // The pin is checked on what was shown, after the handshake.
  static constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  if (!session || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_set_alpn_protos(session.get(), kHttp2.data(), kHttp2.size()) != 0 ||
      SSL_set_tlsext_host_name(session.get(), kCoordinatorDnsName) != 1 ||
      SSL_set_fd(session.get(), socket->fd()) != 1) {
    return openssl::Failed("cannot prepare a TLS handshake");
  }
  if (SSL_connect(session.get()) != 1) {
    const unsigned long reason = ERR_peek_last_error();
    const char* text = reason != 0 ? ERR_reason_error_string(reason) : nullptr;
    const std::string why = text != nullptr ? text : "the other end closed the connection or did not answer in time";
    ERR_clear_error();
    return Unreachable(address, why);
  }
  return Pinned(session.get(), address, fingerprint);
}

}  // namespace atl
