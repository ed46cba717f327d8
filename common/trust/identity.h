// SPDX-License-Identifier: Apache-2.0
// Who somebody is: a role and a name, carried by a certificate as the URI atoll://ROLE/NAME[/TOKEN]. Plain values.
#ifndef ATOLL_COMMON_TRUST_IDENTITY_H_
#define ATOLL_COMMON_TRUST_IDENTITY_H_

#include <optional>
#include <string>

#include "common/base/status.h"

namespace atl {

// What a certificate allows. A coordinator's certificate is for servers only; the others are for callers only.
enum class Role { kViewer, kOperator, kAdmin, kWorker, kCoordinator };

// "viewer", "operator", "admin", "worker", "coordinator".
std::string RoleName(Role role);
// InvalidArgument with the list of roles. A coordinator is not a role that can be given.
absl::StatusOr<Role> ParseRole(const std::string& text);

struct Identity {
  Role role = Role::kViewer;
  std::string name;   // IsName (common/base/names.h)
  std::string token;  // id of the join token it came by, 16 hexadecimal digits; empty: issued with the authority's key
  friend bool operator==(const Identity&, const Identity&) = default;
};

// "atoll://worker/cpu-1/0123456789abcdef".
std::string IdentityUri(const Identity& identity);
// InvalidArgument for anything that IdentityUri does not write.
absl::StatusOr<Identity> ParseIdentityUri(const std::string& uri);

// How a caller is named in logs and handed to handlers: "atoll://worker/cpu-1@ipv4:10.0.0.7:40112", or the address
// alone where connections carry no certificate.
std::string PeerText(const std::optional<Identity>& identity, const std::string& address);
// The identity in such a text; nothing for an address alone.
std::optional<Identity> IdentityOfPeer(const std::string& peer);
// PermissionDenied unless the peer may speak for that worker: it is that worker, or connections carry no certificate.
absl::Status CheckSpeaksFor(const std::string& peer, const std::string& worker);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_IDENTITY_H_
