// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/escaping.h"
#include "atoll/v1/record.pb.h"
#include "common/base/random.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/frame.h"
#include "common/wire/record_messages.h"
#include "common/wire/resource_names.h"
#include "common/wire/transfer_messages.h"

namespace atl {
namespace {

std::string Hex(Bytes bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// ---- names ----------------------------------------------------------------------------------------------------------

TEST(ResourceNamesTest, ParseInvertsFormat) {
  EXPECT_EQ(*ParseJobName(JobName({"tiny-1"})), JobId{"tiny-1"});
  EXPECT_EQ(*ParseWorkerName(WorkerName({"paris-1"})), WorkerId{"paris-1"});
  EXPECT_EQ(*ParseCheckpointName(CheckpointNameOf({"tiny"}, 400)), (CheckpointName{{"tiny"}, 400, false}));
  EXPECT_TRUE(ParseCheckpointName("jobs/tiny/checkpoints/latest")->latest);
}

TEST(ResourceNamesTest, RefuseEverythingElse) {
  for (const std::string& name : {std::string(""), std::string("tiny"), std::string("jobs/"), std::string("jobs/Tiny"),
                                  std::string("jobs/-x"), std::string("jobs/a/b"), std::string("jobs/../x"),
                                  std::string("jobs/a\0b", 8), "jobs/" + std::string(64, 'a')}) {
    EXPECT_EQ(ParseJobName(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  for (const char* name :
       {"jobs/a", "jobs/a/checkpoints/", "jobs/a/checkpoints/-1", "jobs/a/checkpoints/+1", "jobs/a/checkpoints/01",
        "jobs/a/checkpoints/1x", "jobs/a/checkpoints/99999999999999999999", "jobs//checkpoints/1", "jobs/{job}/x"}) {
    EXPECT_EQ(ParseCheckpointName(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(ParseJobName("jobs/" + std::string(63, 'a')).ok());
}

// ---- frames ---------------------------------------------------------------------------------------------------------

std::string FrameBytes(uint64_t offset, bool last, const std::string& payload) {
  const FramePrefix prefix = EncodeFramePrefix(offset, Crc32c(0, AsBytes(payload)), last, payload.size());
  const Bytes bytes = prefix.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + payload;
}

TEST(FrameTest, GoldenBytes) {
  EXPECT_EQ(Hex(EncodeFramePrefix(0x0102030405060708, 0xAABBCCDD, true, 300).bytes()),
            "110807060504030201"  // offset
            "1dddccbbaa"          // CRC
            "2001"                // last
            "7aac02");            // payload, 300 bytes
  EXPECT_EQ(Hex(AsBytes(EncodeHeaderFrame("abc"))), "0a03616263");
  EXPECT_EQ(EncodeFramePrefix(UINT64_MAX, UINT32_MAX, true, limits::kFramePayloadBytes).size, 20u);
}

TEST(FrameTest, IsTheMessageThatProtobufWrites) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, limits::kFramePayloadBytes}) {
      for (const bool last : {false, true}) {
        const std::string payload(size, 'q');
        v1::Frame frame;
        frame.set_offset_bytes(offset);
        frame.set_crc32c(Crc32c(0, AsBytes(payload)));
        frame.set_last(last);
        frame.set_payload(payload);
        EXPECT_EQ(FrameBytes(offset, last, payload), frame.SerializeAsString());
      }
    }
  }
}

TEST(FrameTest, DecodesHoweverTheMessageIsCut) {
  const std::string payload = "the payload of a frame";
  const std::string message = FrameBytes(77, true, payload);
  for (size_t a = 0; a <= message.size(); ++a) {
    for (size_t b = a; b <= message.size(); b += 3) {
      const Bytes all = AsBytes(message);
      FrameView view;
      ASSERT_TRUE(DecodeFrame(std::array{all.first(a), all.subspan(a, b - a), all.subspan(b)}, view).ok());
      std::string got;
      for (const Bytes& piece : view.payload) got.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      ASSERT_EQ(got, payload);
      ASSERT_TRUE(view.last && view.offset_bytes == 77);
      ASSERT_EQ(CheckFrame(view, 77, 77 + payload.size()), absl::OkStatus());
    }
  }
}

absl::StatusOr<FrameView> Decode(const std::string& message) {
  FrameView frame;
  ATOLL_RETURN_IF_ERROR(DecodeFrame(std::array{AsBytes(message)}, frame));
  return frame;
}

TEST(FrameTest, RefusesMalformedFrames) {
  const std::string good = FrameBytes(7, false, "abc");
  for (size_t cut = 1; cut < good.size(); ++cut) {
    const auto view = Decode(good.substr(0, cut));
    // Cut between fields the bytes are another valid message, but then its check fails.
    EXPECT_FALSE(view.ok() && CheckFrame(*view, 7, 100).ok()) << cut;
  }
  for (const std::string& bad :
       {std::string("\x7a\xff\xff\xff\xff\x0f", 6), std::string("\x00", 1), std::string("\x0b", 1), good + good,
        std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), EncodeHeaderFrame("h") + good,
        "\x7a\x81\x80\x40" + std::string(limits::kFramePayloadBytes + 1, 'x')}) {
    EXPECT_EQ(Decode(bad).status().code(), absl::StatusCode::kInvalidArgument) << Hex(AsBytes(bad.substr(0, 20)));
  }
  EXPECT_EQ(Decode("\x30\x05\x42\x01z" + good)->offset_bytes, 7u) << "unknown fields are skipped";
  EXPECT_TRUE(Decode("").ok());
}

TEST(FrameTest, CheckFindsWhatDoesNotFit) {
  const std::string message = FrameBytes(10, false, "abc");
  FrameView view = *Decode(message);
  EXPECT_EQ(CheckFrame(view, 10, 100), absl::OkStatus());
  EXPECT_EQ(CheckFrame(view, 11, 100).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CheckFrame(view, 10, 12).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CheckFrame(view, 10, 13).code(), absl::StatusCode::kInvalidArgument)
      << "it reaches the end and is not marked";
  view.crc32c ^= 1;
  EXPECT_EQ(CheckFrame(view, 10, 100).code(), absl::StatusCode::kDataLoss);
}

TEST(FrameTest, RandomBytesNeverHurt) {
  Rng rng(StreamKey(1, "frames"));
  for (int i = 0; i < 20'000; ++i) {
    std::string message = FrameBytes(rng.Below(5), rng.Below(2) == 1, std::string(rng.Below(40), 'x'));
    for (uint64_t k = rng.Below(4); k > 0 && !message.empty(); --k)
      message[rng.Below(message.size())] = static_cast<char>(rng());
    message.resize(rng.Below(message.size() + 1));
    const auto view = Decode(message);
    EXPECT_TRUE(!view.ok() || view->payload_bytes <= message.size());
  }
}

// ---- control messages -----------------------------------------------------------------------------------------------

JobSpec ValidSpec() {
  JobSpec spec;
  spec.name = "tiny";
  spec.data.corpora.push_back({"tales", Sha256Of(AsBytes(std::string("m"))), 1});
  spec.stop.inner_steps = 1000;
  ResolveDefaults(spec, 256);
  return spec;
}

std::vector<WorkerMessage> WorkerMessages() {
  Hello hello{{"paris-1"},
              "0.1.0",
              1,
              1,
              0xFFFFFFFFFFFFFFFF,
              {5},
              {2},
              "cpu",
              uint64_t{1} << 34,
              true,
              {"tiny"},
              {{{0}, {3}}, {{1}, {2}}},
              {{{{0}, {3}}, {7, 8}}},
              {{{9}, 77}}};
  Heartbeat heartbeat{
      12, {"tiny"}, WorkerActivity::kWaiting, 40, 1000, 5, 3, "lease of 8 samples", {{"train_loss_nats", 2.5}}};
  heartbeat.period_steps = 40;
  heartbeat.upload_bytes_per_second = 1'250'000;
  heartbeat.download_bytes_per_second = 9'000'000;
  return {hello,
          heartbeat,
          LeaseRequest{{"tiny"}, 3, 800},
          Ready{{"tiny"}, 50, {{{0}, {1}}}},
          Applied{{"tiny"}, {{1}, {2}}, false},
          EvaluationDone{{"tiny"}, 1, 5, 6, 7, {{"passive_1", 10, 7, {}}, {"b", 5, 5, 0}}, "its corpus is damaged"},
          LeaseReturn{{"tiny"}, {{{1}, 2}, {{3}, 4}}},
          Leaving{"SIGTERM"},
          JobFailure{{"tiny"}, "out of memory", true},
          LogLines{4, {"a", "b"}},
          SyncDropped{{"tiny"}, {{1}, {6}}, 70}};
}

std::vector<CoordinatorMessage> CoordinatorMessages() {
  Welcome welcome{{3},
                  {5},
                  true,
                  Seconds(2),
                  Seconds(20),
                  {{{{0}, {3}}, ContributionFate::kCommitted}, {{{1}, {3}}, ContributionFate::kUnknown}},
                  0x1122334455667788};
  Assignment assignment{{"tiny"}, 2, std::make_shared<const JobSpec>(ValidSpec()), 50, {{1}, {0}}};
  assignment.epoch = 3;
  assignment.layout = {5, 6};
  return {welcome,
          assignment,
          Unassign{{"tiny"}, "paused"},
          LeaseGranted{{"tiny"}, 1, {2}, {3, 4}},
          LeaseDenied{{"tiny"}, 1, "used up"},
          LeaseRevoked{{"tiny"}, {{1}, {2}}, "lost"},
          UpdatePublished{{"tiny"}, {{0}, {4}}, {1, 2}, 4096, {{"a"}, {"b"}}, 100, {{3, 4}, {5, 6}}},
          ContributionRefused{{"tiny"}, {{0}, {4}}, {1, 2}, "late"},
          EvaluationAssigned{{"tiny"}, 1, {{4}}, 64, true},
          ClosingStarted{{"tiny"}, 1000, {{9}}},
          DrainRequested{"upgrade"},
          LogsWanted{1, 50, 7},
          Refused{"another protocol", true},
          PaceAssigned{{"tiny"}, 33},
          LinkJudged{{"tiny"}, false, "too slow"}};
}

TEST(ControlMessagesTest, EveryWorkerMessageComesBackTheSame) {
  ASSERT_EQ(WorkerMessages().size(), std::variant_size_v<WorkerMessage>);
  for (size_t i = 0; i < WorkerMessages().size(); ++i) {
    const WorkerMessage message = WorkerMessages()[i];
    ASSERT_EQ(message.index(), i);
    const v1::WorkerMessage proto = WorkerMessageToProto(message);
    const absl::StatusOr<WorkerMessage> back = WorkerMessageFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->index(), i);
    EXPECT_EQ(WorkerMessageToProto(*back).SerializeAsString(), proto.SerializeAsString());
  }
  const auto hello = std::get<Hello>(*WorkerMessageFromProto(WorkerMessageToProto(WorkerMessages()[0])));
  EXPECT_EQ(hello.held[0].digest, (Digest{7, 8}));
  EXPECT_EQ(hello.leases[0], (LeaseCursor{{9}, 77}));
  const auto done = std::get<EvaluationDone>(*WorkerMessageFromProto(WorkerMessageToProto(WorkerMessages()[5])));
  EXPECT_EQ(done.tasks, std::get<EvaluationDone>(WorkerMessages()[5]).tasks);
}

TEST(ControlMessagesTest, EveryCoordinatorMessageComesBackTheSame) {
  ASSERT_EQ(CoordinatorMessages().size(), std::variant_size_v<CoordinatorMessage>);
  for (size_t i = 0; i < CoordinatorMessages().size(); ++i) {
    const CoordinatorMessage message = CoordinatorMessages()[i];
    ASSERT_EQ(message.index(), i);
    const v1::CoordinatorMessage proto = CoordinatorMessageToProto(message);
    const absl::StatusOr<CoordinatorMessage> back = CoordinatorMessageFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->index(), i);
    EXPECT_EQ(CoordinatorMessageToProto(*back).SerializeAsString(), proto.SerializeAsString());
  }
  const auto back =
      std::get<Assignment>(*CoordinatorMessageFromProto(CoordinatorMessageToProto(CoordinatorMessages()[1])));
  EXPECT_EQ(back.spec->name, "tiny");
  EXPECT_EQ(back.spec->stop.inner_steps, 1000u);
  EXPECT_EQ(back.epoch, 3u);
  EXPECT_EQ(back.layout, (Digest{5, 6}));
}

TEST(ControlMessagesTest, WrongFieldsAreRefusedByTheirPath) {
  const auto refused = [](const std::function<void(v1::WorkerMessage&)>& spoil, size_t kind, const std::string& path) {
    v1::WorkerMessage proto = WorkerMessageToProto(WorkerMessages()[kind]);
    spoil(proto);
    const absl::Status status = WorkerMessageFromProto(proto).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(std::string(status.message()).rfind(path + ":", 0), 0u) << status;
  };
  refused([](auto& p) { p.mutable_hello()->set_worker("../x"); }, 0, "hello.worker");
  refused([](auto& p) { p.mutable_hello()->set_device(std::string(5000, 'x')); }, 0, "hello.device");
  refused([](auto& p) { p.mutable_hello()->mutable_applied(0)->set_fragment(limits::kFragments); }, 0,
          "hello.applied.fragment");
  refused([](auto& p) { p.mutable_hello()->mutable_leases(0)->set_lease(0); }, 0, "hello.leases.lease");
  refused(
      [](auto& p) {
        for (size_t i = 0; i <= limits::kLeasesPerWorker; ++i) p.mutable_hello()->add_leases()->set_lease(1);
      },
      0, "hello.leases");
  refused([](auto& p) { p.mutable_heartbeat()->set_activity(static_cast<v1::WorkerActivity>(99)); }, 1,
          "heartbeat.activity");
  refused([](auto& p) { p.mutable_heartbeat()->set_step_ns(-1); }, 1, "heartbeat.step_ns");
  refused([](auto& p) { p.mutable_heartbeat()->set_loss_micro(-1); }, 1, "heartbeat.loss_micro");
  refused([](auto& p) { p.mutable_heartbeat()->set_period_steps(1'000'001); }, 1, "heartbeat.period_steps");
  refused([](auto& p) { p.mutable_lease_request()->set_samples(UINT64_MAX); }, 2, "lease_request.samples");
  refused([](auto& p) { p.mutable_ready()->set_job(""); }, 3, "ready.job");
  refused([](auto& p) { p.mutable_evaluation_done()->mutable_tasks(1)->set_name(std::string(5000, 'x')); }, 5,
          "evaluation_done.tasks[1].name");
  refused(
      [](auto& p) {
        for (size_t i = 0; i <= limits::kEvalTasks; ++i) p.mutable_evaluation_done()->add_tasks()->set_name("t");
      },
      5, "evaluation_done.tasks");
  refused([](auto& p) { p.Clear(); }, 3, "worker_message.kind");
}

TEST(ControlMessagesTest, WrongAnswersAreRefusedByTheirPath) {
  const auto refused = [](const std::function<void(v1::CoordinatorMessage&)>& spoil, size_t kind,
                          const std::string& path) {
    v1::CoordinatorMessage proto = CoordinatorMessageToProto(CoordinatorMessages()[kind]);
    spoil(proto);
    const absl::Status status = CoordinatorMessageFromProto(proto).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(std::string(status.message()).rfind(path + ":", 0), 0u) << status;
  };
  refused([](auto& p) { p.mutable_welcome()->set_heartbeat_interval_ns(0); }, 0, "welcome");
  refused([](auto& p) { p.mutable_assignment()->mutable_spec()->mutable_sync()->set_inner_steps(0); }, 1,
          "assignment.spec.sync.inner_steps");
  refused([](auto& p) { p.mutable_lease_granted()->set_end(3); }, 3, "lease_granted");
  refused([](auto& p) { p.mutable_update_published()->add_contributors("A"); }, 6, "update_published.contributors");
  refused([](auto& p) { p.mutable_update_published()->mutable_digests()->RemoveLast(); }, 6,
          "update_published.digests");
  refused([](auto& p) { p.mutable_pace_assigned()->set_period_steps(0); }, 13, "pace_assigned.period_steps");
  refused([](auto& p) { p.mutable_pace_assigned()->set_period_steps(1'000'001); }, 13, "pace_assigned.period_steps");
}

TEST(ControlMessagesTest, TextInMessagesIsValidAndBounded) {
  const std::string long_text = std::string(4095, 'x') + "\xC3\xA9 tail";
  const auto leaving = WorkerMessageToProto(Leaving{long_text}).leaving().reason();
  EXPECT_EQ(leaving, std::string(4093, 'x') + "...");
  const std::string fish = "\xF0\x9F\x90\xA0";
  const auto letters = WorkerMessageToProto(Leaving{std::string(4090, 'x') + fish + fish}).leaving().reason();
  EXPECT_EQ(letters, std::string(4090, 'x') + "...") << "a letter is not cut in half";
  EXPECT_EQ(WorkerMessageToProto(Leaving{std::string(4096, 'x')}).leaving().reason(), std::string(4096, 'x'));
  EXPECT_EQ(WorkerMessageToProto(Leaving{"a\xFF\xC0\x80z"}).leaving().reason(), "a???z");
  LogLines lines;
  for (int i = 0; i < 3000; ++i) lines.lines.push_back(std::string(1000, 'y') + std::to_string(i));
  const v1::WorkerMessage proto = WorkerMessageToProto(lines);
  EXPECT_LT(proto.ByteSizeLong(), limits::kMessageBytes);
  EXPECT_EQ(std::get<LogLines>(*WorkerMessageFromProto(proto)).lines.back(), lines.lines.back())
      << "the newest are kept";
}

TEST(ControlMessagesTest, FurtherMetricsAreDropped) {
  Heartbeat heartbeat = std::get<Heartbeat>(WorkerMessages()[1]);
  v1::WorkerMessage proto = WorkerMessageToProto(heartbeat);
  for (int i = 0; i < 100; ++i) proto.mutable_heartbeat()->add_metrics()->set_name("m");
  EXPECT_EQ(std::get<Heartbeat>(*WorkerMessageFromProto(proto)).metrics.size(), limits::kMetricsPerHeartbeat);
}

// ---- transfer -------------------------------------------------------------------------------------------------------

TEST(TransferMessagesTest, AProbeHasABound) {
  for (const uint64_t bytes : {uint64_t{1}, limits::kProbeBytes}) {
    const auto request = DownloadRequestFromProto(DownloadRequestToProto({.key = Probe{bytes}}));
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(std::get<Probe>(request->key).bytes, bytes);
  }
  for (const uint64_t bytes : {uint64_t{0}, limits::kProbeBytes + 1}) {
    EXPECT_EQ(ParseUploadHeader(SerializeUploadHeader(Probe{bytes})).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DownloadRequestFromProto(DownloadRequestToProto({.key = Probe{bytes}})).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

ContributionHeader Contribution() {
  return {{"tiny"}, {"paris-1"}, {5}, {{1}, {3}}, {7, 8}, 4096, CodecKind::kBf16, 640, 10, 50, 5, {{{1}, 80}}};
}

TEST(TransferMessagesTest, HeadersComeBackTheSame) {
  const std::string contribution = SerializeUploadHeader(ContributionUpload{Contribution(), {9}});
  const auto back = std::get<ContributionUpload>(*ParseUploadHeader(contribution));
  EXPECT_EQ(back.boot.value, 9u);
  EXPECT_EQ(back.header.cursors, Contribution().cursors);
  EXPECT_EQ(SerializeUploadHeader(back), contribution);
  EXPECT_FALSE(back.header.upload_error_nano.has_value());
  ContributionHeader with_error = Contribution();
  for (const uint64_t said : {uint64_t{0}, uint64_t{125'000'000}}) {
    with_error.upload_error_nano = said;
    const auto heard = ParseUploadHeader(SerializeUploadHeader(ContributionUpload{with_error, {9}}));
    EXPECT_EQ(std::get<ContributionUpload>(*heard).header.upload_error_nano, said);
  }
  const Sha256 sha = Sha256Of({});
  EXPECT_EQ(std::get<BlobUpload>(*ParseUploadHeader(SerializeUploadHeader(BlobUpload{sha, 12}))).sha256, sha);
  EXPECT_EQ(UploadBytes(BlobUpload{sha, 12}), 12u);
  EXPECT_EQ(UploadBytes(*ParseUploadHeader(SerializeUploadHeader(Probe{4096}))), 4096u);
  EXPECT_EQ(UploadBytes(back), 4096u);
  EXPECT_EQ(ParseUploadStatus(SerializeUploadStatus({77, true}))->resume_offset_bytes, 77u);
  EXPECT_FALSE(ParseUploadStatus("")->accepted);
  const DownloadHeader header =
      *ParseDownloadHeader(SerializeDownloadHeader({100, {4}, {1, 2}, CodecKind::kInt8, {3, 4}}));
  EXPECT_EQ(header.codec, CodecKind::kInt8);
  EXPECT_EQ(header.digest, (Digest{3, 4}));
}

TEST(TransferMessagesTest, RequestsComeBackTheSame) {
  const Sha256 sha = Sha256Of({});
  for (const DownloadKey& key :
       {DownloadKey(UpdateKey{{"tiny"}, {{0}, {4}}}), DownloadKey(FragmentKey{{"tiny"}, {{1}, {0}}, true}),
        DownloadKey(BlockKey{{"tiny"}, sha, "tales_000.bin", 3}), DownloadKey(BlobKey{sha}),
        DownloadKey(CheckpointFragmentKey{{"tiny"}, 100, {2}})}) {
    const v1::DownloadRequest proto = DownloadRequestToProto({key, 5, {"paris-1"}, 1'000});
    const absl::StatusOr<DownloadRequest> back = DownloadRequestFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->limit_bytes_per_second, 1'000u);
    EXPECT_EQ(DownloadRequestToProto(*back).SerializeAsString(), proto.SerializeAsString());
  }
}

// The download would occupy its slot for years.
TEST(TransferMessagesTest, RefusesADownloadThatCrawls) {
  v1::DownloadRequest proto = DownloadRequestToProto({BlobKey{Sha256Of({})}, 0, {"paris-1"}, 999});
  const absl::Status refused = DownloadRequestFromProto(proto).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("must be at least 1000, or 0 for no limit"), absl::string_view::npos) << refused;
  proto.set_limit_bytes_per_second(0);
  EXPECT_TRUE(DownloadRequestFromProto(proto).ok());
}

// S21.
TEST(TransferMessagesTest, RefusesTraversalAndImpossibleSizes) {
  v1::DownloadRequest proto = DownloadRequestToProto({BlockKey{{"tiny"}, Sha256Of({}), "a.bin", 0}, 0, {}});
  for (const std::string& shard :
       {std::string("../a"), std::string("/etc/passwd"), std::string(".hidden"), std::string(""),
        std::string("a\0b", 3), std::string("a/b"), std::string("a\\b"), std::string(300, 'x'), std::string("a\nb")}) {
    proto.mutable_block()->set_shard(shard);
    EXPECT_EQ(DownloadRequestFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument) << shard;
  }
  proto.set_blob_sha256("xyz");
  EXPECT_FALSE(DownloadRequestFromProto(proto).ok());
  EXPECT_FALSE(DownloadRequestFromProto(v1::DownloadRequest()).ok());
  EXPECT_FALSE(ParseUploadHeader("").ok());
  EXPECT_FALSE(ParseUploadHeader("rubbish").ok());
  EXPECT_FALSE(ParseUploadHeader(SerializeUploadHeader(BlobUpload{{}, limits::kBlobBytes + 1})).ok());
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 60}) {
    ContributionHeader header = Contribution();
    header.encoded_bytes = bytes;
    EXPECT_FALSE(ParseUploadHeader(SerializeUploadHeader(ContributionUpload{header, {}})).ok()) << bytes;
  }
  ContributionHeader header = Contribution();
  header.mean_loss_micro = limits::kMostLossMicro + 1;
  EXPECT_FALSE(ParseUploadHeader(SerializeUploadHeader(ContributionUpload{header, {}})).ok());
  v1::UploadHeader upload;
  ASSERT_TRUE(upload.ParseFromString(SerializeUploadHeader(ContributionUpload{Contribution(), {}})));
  for (const int codec : {0, static_cast<int>(std::size(kCodecKinds)) + 1, -1}) {
    upload.mutable_contribution()->set_codec(codec);
    EXPECT_FALSE(ParseUploadHeader(upload.SerializeAsString()).ok()) << codec;
  }
}

// S21: a name is the file's own, byte for byte. Manifests have no such names (corpus_test).
TEST(TransferMessagesTest, NothingInANameIsDecoded) {
  v1::DownloadRequest proto = DownloadRequestToProto({BlockKey{{"tiny"}, Sha256Of({}), "a.bin", 0}, 0, {}});
  for (const char* shard : {"%2e%2e%2fa", "%2E%2E", "a%00b", "a%2fb"}) {
    proto.mutable_block()->set_shard(shard);
    const auto request = DownloadRequestFromProto(proto);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(std::get<BlockKey>(request->key).shard, shard);
  }
  proto.mutable_block()->set_shard("..%2fa");
  EXPECT_EQ(DownloadRequestFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

// ---- records --------------------------------------------------------------------------------------------------------

TEST(RecordMessagesTest, ComeBackTheSame) {
  const SegmentHeader segment{1, {"tiny"}, 2, {{1}, {7}}, {3, 4}, {5}};
  const SegmentHeader segment_back = *ParseSegmentHeader(SerializeSegmentHeader(segment));
  EXPECT_EQ(SerializeSegmentHeader(segment_back), SerializeSegmentHeader(segment));
  EXPECT_EQ(segment_back.epoch, 2u);
  const AcceptedRecord accepted{Contribution(), -3, {4}};
  EXPECT_EQ(SerializeAccepted(*ParseAccepted(SerializeAccepted(accepted))), SerializeAccepted(accepted));
  const UpdateInfo update{{{1}, {8}}, {1, 2}, {3, 4}, 99, CodecKind::kMxfp4, 6};
  EXPECT_EQ(SerializeUpdateInfo(*ParseUpdateInfo(SerializeUpdateInfo(update))), SerializeUpdateInfo(update));
  const SnapshotHeader snapshot{1, {"tiny"}, 2, {{1}, {8}}, 100, {1, 2}, {3, 4}, {5, 6}, {7, 8}, {9}};
  EXPECT_EQ(SerializeSnapshotHeader(*ParseSnapshotHeader(SerializeSnapshotHeader(snapshot))),
            SerializeSnapshotHeader(snapshot));
  JobSpec spec = ValidSpec();
  spec.labels = {{"a", "b"}};
  const JobSpec spec_back = *ParseJobSpec(SerializeJobSpec(spec));
  EXPECT_EQ(spec_back.name, "tiny");
  EXPECT_EQ(spec_back.labels, spec.labels);
  EXPECT_EQ(SerializeJobSpec(spec_back), SerializeJobSpec(spec));
}

TEST(RecordMessagesTest, RubbishIsDataLoss) {
  for (const std::string& bytes : {std::string("rubbish"), std::string()}) {
    EXPECT_EQ(ParseSegmentHeader(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseContributionBegin(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseAccepted(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseUpdateInfo(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseSnapshotHeader(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseRoundRecord(bytes, {"tiny"}, 0).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(RecordMessagesTest, GoldenBytes) {
  EXPECT_EQ(Hex(AsBytes(SerializeSegmentHeader({1, {"tiny"}, 2, {{1}, {7}}, {3, 4}, {5}}))),
            "0801"
            "120474696e79"
            "1a0408011007"
            "2212090300000000000000110400000000000000"
            "2805"
            "3002");
}

}  // namespace
}  // namespace atl
