// SPDX-License-Identifier: Apache-2.0
// The coordinator's own side of trust: its authority, which may be rotated or retired while it runs, and its own
// certificate, which it renews. The listeners read the certificate's file by themselves (common/rpc/tls.h).
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
  std::string identity;             // its own, written here
};

// authority() from any thread, the rest from one.
class OwnTrust {
 public:
  // Reads the authority and issues the certificate where there is none, half of its life is over, or another authority
  // has issued it. FailedPrecondition unless the authority is the one that has issued the certificate that is there, or
  // that one's successor: whoever has enrolled would refuse this coordinator from then on.
  static absl::StatusOr<std::unique_ptr<OwnTrust>> Open(OwnTrustFiles files, const Clock& clock, Log& log);

  // Looks at both again. Called every few seconds, more than kReloadSeconds of common/rpc/tls.h apart: a new key signs
  // from the call on that follows the one that found it, when the listeners have read whom they trust now. Who is no
  // longer trusted is so at once. What fails is logged once, and all stays as it was.
  void Look();

  // The one that signs now.
  Authority authority() const;

 private:
  OwnTrust(OwnTrustFiles files, const Clock& clock, Log& log, Authority authority);
  absl::Status Renew(const Authority& authority);
  void Adopt(Authority authority);

  const OwnTrustFiles files_;
  const Clock& clock_;
  Log& log_;
  std::optional<Authority> found_;  // signs from the next look on
  std::string told_;                // what failed at the last look
  mutable Mutex mutex_;
  Authority authority_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_OWN_TRUST_H_
