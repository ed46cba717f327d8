// SPDX-License-Identifier: Apache-2.0
// S38: the memory of a parsed message is bounded, whatever its bytes.
#include "common/wire/element_limit.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "atoll/v1/transfer.pb.h"
#include "atoll/v1/worker.pb.h"
#include "common/base/random.h"
#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kStartGroup = 3, kEndGroup = 4, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out.push_back(static_cast<char>(value | 128));
  return out + static_cast<char>(value);
}
std::string Tag(int field, Wire wire) { return Varint(static_cast<uint64_t>(field) << 3 | wire); }
std::string With(int field, const std::string& content) {
  return Tag(field, kLength) + Varint(content.size()) + content;
}
std::string Times(size_t count, const std::string& what) {
  std::string out;
  while (count-- > 0) out += what;
  return out;
}

// In pieces of a few bytes, as gRPC may have them.
absl::Status Check(const std::string& bytes, const Descriptor& kind, size_t most, int piece = 3) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), piece);
  return CheckElements(stream, kind, most);
}
template <typename Message>
void ExpectElements(size_t count, const std::string& bytes) {
  EXPECT_EQ(Check(bytes, *Message::descriptor(), count), absl::OkStatus());
  if (count == 0) return;
  EXPECT_EQ(Check(bytes, *Message::descriptor(), count - 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ElementLimit, CountsWhatTakesMemory) {
  ExpectElements<v1::MissingBlobsRequest>(0, "");
  ExpectElements<v1::MissingBlobsRequest>(3, Times(3, With(1, "")));
  // A hello with two held contributions, each with its target and digest.
  ExpectElements<v1::WorkerMessage>(7, With(1, Times(2, With(13, With(1, "") + With(2, "")))));
  // A map's entry, key and value.
  ExpectElements<v1::SubmitJobRequest>(3, With(3, With(1, "k") + With(2, "v")));
}

TEST(ElementLimit, CountsTheNumbersOfListsButNoOtherNumbers) {
  const std::string numbers = Varint(1) + Varint(2) + Varint(UINT64_MAX);
  ExpectElements<v1::LeaseRevoked>(3, With(2, numbers));
  ExpectElements<v1::LeaseRevoked>(2, Times(2, Tag(2, kVarint) + Varint(300)));
  ExpectElements<v1::WatchJobResponse>(4, With(5, std::string(32, '\0')));
  ExpectElements<v1::WatchJobResponse>(1, Tag(5, kFixed64) + std::string(8, '\0'));
  ExpectElements<v1::LeaseCursor>(0, Times(1000, Tag(1, kVarint) + Varint(7)));
  ExpectElements<v1::Digest>(0, Times(1000, Tag(1, kFixed64) + std::string(8, 'x')));
}

TEST(ElementLimit, CountsUnknownFields) {
  ExpectElements<v1::LeaseCursor>(4, Tag(99, kVarint) + Varint(300) + Tag(99, kFixed64) + std::string(8, 'x') +
                                         Tag(99, kFixed32) + std::string(4, 'x') + With(99, With(1, "") + With(1, "")));
  ExpectElements<v1::LeaseCursor>(2, With(1, "text for a number") + Tag(2, kFixed32) + "1234");
}

TEST(ElementLimit, SaysWhatIsTooMuch) {
  const std::string many = Times(limits::kMessageElements, With(1, ""));
  v1::MissingBlobsRequest out;
  EXPECT_EQ(ParseWithin(many, out), absl::OkStatus());
  EXPECT_EQ(static_cast<size_t>(out.sha256_size()), limits::kMessageElements);
  EXPECT_EQ(ParseWithin(many + With(1, ""), out),
            absl::InvalidArgumentError("the message has more than 24576 elements (messages, texts and numbers of "
                                       "lists), the limit; send less at a time"));
}

TEST(ElementLimit, RefusesGroupsAndBytesThatEndTooEarly) {
  const Descriptor& kind = *v1::WorkerMessage::descriptor();
  for (const std::string& bytes : {
           Tag(99, kStartGroup) + Tag(99, kEndGroup),  // protobuf would take it
           Tag(1, kEndGroup),
           With(1, Tag(99, kStartGroup) + Tag(99, kEndGroup)),
           Tag(1, kLength),
           Tag(1, kLength) + Varint(5) + "x",
           With(1, Tag(1, kLength) + Varint(100)) + std::string(200, 'x'),    // a text longer than its message
           With(1, Tag(12, kLength) + Varint(100)) + std::string(200, '\0'),  // a message longer than its message
           With(1, Tag(6, kVarint)),
           With(1, Tag(5, kFixed64) + "1234567"),
           Tag(99, kFixed32) + "123",
           std::string(1, '\0'),
           Tag(1, kLength) + std::string(9, '\xff') + '\1',  // a length of 2^64 - 1
           Tag(1, kVarint) + std::string(11, '\xff'),
           Tag(1, Wire{6}),
       }) {
    EXPECT_EQ(Check(bytes, kind, SIZE_MAX).code(), absl::StatusCode::kInvalidArgument) << testing::PrintToString(bytes);
  }
  const Descriptor& numbers = *v1::LeaseRevoked::descriptor();
  EXPECT_FALSE(Check(With(2, "\xff"), numbers, SIZE_MAX).ok());
  EXPECT_FALSE(Check(Tag(2, kLength) + Varint(9) + "1", numbers, SIZE_MAX).ok());
}

TEST(ElementLimit, HasABoundOnTheDepth) {
  std::string bytes;
  for (int i = 0; i < 31; ++i) bytes = With(3, bytes);  // DescriptorProto.nested_type
  const Descriptor& kind = *google::protobuf::DescriptorProto::descriptor();
  EXPECT_EQ(Check(bytes, kind, SIZE_MAX), absl::OkStatus());
  EXPECT_EQ(Check(With(3, bytes), kind, SIZE_MAX).message(), "the message nests deeper than 32 messages");
}

// ---- properties -----------------------------------------------------------------------------------------------------

// Every message that a coordinator reads from a peer.
std::vector<const Descriptor*> RequestsOfPeers() {
  std::vector<const Descriptor*> out = {v1::UploadHeader::descriptor(), v1::EnrollRequest::descriptor()};
  for (const Descriptor* one : {v1::JobSpec::descriptor(), v1::GetServerInfoRequest::descriptor(),
                                v1::WorkerMessage::descriptor(), v1::Frame::descriptor()}) {
    const auto& service = *one->file()->service(0);
    for (int i = 0; i < service.method_count(); ++i) out.push_back(service.method(i)->input_type());
  }
  return out;
}
std::unique_ptr<Message> New(const Descriptor& kind) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(&kind)->New());
}

