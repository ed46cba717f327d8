// SPDX-License-Identifier: Apache-2.0
// Checks a connection to a coordinator step by step before it is used: identity, reachability, TLS with the reason of
// a failure, versions, clocks, the enrolment port for renewals, rates of the link, and the demands of each job on the
// link. Changes nothing at the coordinator. The rate measurement transfers up to 86 MiB in each direction, in probes
// of up to 64 MiB.
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
  std::string enroll_address;   // for renewal of the certificate; empty: not renewed, as for a person
  std::string identity;         // identity file; empty: plaintext, loopback only
  std::string passphrase;       // of the file; empty: not protected
  std::string version;          // of this program
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;  // own caps; 0: none
  std::string worker;  // name for pacing downloads; empty: not a worker
};

struct CoordinatorCheckResult {
  bool good = true;              // no finding has failed
  std::vector<JobOffer> offers;  // jobs that have not ended; empty if a step before their check has failed
  LinkCapacity link;             // measured; rates are 0 when the measurement failed
};

// Returns the fault, with advice, that a TLS handshake with HOST:PORT shows, or why the identity file cannot be read.
// OK without a fault, and also if no server accepts the connection. `identity`: the file, empty for plaintext. Needed
// because a channel reports such faults only as "socket closed". Blocks for at most about 15 s.
absl::Status FindTlsFault(const std::string& address, const std::string& identity, const std::string& passphrase = "");

// Blocks: seconds on a fast link, at most about four minutes on a very slow one. Stops at the first
// failed step that later ones need.
CoordinatorCheckResult CheckCoordinator(const CoordinatorCheck& check, const Clock& clock, const TellFinding& tell);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_COORDINATOR_CHECK_H_
