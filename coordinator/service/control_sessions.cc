// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/control_sessions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/trust/identity.h"

namespace atl {
namespace {

// Concurrent streams of one identity. More than one, because a superseded stream needs up to half a minute to end.
constexpr int64_t kOfOneIdentity = 16;

std::string NameOf(const std::string& peer) {
  const std::optional<Identity> caller = IdentityOfPeer(peer);
  return caller ? caller->name : "";
}

}  // namespace

// One stream. Handlers of a stream run one at a time, so that `connection_` needs no lock.
class ControlSessions::Session final : public ControlSink,
                                       public std::enable_shared_from_this<ControlSessions::Session> {
 public:
  Session(ControlSessions& owner, std::unique_ptr<CoordinatorEnd> stream, std::string peer)
      : owner_(owner), stream_(std::move(stream)), peer_(std::move(peer)), identity_(NameOf(peer_)) {}
  const std::string& identity() const { return identity_; }  // empty: no certificate

  void Begin() {
    stream_->Start({.on_message = [this](WorkerMessage message) { OnMessage(std::move(message)); },
                    .on_closed = [this](const absl::Status& status) { OnClosed(status); }});
  }

  // Ends the stream; called instead of Begin.
  void Refuse(const std::string& why) {
    if (const std::optional<uint64_t> untold = owner_.refusals_.Take(owner_.clock_.Now()))
      owner_.log_.Warn("control stream refused", {{"peer", peer_}, {"reason", why}, {"not_told_before", *untold}});
    stream_->Close(absl::ResourceExhaustedError(why));
  }

  // Engine thread. If the stream cannot take the message, the transport closes it, and its end is reported.
  void Send(const CoordinatorMessage& message) override {
    const absl::Status sent = stream_->Send(message);
    if (!sent.ok() && !absl::IsFailedPrecondition(sent)) {
      owner_.log_.Warn("control message not sent", {{"peer", peer_}, {"reason", std::string(sent.message())}});
    }
  }
  void Close() override { stream_->Close(absl::OkStatus()); }

 private:
  void OnMessage(WorkerMessage message) {
    auto* hello = std::get_if<Hello>(&message);
    if (connection_ == 0 && hello == nullptr) {
      stream_->Close(absl::InvalidArgumentError("the first message of a control stream must be Hello"));
    } else if (connection_ != 0 && hello != nullptr) {
      stream_->Close(
          absl::InvalidArgumentError("Hello arrived twice on one control stream; open a new stream to join again"));
    } else if (hello != nullptr && !CheckSpeaksFor(peer_, hello->worker.value).ok()) {
      stream_->Close(CheckSpeaksFor(peer_, hello->worker.value));
    } else if (hello != nullptr) {
      connection_ = owner_.engine_.OpenControl(std::move(*hello), shared_from_this());
    } else if (!owner_.engine_.ControlSaid(connection_, std::move(message))) {
      stream_->Close(absl::ResourceExhaustedError(
          "too many messages of this stream wait, or the coordinator is overloaded; reconnect later"));
    }
  }

  void OnClosed(const absl::Status& status) {
    owner_.log_.Debug("control stream ended", {{"peer", peer_}, {"status", status.ToString()}});
    if (connection_ != 0) owner_.engine_.ControlClosed(connection_);
    owner_.Forget(shared_from_this());
  }

  ControlSessions& owner_;
  std::unique_ptr<CoordinatorEnd> stream_;
  const std::string peer_, identity_;
  ConnectionId connection_ = 0;
};

ControlSessions::~ControlSessions() {
  std::set<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(mutex_);
    sessions.swap(sessions_);
  }
}

std::string ControlSessions::Admit(const std::shared_ptr<Session>& session) {
  MutexLock lock(mutex_);
  const std::string& identity = session->identity();
  const auto of_it = std::ranges::count_if(sessions_, [&](const auto& other) { return other->identity() == identity; });
  if (!identity.empty() && of_it >= kOfOneIdentity) {
    return absl::StrCat("identity '", identity, "' holds ", kOfOneIdentity,
                        " control streams, the limit of one identity; a worker needs one: stop the other processes "
                        "with this identity file, or reconnect in a minute");
  }
  if (!identity.empty() && !begun_.Take(identity, clock_.Now())) {
    return absl::StrCat("identity '", identity, "' begins control streams too often: ", kStreamsOfOne.at_once,
                        " at once and then one every ", kStreamsOfOne.every.ns / Seconds(1).ns,
                        " seconds are allowed; a worker needs one: look in its log for why it ends");
  }
  if (sessions_.size() >= limits::kWorkers + 64) {
    return absl::StrCat("the coordinator holds ", sessions_.size(), " control streams, the limit; reconnect later");
  }
  sessions_.insert(session);
  return "";
}

void ControlSessions::Accept(std::unique_ptr<CoordinatorEnd> stream, std::string peer) {
  const auto session = std::make_shared<Session>(*this, std::move(stream), std::move(peer));
  if (const std::string refused = Admit(session); !refused.empty()) return session->Refuse(refused);
  session->Begin();
}

void ControlSessions::Forget(const std::shared_ptr<Session>& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session);
}

}  // namespace atl
