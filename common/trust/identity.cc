// SPDX-License-Identifier: Apache-2.0
#include "common/trust/identity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/names.h"

namespace atl {
namespace {

constexpr char kScheme[] = "atoll://";
constexpr size_t kTokenIdDigits = 16;

constexpr std::array<std::pair<Role, const char*>, 5> kRoles = {{{Role::kViewer, "viewer"},
                                                                 {Role::kOperator, "operator"},
                                                                 {Role::kAdmin, "admin"},
                                                                 {Role::kWorker, "worker"},
                                                                 {Role::kCoordinator, "coordinator"}}};

bool IsTokenId(const std::string& text) {
  return text.size() == kTokenIdDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string RoleName(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "unknown";
}

absl::StatusOr<Role> ParseRole(const std::string& text) {
  for (const auto& [role, name] : kRoles) {
    if (text == name && role != Role::kCoordinator) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, 64), "' is not a role: it must be viewer, operator, admin or worker"));
}

std::string IdentityUri(const Identity& identity) {
  return absl::StrCat(kScheme, RoleName(identity.role), "/", identity.name, identity.token.empty() ? "" : "/",
                      identity.token);
}

absl::StatusOr<Identity> ParseIdentityUri(const std::string& uri) {
  const auto fault = [&uri] {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate names '", uri.substr(0, 128),
                     "', which is not atoll://ROLE/NAME: issue it with 'atoll ca issue'"));
  };
  if (uri.rfind(kScheme, 0) != 0) return fault();
  const std::string rest = uri.substr(sizeof(kScheme) - 1);
  const size_t slash = rest.find('/');
  if (slash == std::string::npos) return fault();
  Identity identity;
  const std::string role = rest.substr(0, slash);
  const auto known = std::find_if(kRoles.begin(), kRoles.end(), [&role](const auto& r) { return role == r.second; });
  if (known == kRoles.end()) return fault();
  identity.role = known->first;
  const size_t second = rest.find('/', slash + 1);
  identity.name = rest.substr(slash + 1, second == std::string::npos ? second : second - slash - 1);
  if (!IsName(identity.name)) return fault();
  if (second != std::string::npos) {
    identity.token = rest.substr(second + 1);
    if (!IsTokenId(identity.token)) return fault();
  }
  return identity;
}

std::string PeerText(const std::optional<Identity>& identity, const std::string& address) {
  return identity ? absl::StrCat(IdentityUri(*identity), "@", address) : address;
}

std::optional<Identity> IdentityOfPeer(const std::string& peer) {
  const size_t at = peer.find('@');
  if (at == std::string::npos) return std::nullopt;
  const absl::StatusOr<Identity> identity = ParseIdentityUri(peer.substr(0, at));
  return identity.ok() ? std::optional(*identity) : std::nullopt;
}

absl::Status CheckSpeaksFor(const std::string& peer, const std::string& worker) {
  const std::optional<Identity> identity = IdentityOfPeer(peer);
  if (!identity || (identity->role == Role::kWorker && identity->name == worker)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the certificate is that of ", RoleName(identity->role), " '",
                                                  identity->name, "' and cannot be used for worker '",
                                                  worker.substr(0, 64), "': use that worker's own identity"));
}

}  // namespace atl
