// SPDX-License-Identifier: Apache-2.0
#include "common/trust/handshake.h"

#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/base/host_port.h"
#include "common/base/wall_time.h"
#include "common/trust/certificate.h"
#include "common/trust/openssl_handles.h"

namespace atl {
namespace {

using SslContext = std::unique_ptr<SSL_CTX, openssl::Freer<SSL_CTX, SSL_CTX_free>>;
using Store = std::unique_ptr<X509_STORE, openssl::Freer<X509_STORE, X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, openssl::Freer<X509_STORE_CTX, X509_STORE_CTX_free>>;
using SslSession = std::unique_ptr<SSL, openssl::Freer<SSL, SSL_free>>;

// A connected socket that is closed by its owner's destructor.
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

// Connects within kHandshakeLimit_s. The limit also applies to every later read and write of the socket.
bool Connect(int fd, const addrinfo& to) {
  const timeval limit{.tv_sec = kHandshakeLimit_s, .tv_usec = 0};
  return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
         ::connect(fd, to.ai_addr, to.ai_addrlen) == 0;
}

// `what` begins the error message: "cannot connect to ".
absl::StatusOr<std::unique_ptr<Socket>> Dial(const std::string& address, const char* what = "no TLS handshake with ") {
  ATOLL_ASSIGN_OR_RETURN(const HostPort there, ParseHostPort(address));
  const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int code = getaddrinfo(there.host.c_str(), absl::StrCat(there.port).c_str(), &hints, &found);
  if (code != 0) return absl::UnavailableError(absl::StrCat(what, address, ": ", gai_strerror(code)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    auto socket = std::make_unique<Socket>(::socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol));
    if (socket->fd() >= 0 && Connect(socket->fd(), *to)) return socket;
    error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return absl::UnavailableError(absl::StrCat(what, address, ": ", std::strerror(error)));
}

// Numeric address, "203.0.113.7:7070" or "[2001:db8::7]:7070".
std::string PeerAddress(const Socket& socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&peer), length, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  if (peer.ss_family == AF_INET6) return absl::StrCat("[", host.data(), "]:", port.data());
  return absl::StrCat(host.data(), ":", port.data());
}

// Prepares a handshake with the protocol (h2) and the server name of a gRPC channel to a coordinator.
bool Prepare(SSL_CTX* context, SSL* session, const Socket& socket) {
  static constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
         SSL_set_alpn_protos(session, kHttp2.data(), kHttp2.size()) == 0 &&
         SSL_set_tlsext_host_name(session, kCoordinatorDnsName) == 1 && SSL_set_fd(session, socket.fd()) == 1;
}

// Returns OpenSSL's newest error and clears the error queue.
std::string NewestReason() {
  const unsigned long reason = ERR_peek_last_error();
  const char* text = reason != 0 ? ERR_reason_error_string(reason) : nullptr;
  std::string why = text != nullptr ? text : "the server closed the connection or did not answer in time";
  ERR_clear_error();
  return why;
}

// Requires a certificate of one of these authorities.
absl::Status Trust(SSL_CTX* context, const std::string& authorities_pem) {
  ATOLL_ASSIGN_OR_RETURN(const auto authorities, openssl::ParseCertificates(authorities_pem));
  for (const openssl::Certificate& authority : authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1)
      return openssl::Failed("cannot use the authority's certificate for a TLS handshake");
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return absl::OkStatus();
}

absl::Status UseIdentity(SSL_CTX* context, const IdentityFile& identity) {
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(identity.key_pem));
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate own, openssl::ParseCertificate(identity.certificate_pem));
  if (SSL_CTX_use_certificate(context, own.get()) != 1 || SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return openssl::Failed("cannot use the identity for a TLS handshake");
  return Trust(context, identity.authority_pem);
}

// Returns the error of a failed handshake: PermissionDenied if this side refused the certificate, else Unavailable.
absl::Status WhyFailed(SSL* session, const std::string& address, const std::string& authorities_pem) {
  const long verdict = SSL_get_verify_result(session);
  if (verdict != X509_V_OK) {
    ERR_clear_error();
    if (verdict == X509_V_ERR_CERT_NOT_YET_VALID || verdict == X509_V_ERR_CERT_HAS_EXPIRED)
      ATOLL_RETURN_IF_ERROR(
          CheckShownTimes(address, authorities_pem));  // a second handshake: after a failed one the certificate is gone
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate shown by ", address, " was not issued to a coordinator by our authority: ",
                     X509_verify_cert_error_string(verdict), "; check the address, or enrol at that coordinator"));
  }
  return Unreachable(address, NewestReason());
}

