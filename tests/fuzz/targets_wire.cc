// SPDX-License-Identifier: Apache-2.0
// Messages of peers: frames, transfer headers, control messages, encoded fragments.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/element_limit.h"
#include "common/wire/frame.h"
#include "common/wire/transfer_messages.h"
#include "tests/fuzz/targets.h"
#include "worker/island/orders.h"

namespace atl::fuzz {
namespace {

// A frame parses the same however its message was split.
void Frame(const std::string& input) {
  if (input.empty()) return;
  const std::string message = input.substr(1);
  const Bytes all = AsBytes(message);
  const size_t cut = static_cast<unsigned char>(input[0]) * message.size() / 256;
  FrameView whole, cut_once;
  const bool is_frame = DecodeFrame(std::array{all}, whole).ok();
  const bool is_cut_frame = DecodeFrame(std::array{all.first(cut), all.subspan(cut)}, cut_once).ok();
  ATOLL_CHECK(is_frame == is_cut_frame, "a frame is one or is none");
  if (!is_frame) return;
  size_t bytes = 0;
  uint32_t crc = 0;
  for (const Bytes& piece : cut_once.payload) {
    bytes += piece.size();
    crc = Crc32c(crc, piece);
  }
  ATOLL_CHECK(bytes == whole.payload_bytes && bytes <= limits::kFramePayloadBytes, "the pieces are the payload");
  ATOLL_CHECK(whole.header == cut_once.header && whole.last == cut_once.last &&
                  whole.offset_bytes == cut_once.offset_bytes && whole.crc32c == cut_once.crc32c,
              "one message, one frame");
  const uint64_t begin = whole.offset_bytes;
  if (begin > limits::kParameters) return;  // no caller expects a frame beyond the announced size
  const bool fits = CheckFrame(whole, begin, limits::kParameters).ok();
  ATOLL_CHECK(!fits || (crc == whole.crc32c && begin + bytes <= limits::kParameters), "a frame that fits is whole");
}

// Each order between the ranks of an island has one encoding.
void IslandOrders(const std::string& input) {
  const auto order = DecodeOrder(input);
  ATOLL_CHECK(!order.ok() || EncodeOrder(*order) == input, "an order that is read is written the same");
}

// What a parsed message holds, by the definition of common/wire/element_limit.h.
size_t ElementsIn(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& in = *message.GetReflection();
  size_t count = static_cast<size_t>(in.GetUnknownFields(message).field_count());
  std::vector<const FieldDescriptor*> fields;
  in.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool numbers =
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE && field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    const int values = field->is_repeated() ? in.FieldSize(message, field) : 1;
    if (field->is_repeated() || !numbers) count += static_cast<size_t>(values);
    // An entry of a map has a key and a value also where its bytes had none.
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    for (int i = 0; i < values; ++i) {
      count +=
          ElementsIn(field->is_repeated() ? in.GetRepeatedMessage(message, field, i) : in.GetMessage(message, field));
    }
  }
  return count;
}

// No message that passes has more elements than allowed.
void Elements(const std::string& input) {
  constexpr size_t kMost = 8;
  if (input.empty()) return;
  const std::array<std::unique_ptr<google::protobuf::Message>, 4> kinds = {
      std::make_unique<v1::WorkerMessage>(), std::make_unique<v1::SubmitJobRequest>(),
      std::make_unique<v1::LeaseRevoked>(), std::make_unique<v1::WatchJobResponse>()};
  google::protobuf::Message& message = *kinds[static_cast<unsigned char>(input[0]) % kinds.size()];
  const std::string bytes = input.substr(1);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (!CheckElements(stream, *message.GetDescriptor(), kMost).ok() || !message.ParseFromString(bytes)) return;
  ATOLL_CHECK(ElementsIn(message) <= kMost, "what passes is within the limit");
}

// A message that is written and read back is equal to the original.
template <typename Proto, typename FromProto, typename ToProto>
void Message(const std::string& input, FromProto from, ToProto to) {
  Proto proto;
  if (!proto.ParseFromString(input)) return;
  const auto message = from(proto);
  if (!message.ok()) return;
  const std::string written = to(*message).SerializeAsString();
  Proto again;
  ATOLL_CHECK(again.ParseFromString(written), "what was written can be read");
  const auto back = from(again);
  ATOLL_CHECK(back.ok(), "what was accepted is accepted again");
  ATOLL_CHECK(to(*back).SerializeAsString() == written, "and is the same");
}

template <typename Parse, typename Serialize>
void Header(const std::string& input, Parse parse, Serialize serialize) {
  const auto header = parse(input);
  if (!header.ok()) return;
  const std::string written = serialize(*header);
  const auto back = parse(written);
  ATOLL_CHECK(back.ok() && serialize(*back) == written, "a header comes back the same");
}

bool SameFloats(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return x == y || (x != x && y != y);  // 0 and -0 are equal
  });
}

