// SPDX-License-Identifier: Apache-2.0
// Manages the worker's certificate: gets it with a join token, renews it at half of its life, and
// replaces it if the machine was off for too long. The channels reload the file themselves.
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

// Ensures that options.identity holds a valid certificate of this worker. Renews a certificate that is past half of
// its life or has ended. Enrols with options.join or options.join_token if there is no file, or if an ended certificate
// is not renewed. Blocks for at most about half a minute. Returns an error message without a valid certificate at the
// end; a failed renewal of a valid one is only logged. `asked`: the result of the renewal, OK if none was due.
absl::Status EnsureIdentity(const WorkerOptions& options, const Clock& clock, Log& log, absl::Status* asked = nullptr);

// Calls EnsureIdentity on its own thread until destroyed, every kLookInterval, or kRefusedInterval
// after a refusal. Exports the end of the certificate in `metrics`, from construction on.
class IdentityKeeper {
 public:
  static constexpr Duration kLookInterval = Seconds(60);
  // The interval after a permanent refusal, such as a revoked token: each attempt is a line in the
  // coordinator's audit log.
  static constexpr Duration kRefusedInterval = Seconds(900);
  // The time until the next attempt after a renewal with this result.
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
