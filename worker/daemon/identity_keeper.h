// SPDX-License-Identifier: Apache-2.0
// The worker's certificate over its life: got with a join token, renewed at half, got back when the machine was off for
// too long. The channels read the file again by themselves.
#ifndef ATOLL_WORKER_DAEMON_IDENTITY_KEEPER_H_
#define ATOLL_WORKER_DAEMON_IDENTITY_KEEPER_H_

#include <memory>
#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "common/telemetry/metrics.h"

namespace atl {

// Makes sure that options.identity holds a certificate of this worker that is good now: enrols with options.join_token
// when there is no file, renews one that is past half or has ended. Blocks for at most about half a minute. One
// sentence when there is no way; a renewal that fails while the certificate is good is only logged. `asked`: what came
// of the renewal, OK where none was due.
absl::Status EnsureIdentity(const WorkerOptions& options, const Clock& clock, Log& log, absl::Status* asked = nullptr);

// Calls EnsureIdentity every kLookInterval on a thread of its own until it is destroyed, and keeps the end of the
// certificate in `metrics`, from its construction on.
class IdentityKeeper {
 public:
  static constexpr Duration kLookInterval = Seconds(60);
  // After a refusal that time does not mend, as of a revoked token: each is a line of the coordinator's audit log.
  static constexpr Duration kRefusedInterval = Seconds(900);
  // Until the next look after that came of a renewal.
  static Duration PauseAfter(const absl::Status& asked);
  IdentityKeeper(const WorkerOptions& options, const Clock& clock, Log& log, Metrics& metrics);
  IdentityKeeper(const IdentityKeeper&) = delete;
  IdentityKeeper& operator=(const IdentityKeeper&) = delete;

 private:
  void Keep(std::stop_token stop);

  void TellEnd();

  const WorkerOptions options_;
  const Clock& clock_;
  Log& log_;
  Metrics& metrics_;
  std::jthread thread_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_IDENTITY_KEEPER_H_