// Every bit pattern decodes, with equal results alone, in ranges and added; decoded values can be
// encoded.
void Codec(const std::string& input) {
  if (input.size() < 3) return;
  const CodecKind codec = kCodecKinds[static_cast<unsigned char>(input[0]) % std::size(kCodecKinds)];
  const size_t elements = (static_cast<unsigned char>(input[1]) * 256u + static_cast<unsigned char>(input[2])) % 9000;
  std::string encoded = input.substr(3);
  encoded.resize(EncodedSize(codec, elements), '\x55');
  ATOLL_CHECK(CheckEncodedSize(codec, elements, encoded.size()).ok(), "the size known before is the size");
  std::vector<float> decoded(elements), added(elements, 0.0f), ranges(elements);
  Decode(codec, AsBytes(encoded), decoded);
  DecodeAdd(codec, AsBytes(encoded), added);
  ATOLL_CHECK(SameFloats(decoded, added), "added to nothing it is what it is");
  for (size_t begin = 0; begin < elements; begin += kCodecBlock) {
    DecodeRange(codec, AsBytes(encoded), begin,
                std::span(ranges).subspan(begin, std::min(kCodecBlock, elements - begin)));
  }
  ATOLL_CHECK(SameFloats(decoded, ranges), "a part is a part of the whole");
  std::vector<std::byte> again(encoded.size());
  Encode(codec, decoded, again);
}

JobSpec SmallSpec() {
  JobSpec spec;
  spec.name = "tiny";
  spec.data.corpora.push_back({"tales", Sha256Of(AsBytes(std::string("m"))), 1});
  spec.stop.inner_steps = 1000;
  ResolveDefaults(spec, 256);
  return spec;
}

ContributionHeader SmallHeader() {
  ContributionHeader header;
  header.job = {"tiny"};
  header.worker = {"a"};
  header.incarnation = {4};
  header.target = {{1}, {7}};
  header.digest = {7, 8};
  header.encoded_bytes = 100;
  header.tokens = 100;
  header.steps = 5;
  header.send_step = 40;
  header.cursors = {{{9}, 77}};
  return header;
}

std::vector<std::string> FrameSeeds() {
  const std::string payload = "the payload of a frame";
  const FramePrefix prefix = EncodeFramePrefix(77, Crc32c(0, AsBytes(payload)), true, payload.size());
  std::string message(1, '\x40');
  message.append(reinterpret_cast<const char*>(prefix.bytes().data()), prefix.size);
  return {message + payload, "\x10" + EncodeHeaderFrame(SerializeUploadStatus({100, false}))};
}