// Calls visit(bytes) with `count` small elements in each field of each message within a request.
template <typename Visit>
void FillEachField(const Descriptor& kind, const std::vector<int>& path, size_t count,
                   std::set<const Descriptor*>& seen, const Visit& visit) {
  if (!seen.insert(&kind).second) return;
  const auto at_path = [&](std::string bytes) {
    for (auto field = path.rbegin(); field != path.rend(); ++field) bytes = With(*field, bytes);
    visit(bytes);
  };
  at_path(Times(count, With(9999, "")));
  at_path(Times(count, Tag(9999, kVarint) + Varint(0)));
  for (int i = 0; i < kind.field_count(); ++i) {
    const FieldDescriptor& field = *kind.field(i);
    if (field.is_map()) {
      std::string entries;
      for (size_t n = 0; n < count / 2; ++n) entries += With(field.number(), With(1, absl::StrCat(n)));
      at_path(entries);
    } else if (field.is_packable()) {
      at_path(With(field.number(), std::string(count, '\0')));
    } else if (field.is_repeated()) {
      at_path(Times(count, With(field.number(), "")));
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    std::vector<int> deeper = path;
    deeper.push_back(field.number());
    FillEachField(*field.message_type(), deeper, count, seen, visit);
  }
}

TEST(ElementLimit, BoundsTheMemoryOfEveryRequest) {
  constexpr size_t kMostBytes = size_t{4} << 20;
  size_t visited = 0, most = 0;
  for (const Descriptor* kind : RequestsOfPeers()) {
    std::set<const Descriptor*> seen;
    FillEachField(*kind, {}, limits::kMessageElements - 8, seen, [&](const std::string& bytes) {
      const std::unique_ptr<Message> message = New(*kind);
      ASSERT_EQ(ParseWithin(bytes, *message), absl::OkStatus()) << kind->full_name();
      most = std::max(most, message->SpaceUsedLong());
      EXPECT_LE(message->SpaceUsedLong(), kMostBytes) << kind->full_name();
      ++visited;
    });
    seen.clear();
    FillEachField(*kind, {}, limits::kMessageElements + 2, seen, [&](const std::string& bytes) {
      EXPECT_FALSE(ParseWithin(bytes, *New(*kind)).ok()) << kind->full_name();
    });
  }
  EXPECT_GT(visited, size_t{100});
  RecordProperty("most_bytes", std::to_string(most));
}

TEST(ElementLimit, NoListOfASpecIsConvertedBeyondItsOwnLimit) {
  std::set<const Descriptor*> seen;
  FillEachField(*v1::JobSpec::descriptor(), {}, 20'000, seen, [&](const std::string& bytes) {
    v1::JobSpec message;
    ASSERT_EQ(ParseWithin(bytes, message), absl::OkStatus());
    JobSpec spec;
    EXPECT_LE(JobSpecFromProto(message, false, spec).size(), limits::kInitialFiles + 2);
    EXPECT_LE(spec.data.corpora.size(), limits::kCorpora);
    EXPECT_LE(spec.data.tokenizer_files.size(), limits::kTokenizerFiles);
    EXPECT_LE(spec.data.tokenizer_file_names.size(), limits::kTokenizerFiles);
    EXPECT_LE(spec.evaluation.tasks.size(), limits::kEvalTasks);
    EXPECT_LE(spec.init.safetensors.size(), limits::kInitialFiles);
  });
}

