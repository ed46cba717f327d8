// SPDX-License-Identifier: Apache-2.0
// The environment of a command: streams, terminal, clock, files and the coordinator. Results are
// written to `out`, messages to `talk`.
#ifndef ATOLL_CLI_SESSION_H_
#define ATOLL_CLI_SESSION_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "cli/coordinator_api.h"
#include "cli/exit_codes.h"
#include "cli/passphrases.h"
#include "common/base/files.h"
#include "common/base/time.h"

namespace atl::cli {

enum class OutputFormat { kTable, kWide, kJson, kJsonl, kYaml, kName };

struct Terminal {
  bool out = false;     // standard output is a terminal that understands ANSI sequences
  bool talk = false;    // same for standard error
  bool color = false;   // `out`, and neither --no-color nor NO_COLOR
  bool unicode = true;  // the locale is UTF-8
  std::function<uint32_t()> width = [] { return 80u; };   // columns now
  std::function<uint32_t()> height = [] { return 24u; };  // rows now
};

// Lives for one run of the program. One thread calls commands.
struct Session {
  std::istream& in;
  std::ostream& out;
  std::ostream& talk;
  Terminal terminal;
  OutputFormat format = OutputFormat::kTable;
  std::optional<Instant> deadline;  // --timeout
  const Clock& clock;
  Files& files;
  std::string endpoint;  // of the coordinator, HOST:PORT
  std::string identity;  // identity file; empty: plaintext
  Passphrases& passphrases;
  CoordinatorApi& api;
  std::function<std::string()> new_request_id;       // UUID4
  std::function<void(Duration)> pause_before_retry;  // waits; returns at once when interrupted
};

// Prints "atoll: sentence" and returns the exit code; 124 when --timeout ended the call.
int Fail(Session& session, const absl::Status& status);
// Same, for wrong usage.
int FailUsage(Session& session, const std::string& sentence);

// Returns "jobs/tiny" for "tiny" or "jobs/tiny"; InvalidArgument for any other form. Same for workers and for
// checkpoints, with the short forms JOB/STEP, and JOB or JOB/latest for the job's newest checkpoint.
absl::StatusOr<std::string> JobResource(const std::string& text);
absl::StatusOr<std::string> WorkerResource(const std::string& text);
absl::StatusOr<std::string> CheckpointResource(const std::string& text);

// False when the deadline of --timeout has passed.
bool TimeIsLeft(const Session& session);
// DeadlineExceeded when the deadline has passed.
absl::Status CheckTimeIsLeft(const Session& session);
absl::Status TimeoutHasPassed();
// Waits before a retry, at most for the remaining time; returns DeadlineExceeded at once when none
// is left.
absl::Status PauseBeforeRetry(const Session& session, Duration length);

}  // namespace atl::cli

#endif  // ATOLL_CLI_SESSION_H_
