// SPDX-License-Identifier: Apache-2.0
// A caller's way to a coordinator, looked at step by step before it is relied on: identity, reach, TLS with the reason
// when it fails, versions, clocks, the link's rates, and what each job asks of that link. Nothing is changed at the
// coordinator; the rates cost up to 64 MiB each way.
#ifndef ATOLL_COMMON_PREFLIGHT_COORDINATOR_CHECK_H_
#define ATOLL_COMMON_PREFLIGHT_COORDINATOR_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/link_model.h"
#include "common/preflight/finding.h"
#include "common/preflight/job_fit.h"

namespace atl {

struct CoordinatorCheck {
  std::string control_address;  // HOST:PORT
  std::string bulk_address;     // may be the same
  std::string enroll_address;   // where the certificate is renewed; empty: it is not, as a person's
  std::string identity;         // identity file; empty: plaintext, loopback only
  std::string passphrase;       // of the file; empty: it is not protected
  std::string version;          // of this program
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;  // own caps; 0: none
  std::string worker;  // name under which downloads are paced; empty: not a worker
};

struct CoordinatorCheckResult {
  bool good = true;              // no finding has failed
  std::vector<JobOffer> offers;  // jobs that have not ended
  Link link;                     // measured; rates are 0 when it could not be
};

// What a handshake shows to be wrong between us and HOST:PORT, with what to do; OK where nothing is and where nobody
// answers. `identity`: the file, empty for plaintext. A channel tells such things only as "socket closed". Blocks, at
// most some 15 s.
absl::Status FindTlsFault(const std::string& address, const std::string& identity, const std::string& passphrase = "");

// Blocks: seconds on a fast link, at most about four minutes on one that hardly moves. Stops at the first step that
// the later ones need.
CoordinatorCheckResult CheckCoordinator(const CoordinatorCheck& check, const Clock& clock, const TellFinding& tell);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_COORDINATOR_CHECK_H_