// What protobuf made of the bytes.
size_t ElementsOf(const Message& message) {
  const Reflection& look = *message.GetReflection();
  size_t count = static_cast<size_t>(look.GetUnknownFields(message).field_count());
  std::vector<const FieldDescriptor*> set;
  look.ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool counts = field->is_repeated() || is_message || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const int size = field->is_repeated() ? look.FieldSize(message, field) : 1;
    if (counts) count += static_cast<size_t>(size);
    for (int i = 0; is_message && !field->is_map() && i < size; ++i) {
      count += ElementsOf(field->is_repeated() ? look.GetRepeatedMessage(message, field, i)
                                               : look.GetMessage(message, field));
    }
  }
  return count;
}

TEST(ElementLimit, CountsAtLeastWhatProtobufMakesOfAnyBytes) {
  const google::protobuf::LogSilencer silent;  // texts that are no UTF-8
  Rng random(47);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random.Below(bound)); };
  const std::vector<const Descriptor*> kinds = RequestsOfPeers();
  size_t parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Descriptor& kind = *kinds[below(kinds.size())];
    std::string bytes;
    for (size_t depth = 1 + below(3); depth > 0; --depth) {
      std::string fields = bytes.empty() ? "" : With(static_cast<int>(1 + below(15)), bytes);
      for (size_t n = below(6); n > 0; --n) {
        fields += With(static_cast<int>(1 + below(15)), std::string(below(4), static_cast<char>(below(128))));
        if (below(2) == 0) fields += Tag(static_cast<int>(1 + below(15)), kVarint) + Varint(random() >> below(64));
      }
      bytes = std::move(fields);
    }
    if (below(4) == 0 && !bytes.empty()) bytes[below(bytes.size())] = static_cast<char>(below(256));
    const std::unique_ptr<Message> message = New(kind);
    if (!message->ParseFromString(bytes)) continue;
    const size_t elements = ElementsOf(*message);
    if (elements == 0) continue;
    ++parsed;
    EXPECT_FALSE(Check(bytes, kind, elements - 1, static_cast<int>(1 + below(64))).ok())
        << kind.full_name() << ' ' << testing::PrintToString(bytes);
  }
  EXPECT_GT(parsed, size_t{1000});
}

}  // namespace
}  // namespace atl
