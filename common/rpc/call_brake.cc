#include "common/rpc/call_brake.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_status.h"

namespace atl {
namespace {

constexpr char kNumber[] = "atoll_connection";  // property of a connection

class Braking final : public grpc::AuthMetadataProcessor {
 public:
  Braking(std::shared_ptr<CallBrake> brake, EarlyCheck check) : brake_(std::move(brake)), check_(std::move(check)) {}
  bool IsBlocking() const override { return false; }  // in the thread that reads
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const absl::Status brake = brake_->Begin(brake_->NumberOf(*context), clock_.Now());
    if (!brake.ok()) return ToGrpc(brake);
    if (!check_) return grpc::Status::OK;
    const auto path = metadata.find(":path");
    return ToGrpc(
        check_(path == metadata.end() ? "" : std::string(path->second.data(), path->second.size()), *context));
  }

 private:
  const SystemClock clock_;
  const std::shared_ptr<CallBrake> brake_;
  const EarlyCheck check_;
};

}  // namespace

CallBrake::Connection CallBrake::Numbered(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(kNumber);
  Connection number = 0;
  if (values.empty() || !absl::SimpleAtoi(absl::string_view(values.front().data(), values.front().size()), &number))
    return 0;
  return number;
}

// The only write to a connection's context: under the lock, and over before any of its calls has begun.
CallBrake::Connection CallBrake::NumberOf(grpc::AuthContext& context) {
  const MutexLock lock(mutex_);
  if (const Connection number = Numbered(context); number != 0) return number;
  context.AddProperty(kNumber, absl::StrCat(++newest_));
  return newest_;
}

void CallBrake::TurnTo(Instant now) {
  const Duration since = now - began_;
  if (since < Seconds(1)) return;
  last_ = since < Seconds(2) ? std::exchange(this_, {}) : Second{};
  this_ = {};
  began_ = now;
  all_ = 0;
}

absl::Status CallBrake::Begin(Connection connection, Instant now) {
  const MutexLock lock(mutex_);
  TurnTo(now);
  const uint32_t begun = ++this_.begun[connection];
  if (begun <= limits_.always) return absl::OkStatus();
  if (begun <= limits_.per_connection && all_ < limits_.all) {
    ++all_;
    return absl::OkStatus();
  }
  if (begun > limits_.per_connection) this_.refused.insert(connection);
  return absl::ResourceExhaustedError("too many calls in this second: make fewer, over one connection");
}

bool CallBrake::Refused(Connection connection, Instant now) {
  const MutexLock lock(mutex_);
  TurnTo(now);
  return this_.refused.contains(connection) || last_.refused.contains(connection);
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeBrakingProcessor(std::shared_ptr<CallBrake> brake, EarlyCheck check) {
  return std::make_shared<Braking>(std::move(brake), std::move(check));
}

}  // namespace atl