std::vector<std::string> WorkerSeeds() {
  const Hello hello{{"paris-1"},
                    "0.1.0",
                    1,
                    1,
                    77,
                    {5},
                    {2},
                    "cpu",
                    uint64_t{1} << 34,
                    true,
                    {"tiny"},
                    {{{0}, {3}}, {{1}, {2}}},
                    {{{{0}, {3}}, {7, 8}}},
                    {{{9}, 77}}};
  const Heartbeat heartbeat{12, {"tiny"}, WorkerActivity::kWaiting,  40, 1000, 5,
                            3,  "lease",  {{"train_loss_nats", 2.5}}};
  const std::vector<WorkerMessage> messages = {
      hello,
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
  std::vector<std::string> seeds;
  for (const WorkerMessage& message : messages) seeds.push_back(WorkerMessageToProto(message).SerializeAsString());
  return seeds;
}

std::vector<std::string> CoordinatorSeeds() {
  const std::vector<CoordinatorMessage> messages = {
      Welcome{{3}, {5}, true, Seconds(2), Seconds(20), {{{{0}, {3}}, ContributionFate::kCommitted}}},
      Assignment{{"tiny"}, 2, std::make_shared<const JobSpec>(SmallSpec()), 50, {{1}, {0}}},
      LeaseGranted{{"tiny"}, 1, {2}, {3, 4}},
      LeaseRevoked{{"tiny"}, {{1}, {2}}, "lost"},
      UpdatePublished{{"tiny"}, {{0}, {4}}, {1, 2}, 4096, {{"a"}, {"b"}}, 100, {{3, 4}, {5, 6}}},
      EvaluationAssigned{{"tiny"}, 1, {{4}}, 64, true},
      Refused{"another protocol", true}};
  std::vector<std::string> seeds;
  for (const CoordinatorMessage& message : messages) {
    seeds.push_back(CoordinatorMessageToProto(message).SerializeAsString());
  }
  return seeds;
}

// Messages of each kind in Elements, with few elements and with many.
std::vector<std::string> ElementSeeds() {
  v1::LeaseRevoked revoked;
  for (uint64_t i = 0; i < 9; ++i) revoked.add_leases(i << i);
  v1::SubmitJobRequest submit;
  for (const char* key : {"a", "b", "c"}) (*submit.mutable_labels())[key] = key;
  v1::WatchJobResponse watched;
  for (double loss : {2.5, 2.4, 2.3}) watched.add_recent_losses(loss);
  std::vector<std::string> seeds = {std::string(1, '\2') + revoked.SerializeAsString(),
                                    std::string(1, '\1') + submit.SerializeAsString(),
                                    std::string(1, '\3') + watched.SerializeAsString()};
  for (const std::string& worker : WorkerSeeds()) seeds.push_back(std::string(1, '\0') + worker);
  return seeds;
}

}  // namespace

std::vector<Target> WireTargets() {
  return {
      {"message_elements", Elements, ElementSeeds()},
      {"frame", Frame, FrameSeeds()},
      {"worker_message",
       [](const std::string& input) {
         Message<v1::WorkerMessage>(input, WorkerMessageFromProto, WorkerMessageToProto);
       },
       WorkerSeeds()},
      {"coordinator_message",
       [](const std::string& input) {
         Message<v1::CoordinatorMessage>(input, CoordinatorMessageFromProto, CoordinatorMessageToProto);
       },
       CoordinatorSeeds()},
      {"download_request",
       [](const std::string& input) {
         Message<v1::DownloadRequest>(input, DownloadRequestFromProto, DownloadRequestToProto);
       },
       {DownloadRequestToProto({.key = UpdateKey{{"tiny"}, {{1}, {2}}}, .worker = {"a"}}).SerializeAsString(),
        DownloadRequestToProto({.key = BlockKey{{"tiny"}, {}, "train-00000.bin", 3}}).SerializeAsString(),
        DownloadRequestToProto({.key = Probe{1000}}).SerializeAsString()}},
      {"upload_header",
       [](const std::string& input) { Header(input, ParseUploadHeader, SerializeUploadHeader); },
       {SerializeUploadHeader(ContributionUpload{SmallHeader(), {3}}), SerializeUploadHeader(BlobUpload{{}, 100}),
        SerializeUploadHeader(Probe{1000})}},
      {"upload_status",
       [](const std::string& input) { Header(input, ParseUploadStatus, SerializeUploadStatus); },
       {SerializeUploadStatus({100, false}), SerializeUploadStatus({0, true})}},
      {"download_header",
       [](const std::string& input) { Header(input, ParseDownloadHeader, SerializeDownloadHeader); },
       {SerializeDownloadHeader({.total_bytes = 100, .version = {3}, .hash = {1, 2}, .codec = CodecKind::kInt8})}},
      {"island_order",
       IslandOrders,
       {EncodeOrder(PrepareOrder{"spec", 3, 1000, {1, 2}}), EncodeOrder(ParametersOrder{1, 2}),
        EncodeOrder(OptimizerOrder{3}), EncodeOrder(StepOrder{1e-3, 6, 2, {1, 2, 3, 4, 5, 6, 7, 8}}),
        EncodeOrder(ReleaseOrder{}), EncodeOrder(LeaveOrder{})}},
      {"codec",
       Codec,
       {std::string("\x03\x01\x00", 3) + std::string(300, 'q'), std::string("\x04\x20\x01", 3) + "abc"}},
  };
}

}  // namespace atl::fuzz
