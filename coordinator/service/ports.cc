#include "coordinator/service/ports.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace atl {

std::string AddressToDial(const std::string& listen_host, int port) {
  if (listen_host == "0.0.0.0") return absl::StrCat("127.0.0.1:", port);
  if (listen_host == "::" || listen_host == "[::]") return absl::StrCat("[::1]:", port);
  return absl::StrCat(listen_host, ":", port);
}

void Ports::Opened(const std::string& name, Server& server, std::function<absl::Status()> dial) {
  const MutexLock lock(mutex_);
  ports_[name] = {.server = &server, .dial = std::move(dial), .told = {}, .misses = 0, .why = {}};
}

void Ports::EndConnections(const Certificates& which) {
  const MutexLock lock(mutex_);
  for (const auto& [name, port] : ports_) port.server->EndConnections(which);
}

bool Ports::TellTurnedAway() {
  bool any = false;
  const MutexLock lock(mutex_);
  for (auto& [name, port] : ports_) {
    const ConnectionCounts now = port.server->Connections(), told = std::exchange(port.told, now);
    if (now == told) continue;
    log_.Warn("connections turned away", {{"port", name},
                                          {"refused", absl::StrCat(now.refused - told.refused)},
                                          {"gave_way", absl::StrCat(now.gave_way - told.gave_way)},
                                          {"without_call", absl::StrCat(now.silent - told.silent)},
                                          {"calls_too_fast", absl::StrCat(now.cut - told.cut)},
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
    const ConnectionCounts before = dialled.server->Connections();
    const absl::Status answered = dialled.dial();  // not under the lock: it may take seconds
    const ConnectionCounts after = dialled.server->Connections();
    // A port that turned somebody away meanwhile, maybe us, is full but alive.
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
