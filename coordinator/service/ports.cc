// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/ports.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"

namespace atl {
namespace {

constexpr uint64_t kHandshakesToTell = 100;

}  // namespace

std::string AddressToDial(const std::string& listen_host, int port) {
  if (listen_host == "0.0.0.0") return absl::StrCat("127.0.0.1:", port);
  if (listen_host == "::" || listen_host == "[::]") return absl::StrCat("[::1]:", port);
  return HostPortText(listen_host, port);
}

void Ports::Opened(const std::string& name, guard::Guard& door, std::function<absl::Status()> dial) {
  const MutexLock lock(mutex_);
  ports_[name] = {.door = &door, .dial = std::move(dial), .told = {}, .misses = 0, .why = {}};
}

void Ports::EndRevoked(const CallGuard& revoked, Engine& engine) {
  const auto is_revoked = [&revoked, &engine](const guard::Peer& peer) {
    if (!peer.certificate || revoked.CheckRevoked(*peer.certificate).ok()) return false;
    const Identity& who = peer.certificate->identity;
    if (who.role == Role::kWorker) engine.Tell(WorkerRevoked{WorkerId{who.name}});
    return true;
  };
  const MutexLock lock(mutex_);
  for (const auto& [name, port] : ports_) port.door->EndConnections(is_revoked);
}

bool Ports::TellTurnedAway() {
  bool any = false;
  const MutexLock lock(mutex_);
  for (auto& [name, port] : ports_) {
    const guard::ConnectionCounts now = port.door->Counts();
    guard::ConnectionCounts before = port.told;
    // An open port always has a few failed handshakes, including those of Dial.
    if (now.handshakes - before.handshakes < kHandshakesToTell) before.handshakes = now.handshakes;
    if (now == before) continue;
    const guard::ConnectionCounts told = std::exchange(port.told, now);
    log_.Warn("connections refused", {{"port", name},
                                      {"refused", absl::StrCat(now.refused - told.refused)},
                                      {"gave_way", absl::StrCat(now.gave_way - told.gave_way)},
                                      {"without_call", absl::StrCat(now.silent - told.silent)},
                                      {"calls_too_fast", absl::StrCat(now.cut - told.cut)},
                                      {"failed_handshakes", absl::StrCat(now.handshakes - told.handshakes)},
                                      {"no_grpc", absl::StrCat(now.broken - told.broken)},
                                      {"revoked", absl::StrCat(now.revoked - told.revoked)}});
    any = true;
  }
  return any;
}

void Ports::Dial() {
  std::map<std::string, Port> open;
  {
    const MutexLock lock(mutex_);
    open = ports_;
  }
  for (const auto& [name, dialled] : open) {
    const guard::ConnectionCounts before = dialled.door->Counts();
    const absl::Status answered = dialled.dial();  // without the lock: it may take seconds
    const guard::ConnectionCounts after = dialled.door->Counts();
    // A port that turned a connection away during the dial, possibly this one, is full but alive.
    const bool alive = answered.ok() || after.refused != before.refused || after.gave_way != before.gave_way;
    const MutexLock lock(mutex_);
    Port& port = ports_.at(name);
    const int misses = std::exchange(port.misses, alive ? 0 : port.misses + 1);
    port.why = alive ? "" : std::string(answered.message());
    if (port.misses == kMisses) log_.Error("port does not answer", {{"port", name}, {"reason", port.why}});
    if (alive && misses >= kMisses) log_.Info("port answers again", {{"port", name}});
  }
}

absl::Status Ports::Answering() const {
  const MutexLock lock(mutex_);
  for (const auto& [name, port] : ports_) {
    if (port.misses < kMisses) continue;
    return absl::UnavailableError(absl::StrCat("the ", name, " port does not answer: ", port.why));
  }
  return absl::OkStatus();
}

}  // namespace atl
