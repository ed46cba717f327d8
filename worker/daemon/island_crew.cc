// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/island_crew.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/process.h"
#include "common/config/environment.h"
#include "worker/daemon/island_follower.h"
#include "worker/island/orders.h"
#include "worker/island/secret.h"
#include "worker/island/socket.h"

namespace atl {
namespace {

constexpr Duration kLeaving = Seconds(5);  // for a follower to end after the order
constexpr int kLookMs = 20;

std::vector<std::string> EnvironmentOf(const IslandPlace& place, uint32_t rank) {
  Environment environment = ReadEnvironment();
  environment["RANK"] = environment["LOCAL_RANK"] = absl::StrCat(rank);
  environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = absl::StrCat(place.world);
  environment["MASTER_ADDR"] = place.address;
  environment["MASTER_PORT"] = absl::StrCat(place.port);
  environment.erase(kAgentStoreVariable);  // set by a surrounding torchrun for its own port
  environment[kIslandSecretVariable] = place.secret;
  return LinesOf(environment);
}

std::string EndOf(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was killed by signal ", WTERMSIG(status));
  return absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<IslandCrew>> IslandCrew::Muster(const IslandOptions& options, Device& device,
                                                               const std::string& version, const Clock& clock,
                                                               Log& log) {
  auto crew = std::unique_ptr<IslandCrew>(new IslandCrew(clock, log));
  IslandPlace place = PlaceOf(options, version);
  ATOLL_ASSIGN_OR_RETURN(const Descriptor listener, ListenAt(place.address, place.port));
  place.port = LocalPort(listener);
  if (!options.launched) {
    ATOLL_ASSIGN_OR_RETURN(place.secret, MakeIslandSecret());
    ATOLL_RETURN_IF_ERROR(crew->Start(place, options.arguments));
  }
  log.Info("island starting", {{"ranks", place.world}, {"address", place.address}, {"port", place.port}});
  auto mesh = MeetAsLeader(listener, place, {}, clock, [&crew]() -> absl::Status {
    if (StopIsPending()) return absl::CancelledError("stopped before all ranks of the island had connected");
    return crew->Reap();
  });
  ATOLL_RETURN_IF_ERROR(mesh.status());
  crew->island_ = std::make_unique<TcpIsland>(*std::move(mesh), IslandLimits{}, clock);
  ATOLL_ASSIGN_OR_RETURN(crew->gpus_, GpuIsland::Join(*crew->island_, device, clock));
  log.Info("island connected",
           {{"rank", 0}, {"ranks", place.world}, {"values", crew->gpus_ != nullptr ? "between GPUs" : "over TCP"}});
  return crew;
}

absl::Status IslandCrew::Start(const IslandPlace& place, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "atoll-worker");
  const std::vector<char*> argv = PointersTo(arguments);
  for (uint32_t rank = 1; rank < place.world; ++rank) {
    std::vector<std::string> environment = EnvironmentOf(place, rank);
    const std::vector<char*> envp = PointersTo(environment);
    pid_t process = 0;
    const int code = posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, argv.data(), envp.data());
    if (code != 0) {
      return absl::UnavailableError(
          absl::StrCat("rank ", rank, " of the island cannot be started: ", std::strerror(code)));
    }
    log_.Info("rank started", {{"rank", rank}, {"process", process}});
    MutexLock lock(mutex_);
    followers_.push_back({rank, process, ""});
  }
  return absl::OkStatus();
}

absl::Status IslandCrew::Reap() {
  MutexLock lock(mutex_);
  std::string first;
  for (Follower& follower : followers_) {
    int status = 0;
    if (follower.end.empty() && waitpid(follower.process, &status, WNOHANG) == follower.process) {
      follower.end = EndOf(status);
      follower.killed = WIFSIGNALED(status);
    }
    if (first.empty() && !follower.end.empty()) {
      first = absl::StrCat("rank ", follower.rank, " of the island, process ", follower.process, ", ", follower.end);
    }
  }
  return first.empty() ? absl::OkStatus() : absl::UnavailableError(first);
}

bool IslandCrew::AllEnded() {
  Reap().IgnoreError();  // only recorded
  MutexLock lock(mutex_);
  for (const Follower& follower : followers_) {
    if (follower.end.empty()) return false;
  }
  return true;
}

absl::Status IslandCrew::Look() {
  island_->SayHere();
  ATOLL_RETURN_IF_ERROR(Reap());
  // Without further steps nothing else detects the broken exchange.
  if (island_->is_broken()) return absl::UnavailableError("an exchange with the other ranks of the island failed");
  return island_->Look();
}

absl::Status IslandCrew::Cause() {
  const absl::Status known = island_->state();
  if (known.ok()) return Look();
  Reap().IgnoreError();  // only recorded
  std::string cause(known.message());
  MutexLock lock(mutex_);
  // The other ranks end because the island broke: the killed process is the cause.
  for (const Follower& follower : followers_) {
    if (!follower.killed) continue;
    absl::StrAppend(&cause, "; process ", follower.process, " of rank ", follower.rank, " ", follower.end);
  }
  return absl::UnavailableError(cause);
}

IslandCrew::~IslandCrew() {
  // A follower that misses the order ends when its connection closes.
  if (island_ != nullptr) island_->Order(EncodeOrder(LeaveOrder{})).IgnoreError();
  gpus_.reset();
  island_.reset();
  for (const Instant limit = clock_.Now() + kLeaving; !AllEnded() && clock_.Now() < limit;) {
    ::poll(nullptr, 0, kLookMs);
  }
  MutexLock lock(mutex_);
  for (const Follower& follower : followers_) {
    if (!follower.end.empty()) continue;
    log_.Warn("rank killed", {{"rank", follower.rank}, {"process", follower.process}});
    ::kill(follower.process, SIGKILL);
    waitpid(follower.process, nullptr, 0);
  }
}

}  // namespace atl
