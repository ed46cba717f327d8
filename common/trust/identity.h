// SPDX-License-Identifier: Apache-2.0
// An identity: a role and a name, stored in a certificate as the URI atoll://ROLE/NAME[/TOKEN].
// Plain values.
#ifndef ATOLL_COMMON_TRUST_IDENTITY_H_
#define ATOLL_COMMON_TRUST_IDENTITY_H_

#include <optional>
#include <string>

#include "common/base/status.h"

namespace atl {

// The permissions of a certificate. A coordinator's certificate is for servers only, the others for
// clients only.
enum class Role { kViewer, kOperator, kAdmin, kWorker, kCoordinator };

// "viewer", "operator", "admin", "worker", "coordinator".
std::string RoleName(Role role);
// InvalidArgument with the list of roles. "coordinator" cannot be requested.
absl::StatusOr<Role> ParseRole(const std::string& text);

struct Identity {
  Role role = Role::kViewer;
  std::string name;   // IsName (common/base/names.h)
  std::string token;  // id of the join token used, 16 hexadecimal digits; empty: issued with the authority's key
  friend bool operator==(const Identity&, const Identity&) = default;
};

// "atoll://worker/cpu-1/0123456789abcdef".
std::string IdentityUri(const Identity& identity);
// InvalidArgument for any text that IdentityUri cannot produce.
absl::StatusOr<Identity> ParseIdentityUri(const std::string& uri);

// A caller's name in logs and for handlers: "atoll://worker/cpu-1@ipv4:10.0.0.7:40112", or only the
// address without certificates.
std::string PeerText(const std::optional<Identity>& identity, const std::string& address);
// Returns the identity in a result of PeerText; nullopt for an address alone.
std::optional<Identity> IdentityOfPeer(const std::string& peer);
// PermissionDenied unless the peer may act for that worker: it is that worker, or connections carry
// no certificates.
absl::Status CheckSpeaksFor(const std::string& peer, const std::string& worker);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_IDENTITY_H_