// True when the first certificate of the chain is a coordinator's, issued by `authority`, directly
// or through its cross-certificate. Ignores dates: the caller checks them, because its clock may be
// wrong.
bool IsIssued(STACK_OF(X509) * chain, X509* leaf, X509* authority) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const bool is =
      store && context && X509_STORE_add_cert(store.get(), authority) == 1 &&
      X509_STORE_CTX_init(context.get(), store.get(), leaf, chain) == 1 &&
      X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_SERVER) == 1 &&
      X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(context.get()), kCoordinatorDnsName, 0) == 1 &&
      X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context.get()), X509_V_FLAG_NO_CHECK_TIME) == 1 &&
      X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  return is;
}

// Returns the pinned certificate of the chain, if it issued the first one.
absl::StatusOr<std::string> Pinned(SSL* session, const std::string& address, const Sha256& fingerprint) {
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(session);
  X509* leaf = SSL_get0_peer_certificate(session);
  std::string seen;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* certificate = sk_X509_value(chain, i);
    seen = openssl::Fingerprint(certificate).Hex();
    if (openssl::Fingerprint(certificate) != fingerprint) continue;
    if (IsIssued(chain, leaf, certificate)) return openssl::WriteCertificate(certificate);
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the join token is for another coordinator than the one at ", address, " (authority ", fingerprint.Hex(),
      " wanted, ", seen.empty() ? "none" : seen, " shown): check the address, or ask for a token of this coordinator"));
}

constexpr size_t kLongestAnswerBytes = 256 << 10;
constexpr Duration kLongestAnswerTime = Seconds(20);

// Reads until the other end closes, or an error. nullopt when the answer is too long or takes too
// long.
std::optional<std::string> ReadAll(SSL* session) {
  const SystemClock clock;
  const Instant until = clock.Now() + kLongestAnswerTime;
  std::string all;
  std::array<char, 4096> chunk{};
  while (all.size() <= kLongestAnswerBytes && clock.Now() < until) {
    const int count = SSL_read(session, chunk.data(), static_cast<int>(chunk.size()));
    if (count <= 0) return all;
    all.append(chunk.data(), static_cast<size_t>(count));
  }
  return std::nullopt;
}

// Returns the value of a header; empty when it is missing. `name` is in lower case.
std::string HeaderOf(const std::string& head, const std::string& name) {
  const size_t at = head.find(absl::StrCat("\r\n", name, ":"));
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 3;
  return std::string(absl::StripAsciiWhitespace(head.substr(begin, head.find("\r\n", begin) - begin)));
}

std::optional<HttpsAnswer> ParseAnswer(const std::string& text) {
  const size_t end = text.find("\r\n\r\n");
  if (text.rfind("HTTP/1.1 ", 0) != 0 || end == std::string::npos) return std::nullopt;
  const std::string head = absl::AsciiStrToLower(text.substr(0, end + 2));
  HttpsAnswer answer{.content_type = HeaderOf(head, "content-type"), .body = text.substr(end + 4)};
  size_t length = 0;
  if (!absl::SimpleAtoi(text.substr(9, 3), &answer.status) ||
      !absl::SimpleAtoi(HeaderOf(head, "content-length"), &length) || length != answer.body.size())
    return std::nullopt;
  return answer;
}

}  // namespace

absl::StatusOr<HttpsAnswer> PostHttps(const std::string& address, const std::string& authorities_pem,
                                      const std::string& target, const std::string& content_type,
                                      const std::string& body) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address));
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return openssl::Failed("cannot prepare a TLS handshake");
  ATOLL_RETURN_IF_ERROR(Trust(context.get(), authorities_pem));
  const SslSession session(SSL_new(context.get()));
  if (!session || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_set_tlsext_host_name(session.get(), kCoordinatorDnsName) != 1 ||
      SSL_set_fd(session.get(), socket->fd()) != 1 || SSL_set1_host(session.get(), kCoordinatorDnsName) != 1) {
    return openssl::Failed("cannot prepare a TLS handshake");
  }
  if (SSL_connect(session.get()) != 1) return WhyFailed(session.get(), address, authorities_pem);
  const std::string request =
      absl::StrCat("POST ", target, " HTTP/1.1\r\nHost: ", kCoordinatorDnsName, "\r\nContent-Type: ", content_type,
                   "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
  if (SSL_write(session.get(), request.data(), static_cast<int>(request.size())) <= 0)
    return Unreachable(address, NewestReason());
  const std::optional<std::string> text = ReadAll(session.get());
  const std::string reason = NewestReason();
  if (!text || text->empty()) return Unreachable(address, reason);
  std::optional<HttpsAnswer> answer = ParseAnswer(*text);
  if (!answer) return Unreachable(address, "the server does not use HTTP/1.1, or its response is incomplete");
  return *std::move(answer);
}

absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Sha256& fingerprint,
                                           const std::string& preamble) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address));
  (void)::send(socket->fd(), preamble.data(), preamble.size(), MSG_NOSIGNAL);
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  const SslSession session(context ? SSL_new(context.get()) : nullptr);
  // The pin is checked after the handshake, on the certificates shown.
  if (!session || !Prepare(context.get(), session.get(), *socket)) {
    return openssl::Failed("cannot prepare a TLS handshake");
  }
  if (SSL_connect(session.get()) != 1) return Unreachable(address, NewestReason());
  return Pinned(session.get(), address, fingerprint);
}

absl::Status CheckShownTimes(const std::string& address, const std::string& authorities_pem) {
  const absl::StatusOr<std::unique_ptr<Socket>> socket = Dial(address);
  const auto authorities = openssl::ParseCertificates(authorities_pem);
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  const SslSession session(context ? SSL_new(context.get()) : nullptr);
  if (!socket.ok() || !authorities.ok() || !session || !Prepare(context.get(), session.get(), **socket))
    return absl::OkStatus();
  (void)SSL_connect(session.get());  // the certificate may be available even if the handshake fails later
  ERR_clear_error();
  X509* const leaf = SSL_get0_peer_certificate(session.get());
  const bool ours = leaf != nullptr && std::ranges::any_of(*authorities, [&](const openssl::Certificate& authority) {
                      return IsIssued(SSL_get_peer_cert_chain(session.get()), leaf, authority.get());
                    });
  if (!ours) return absl::OkStatus();
  const absl::StatusOr<std::string> pem = openssl::WriteCertificate(leaf);
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(pem.value_or(""));
  if (!facts.ok()) return absl::OkStatus();
  const absl::Status good = CheckTimes(*facts, WallSeconds(SystemClock()));
  if (good.ok()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(address, " shows a certificate that is not valid by this machine's clock: ", good.message(),
                   ", on this machine or on the coordinator's"));
}

absl::StatusOr<std::string> TryConnect(const std::string& address) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address, "cannot connect to "));
  return PeerAddress(*socket);
}

absl::Status TryGreeting(const std::string& address, const std::string& preamble) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address, "cannot connect to "));
  (void)::send(socket->fd(), preamble.data(), preamble.size(), MSG_NOSIGNAL);
  char first = 0;
  const ssize_t read = ::recv(socket->fd(), &first, 1, 0);
  if (read == 1) return absl::OkStatus();
  const std::string why = read == 0                                 ? "the server closed the connection"
                          : errno == EAGAIN || errno == EWOULDBLOCK ? "no data arrived in time"
                                                                    : std::strerror(errno);
  return absl::UnavailableError(absl::StrCat("no answer from ", address, ": ", why));
}

absl::StatusOr<std::string> TryHandshake(const std::string& address, const IdentityFile& identity) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Dial(address, "cannot connect to "));
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return openssl::Failed("cannot prepare a TLS handshake");
  ATOLL_RETURN_IF_ERROR(UseIdentity(context.get(), identity));
  const SslSession session(SSL_new(context.get()));
  if (!session || !Prepare(context.get(), session.get(), *socket) ||
      SSL_set1_host(session.get(), kCoordinatorDnsName) != 1) {
    return openssl::Failed("cannot prepare a TLS handshake");
  }
  if (SSL_connect(session.get()) != 1) return WhyFailed(session.get(), address, identity.authority_pem);
  // A coordinator that accepts our certificate sends first (HTTP/2 SETTINGS). One that refuses it sends
  // a TLS alert. One that is stopping or has too many connections just ends this one.
  char first = 0;
  errno = 0;
  if (SSL_read(session.get(), &first, 1) == 1) return std::string(SSL_get_version(session.get()));
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Unreachable(address, "no answer in time");
  const unsigned long error = ERR_peek_last_error();
  const bool alert = ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET;
  ERR_clear_error();
  if (!alert) return Unreachable(address, "the connection was ended; the port may have too many; try again");
  return absl::PermissionDeniedError(
      absl::StrCat("the coordinator at ", address,
                   " refuses our certificate: another authority issued it, or it is not valid by the coordinator's "
                   "clock; get a new identity with a join token"));
}

}  // namespace atl
