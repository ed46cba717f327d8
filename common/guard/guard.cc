// SPDX-License-Identifier: Apache-2.0
#include "common/guard/guard.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace atl::guard {
absl::StatusOr<std::unique_ptr<Guard>> Guard::Listen(const GuardOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                         Acceptor::Listen(options.address, options.connections, options.proxied));
  return std::unique_ptr<Guard>(new Guard(options, std::move(acceptor)));
}

Guard::Guard(const GuardOptions& options, std::unique_ptr<Acceptor> acceptor)
    : threads_(options.threads), acceptor_(std::move(acceptor)) {
  relay_.connection = {
      .tls = options.tls, .proxied = options.proxied, .moved = [this](uint64_t id, const std::string& address) {
        return acceptor_->Moved(id, address);
      }};
  exchange_.connection = relay_.connection;
  const MutexLock lock(life_->mutex);
  life_->guard = this;
}

Guard::~Guard() {
  {
    const MutexLock lock(life_->mutex);
    life_->guard = nullptr;
  }
  acceptor_->Stop();
}

absl::Status Guard::Start(const Loop::Make& make) {
  const auto ended = [this](uint64_t id, Ending how) {
    switch (how) {
      case Ending::kNormal:
      case Ending::kTooFast:  // already counted
        return acceptor_->Left(id);
      case Ending::kHandshake: return acceptor_->HandshakeFailed(id);
      case Ending::kBroken: return acceptor_->Broke(id);
      case Ending::kRevoked: return acceptor_->WasRevoked(id);
    }
  };
  for (unsigned i = 0; i < threads_; ++i) {
    ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Start(make, ended));
    loops_.push_back(std::move(loop));
  }
  acceptor_->Start({.serve = [this](Accepted accepted) { LoopOf(accepted.id).Add(std::move(accepted)); },
                    .end =
                        [this](uint64_t id) {
                          LoopOf(id).For(id, [](Connection& connection) { connection.EndAs(Ending::kNormal); });
                        }});
  return absl::OkStatus();
}

absl::Status Guard::Relay(HttpLimits http, CallLimits calls, CallCheck check,
                          std::function<void(Descriptor)> hand_over) {
  calls_ = std::make_unique<CallCounter>(calls);
  check_ = std::move(check);
  relay_.http = http;
  relay_.held = &held_;
  relay_.hand_over = std::move(hand_over);
  relay_.calls = calls_.get();
  relay_.judge = [this](uint64_t id, const Peer& peer, const std::string& path, const absl::Status& refusal) {
    return Judge(id, peer, path, refusal);
  };
  return Start([this](Accepted accepted, Instant now) {
    return std::make_unique<class Relay>(std::move(accepted), relay_, now);
  });
}

absl::Status Guard::Answer(HttpHandler handler) {
  exchange_.handler = std::move(handler);
  exchange_.called = [this](uint64_t id) { return acceptor_->Called(id, "") == ConnectionTable::Verdict::kAllowed; };
  exchange_.answered = [this](uint64_t id) { acceptor_->Answered(id); };
  exchange_.later = [life = life_](uint64_t id, std::function<void(Connection&)> work) {
    const MutexLock lock(life->mutex);
    if (life->guard != nullptr) life->guard->LoopOf(id).For(id, std::move(work));
  };
  return Start([this](Accepted accepted, Instant now) {
    return std::make_unique<HttpsExchange>(std::move(accepted), exchange_, now);
  });
}

CallVerdict Guard::Judge(uint64_t id, const Peer& peer, const std::string& path, const absl::Status& refusal) {
  switch (acceptor_->Called(id, peer.certificate ? CallerOf(peer) : "")) {
    case ConnectionTable::Verdict::kAllowed: break;
    case ConnectionTable::Verdict::kTooFast: return {.status = absl::OkStatus(), .end_connection = true};
    case ConnectionTable::Verdict::kTooMany:
      return {.status = absl::ResourceExhaustedError(
                  absl::StrCat(CallerOf(peer), " has too many connections to this port; close some")),
              .end_connection = true};
  }
  if (!refusal.ok()) return {};
  CallVerdict verdict{.status = check_ ? check_(path, peer) : absl::OkStatus()};
  if (verdict.status.ok() && peer.certificate) acceptor_->Allowed(id);
  return verdict;
}

void Guard::EndConnections(const std::function<bool(const Peer&)>& which) {
  for (const auto& loop : loops_) {
    loop->ForEach([which](Connection& connection) {
      if (which(connection.peer())) connection.EndAs(Ending::kRevoked);
    });
  }
}

}  // namespace atl::guard
