// SPDX-License-Identifier: Apache-2.0
// The coordinator's own trust: its authority, which may be rotated or retired while it runs, and its own
// certificate, which it renews. The listeners read the certificate file themselves (common/rpc/tls.h).
#ifndef ATOLL_COORDINATOR_SERVICE_OWN_TRUST_H_
#define ATOLL_COORDINATOR_SERVICE_OWN_TRUST_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/trust/authority.h"

namespace atl {

struct OwnTrustFiles {
  std::string authority_directory;  // --trust
  std::string identity;             // own certificate, written here
};

// authority() is thread-safe; the other methods belong to one thread.
class OwnTrust {
 public:
  // Reads the authority. Issues the certificate if it is missing, past half of its life, or from another
  // authority. FailedPrecondition unless the authority, or its predecessor, issued the existing certificate:
  // otherwise every enrolled client would refuse this coordinator from now on.
  static absl::StatusOr<std::unique_ptr<OwnTrust>> Open(OwnTrustFiles files, const Clock& clock, Log& log);

  // Reads the authority and the certificate again, and issues a new certificate where Open would. Called every few
  // seconds, with more than kReloadSeconds of common/rpc/tls.h in between. A new key signs from the next call on,
  // when the listeners trust it. A removed authority is not trusted from now on. An error is logged once.
  void Look();

  // The current signer.
  Authority authority() const;

 private:
  OwnTrust(OwnTrustFiles files, const Clock& clock, Log& log, Authority authority);
  absl::Status Renew(const Authority& authority);
  void Adopt(Authority authority);

  const OwnTrustFiles files_;
  const Clock& clock_;
  Log& log_;
  std::optional<Authority> found_;  // found by the last Look; signs from the next one on
  std::string told_;                // error of the last Look
  mutable Mutex mutex_;
  Authority authority_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_OWN_TRUST_H_
