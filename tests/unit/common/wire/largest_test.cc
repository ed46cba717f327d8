// SPDX-License-Identifier: Apache-2.0
// Every message is taken by its receiver, whatever the program that builds it has read, measured or
// been sent. A refused message would end the stream, and its sender would repeat it after each
// reconnect.
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/element_limit.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/transfer_messages.h"

namespace atl {
namespace {

constexpr uint64_t kMost = limits::kCount;  // of numbers that the receiver itself gave
constexpr uint32_t kLastFragment = limits::kFragments - 1;
const std::string kName(limits::kNameBytes, 'w');
const FragmentVersion kVersion{{kLastFragment}, {kMost}};

// Error texts, names of GPUs, lines of logs.
std::vector<std::string> HostileTexts() {
  std::vector<std::string> out = {"", std::string(1, '\0')};
  for (const char* unit : {"x", "\xC3\xA9", "\xF0\x9F\x90\xA0", "\xFF", "\xED\xA0\x80", "x\xC3"}) {
    for (const size_t bytes : {limits::kTextBytes + 1, size_t{100'000}}) {
      std::string text;
      while (text.size() < bytes) text += unit;
      out.push_back(std::move(text));
    }
  }
  return out;
}

template <typename T>
std::vector<T> Many(const T& value) {
  return std::vector<T>(limits::kLeasesPerWorker + 1, value);
}
static_assert(limits::kLeasesPerWorker > limits::kFragments && limits::kLeasesPerWorker > limits::kWorkers);
static_assert(limits::kLeasesPerWorker > limits::kLogLines);

std::vector<WorkerMessage> LargestOfAWorker(const std::string& text) {
  constexpr uint64_t kAny = UINT64_MAX;
  const std::string listed = text.substr(0, limits::kTextBytes + 1);
  Hello hello{{kName},
              text,
              UINT32_MAX,
              UINT32_MAX,
              kAny,
              {kMost},
              {kMost},
              text,
              kAny,
              true,
              {kName},
              Many(kVersion),
              Many(HeldContribution{kVersion, {kAny, kAny}}),
              Many(LeaseCursor{{kMost}, kMost})};
  Heartbeat heartbeat{kMost,     {kName}, WorkerActivity::kDraining,        kMost, kAny, INT64_MIN,
                      INT64_MIN, text,    Many(MetricSample{listed, 1e300})};
  heartbeat.period_steps = UINT32_MAX;
  heartbeat.upload_bytes_per_second = heartbeat.download_bytes_per_second = kAny;
  Heartbeat slow = heartbeat;
  slow.step_ns = slow.loss_micro = INT64_MAX;
  return {hello,
          heartbeat,
          slow,
          LeaseRequest{{kName}, kMost, kAny},
          Ready{{kName}, kMost, Many(kVersion)},
          Applied{{kName}, kVersion, false},
          EvaluationDone{{kName}, kAny, INT64_MIN, kAny, kAny, Many(TaskScore{listed, kAny, kAny, kAny}), text},
          LeaseReturn{{kName}, Many(LeaseCursor{{kMost}, kMost})},
          Leaving{text},
          JobFailure{{kName}, text, true},
          LogLines{kMost, Many(listed)},
          SyncDropped{{kName}, kVersion, kMost}};
}

JobSpec LargestSpec() {
  JobSpec spec;
  spec.name = kName;
  const auto number = [](const char* what, size_t i) { return absl::StrCat(what, i, std::string(50, 'x')); };
  const Sha256 hash = Sha256Of(AsBytes(std::string("m")));
  for (size_t i = 0; i < limits::kCorpora; ++i) spec.data.corpora.push_back({number("c", i), hash, 10'000});
  for (size_t i = 0; i < limits::kEvalTasks; ++i) spec.evaluation.tasks.push_back({number("t", i), hash, 1000});
  spec.init.safetensors.assign(limits::kInitialFiles, hash);
  for (size_t i = 0; i < limits::kLabels; ++i)
    spec.labels[absl::StrCat(i, std::string(limits::kLabelBytes - 2, 'k'))] = std::string(limits::kLabelBytes, 'v');
  spec.stop.inner_steps = 1000;
  ResolveDefaults(spec, 256);
  return spec;
}

std::vector<CoordinatorMessage> LargestOfACoordinator(const std::string& text) {
  constexpr uint64_t kAny = UINT64_MAX;
  const Welcome::Fate fate{kVersion, ContributionFate::kRefused};
  Assignment assignment{{kName}, kMost, std::make_shared<const JobSpec>(LargestSpec()), kMost, Many(Version{kMost})};
  assignment.clock_pace = Nanoseconds(INT64_MAX);
  assignment.epoch = kMost;
  assignment.layout = {kAny, kAny};
  return {
      Welcome{{kMost}, {kMost}, true, Seconds(3600), Seconds(3600), Many(fate), kAny},
      assignment,
      Unassign{{kName}, text},
      LeaseGranted{{kName}, kMost, {kMost}, {kMost - 1, kMost}},
      LeaseDenied{{kName}, kMost, text},
      LeaseRevoked{{kName}, Many(LeaseId{kAny}), text},
      UpdatePublished{{kName}, kVersion, {kAny, kAny}, kMost, Many(WorkerId{kName}), kMost, Many(Digest{kAny, kAny})},
      ContributionRefused{{kName}, kVersion, {kAny, kAny}, text},
      EvaluationAssigned{{kName}, kMost, Many(Version{kMost}), kAny, true},
      ClosingStarted{{kName}, kMost, Many(Version{kMost})},
      DrainRequested{text},
      LogsWanted{kMost, UINT32_MAX, INT64_MIN},
      Refused{text, true},
      PaceAssigned{{kName}, 1'000'000},
      LinkJudged{{kName}, false, text}};
}

// Encodes, transports and decodes.
template <typename Proto, typename Message, typename ToProto, typename FromProto>
absl::Status Travel(const Message& message, const ToProto& to, const FromProto& from) {
  const std::string bytes = to(message).SerializeAsString();
  if (bytes.size() > limits::kMessageBytes) return absl::ResourceExhaustedError(absl::StrCat(bytes.size(), " bytes"));
  Proto proto;
  ATOLL_RETURN_IF_ERROR(ParseWithin(bytes, proto));
  return from(proto).status();
}

TEST(LargestMessages, OfAWorkerAreTaken) {
  for (const std::string& text : HostileTexts()) {
    std::set<size_t> kinds;
    for (const WorkerMessage& message : LargestOfAWorker(text)) {
      kinds.insert(message.index());
      EXPECT_EQ(Travel<v1::WorkerMessage>(message, WorkerMessageToProto, WorkerMessageFromProto), absl::OkStatus())
          << "kind " << message.index() << ", text of " << text.size() << " bytes";
    }
    EXPECT_EQ(kinds.size(), std::variant_size_v<WorkerMessage>);
  }
}

TEST(LargestMessages, OfACoordinatorAreTaken) {
  ASSERT_TRUE(ValidateJobSpec(LargestSpec(), false).empty()) << ValidateJobSpec(LargestSpec(), false)[0].problem;
  for (const std::string& text : HostileTexts()) {
    std::set<size_t> kinds;
    for (const CoordinatorMessage& message : LargestOfACoordinator(text)) {
      kinds.insert(message.index());
      EXPECT_EQ(Travel<v1::CoordinatorMessage>(message, CoordinatorMessageToProto, CoordinatorMessageFromProto),
                absl::OkStatus())
          << "kind " << message.index() << ", text of " << text.size() << " bytes";
    }
    EXPECT_EQ(kinds.size(), std::variant_size_v<CoordinatorMessage>);
  }
}

TEST(LargestMessages, OfAnOperatorAreTaken) {
  const JobSpec spec = LargestSpec();
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = JobSpecToProto(spec);
  submit.mutable_labels()->insert(spec.labels.begin(), spec.labels.end());
  v1::MissingBlobsRequest missing;
  for (size_t i = 0; i < limits::kLeasesPerWorker; ++i) missing.add_sha256(std::string(64, 'a'));
  for (const google::protobuf::Message* message :
       std::initializer_list<const google::protobuf::Message*>{&submit, &missing}) {
    const std::unique_ptr<google::protobuf::Message> taken(message->New());
    EXPECT_EQ(ParseWithin(message->SerializeAsString(), *taken), absl::OkStatus()) << message->GetTypeName();
  }
}

// Nothing is cut from a list that the sender's own rules bound.
TEST(LargestMessages, HoldWhatAWorkerMayHold) {
  static_assert(limits::kLeasesHeld <= limits::kLeasesPerWorker);
  ContributionHeader header{{kName},
                            {kName},
                            {kMost},
                            kVersion,
                            {7, 8},
                            limits::kParameters,
                            CodecKind::kFp32,
                            kMost,
                            kMost,
                            kMost,
                            limits::kMostLossMicro,
                            std::vector<LeaseCursor>(limits::kLeasesHeld, {{kMost}, kMost}),
                            UINT64_MAX};
  const std::string bytes = SerializeUploadHeader(ContributionUpload{header, {kMost}});
  EXPECT_LT(bytes.size(), limits::kMessageBytes);
  const auto back = ParseUploadHeader(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<ContributionUpload>(*back).header.cursors, header.cursors);
}

}  // namespace
}  // namespace atl
