// SPDX-License-Identifier: Apache-2.0
#include "worker/island/orders.h"

#include <cstring>
#include <type_traits>

namespace atl {
namespace {

enum class Kind : uint8_t { kPrepare, kParameters, kOptimizer, kStep, kRelease, kLeave };

class Writer {
 public:
  explicit Writer(Kind kind) { Put(kind); }
  template <typename T>
  void Put(const T& plain) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&plain), sizeof(plain));
  }
  std::string bytes;
};

// Reads past the end return zeros and are remembered.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T plain{};
    if (bytes_.size() - at_ < sizeof(T)) {
      short_ = true;
      return plain;
    }
    std::memcpy(&plain, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return plain;
  }
  std::string Rest() {
    std::string rest = bytes_.substr(at_);
    at_ = bytes_.size();
    return rest;
  }
  // For a value that was read but is invalid: Whole() is false from now on.
  void Refuse() { short_ = true; }
  bool Whole() const { return !short_ && at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  bool short_ = false;
};

struct Encoder {
  std::string operator()(const PrepareOrder& o) const {
    Writer w(Kind::kPrepare);
    w.Put(o.end_of_text);
    w.Put(o.available_bytes);
    w.Put(o.layout);
    return w.bytes + o.spec;
  }
  std::string operator()(const ParametersOrder& o) const {
    Writer w(Kind::kParameters);
    w.Put(o);
    return w.bytes;
  }
  std::string operator()(const OptimizerOrder& o) const {
    Writer w(Kind::kOptimizer);
    w.Put(o);
    return w.bytes;
  }
  std::string operator()(const StepOrder& o) const {
    Writer w(Kind::kStep);
    w.Put(o.learning_rate);
    w.Put(o.targets);
    w.Put(o.sequences);
    w.bytes.append(reinterpret_cast<const char*>(o.tokens.data()), o.tokens.size() * sizeof(int32_t));
    return w.bytes;
  }
  std::string operator()(const ReleaseOrder&) const { return Writer(Kind::kRelease).bytes; }
  std::string operator()(const LeaveOrder&) const { return Writer(Kind::kLeave).bytes; }
};

PrepareOrder ReadPrepare(Reader& r) {
  PrepareOrder o;
  o.end_of_text = r.Get<int32_t>();
  o.available_bytes = r.Get<uint64_t>();
  o.layout = r.Get<Digest>();
  o.spec = r.Rest();
  return o;
}

StepOrder ReadStep(Reader& r) {
  StepOrder o;
  o.learning_rate = r.Get<double>();
  o.targets = r.Get<uint64_t>();
  o.sequences = r.Get<uint32_t>();
  const std::string tokens = r.Rest();
  if (tokens.size() % sizeof(int32_t) != 0) r.Refuse();
  o.tokens.resize(tokens.size() / sizeof(int32_t));
  if (!o.tokens.empty()) std::memcpy(o.tokens.data(), tokens.data(), o.tokens.size() * sizeof(int32_t));
  return o;
}

}  // namespace

std::string EncodeOrder(const IslandOrder& order) { return std::visit(Encoder{}, order); }

absl::StatusOr<IslandOrder> DecodeOrder(const std::string& bytes) {
  Reader r(bytes);
  IslandOrder order;
  switch (r.Get<Kind>()) {
    case Kind::kPrepare: order = ReadPrepare(r); break;
    case Kind::kParameters: order = r.Get<ParametersOrder>(); break;
    case Kind::kOptimizer: order = r.Get<OptimizerOrder>(); break;
    case Kind::kStep: order = ReadStep(r); break;
    case Kind::kRelease: order = ReleaseOrder{}; break;
    case Kind::kLeave: order = LeaveOrder{}; break;
    default: return absl::InvalidArgumentError("an order of unknown kind");
  }
  const auto* step = std::get_if<StepOrder>(&order);
  const bool ragged =
      step != nullptr && (step->sequences == 0 ? !step->tokens.empty() : step->tokens.size() % step->sequences != 0);
  if (!r.Whole() || ragged) return absl::InvalidArgumentError("an order that is too short or too long");
  return order;
}

std::string EncodeAnswer(const absl::Status& status) {
  return std::string(1, static_cast<char>(status.code())) + std::string(status.message());
}

absl::Status DecodeAnswer(const std::string& bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("an empty answer");
  return {static_cast<absl::StatusCode>(bytes[0]), bytes.substr(1)};
}

}  // namespace atl
