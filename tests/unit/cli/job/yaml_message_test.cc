// SPDX-License-Identifier: Apache-2.0
#include "cli/job/yaml_message.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

#include "atoll/v1/job.pb.h"

namespace atl::cli {
namespace {

TEST(YamlText, QuotesWhatYamlWouldReadDifferently) {
  EXPECT_EQ(YamlText("reef-1"), "reef-1");
  EXPECT_EQ(YamlText("two words"), "two words");
  for (const char* text :
       {"", "true", "No", "null", "12", "1e3", "-x", "a: b", "#a", "a #b", "a\"b", "a\\b", "a\nb", "é", "a "}) {
    const std::string yaml = YamlText(text);
    EXPECT_EQ(yaml.front(), '"') << text;
    EXPECT_EQ(YAML::Load(yaml).Scalar(), text) << yaml;
  }
}

TEST(NumberText, IsShortAndExact) {
  EXPECT_EQ(NumberText(4e-4), "0.0004");
  EXPECT_EQ(NumberText(10000), "10000");
  EXPECT_EQ(NumberText(1e-8), "1e-08");
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(std::stod(NumberText(1.0 / 3)), 1.0 / 3);
}

TEST(ShortEnumName, DropsThePrefix) {
  EXPECT_EQ(ShortEnumName(*v1::FragmentPattern_descriptor(), v1::FRAGMENT_PATTERN_WHOLE), "whole");
  EXPECT_EQ(ShortEnumName(*v1::WeightRule_descriptor(), v1::WEIGHT_RULE_TOKENS_SQUARED_OVER_STEPS),
            "tokens_squared_over_steps");
  EXPECT_EQ(ShortEnumName(*v1::JobState_descriptor(), 99), "99");
}

// Sets every field of the message; the text must preserve all of them.
void Fill(google::protobuf::Message& m, int salt) {
  using google::protobuf::FieldDescriptor;
  const auto* r = m.GetReflection();
  for (int i = 0; i < m.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* f = m.GetDescriptor()->field(i);
    ++salt;
    if (f->type() == FieldDescriptor::TYPE_MESSAGE && f->message_type()->full_name() == "google.protobuf.Duration") {
      auto* d = r->MutableMessage(&m, f);
      d->GetReflection()->SetInt64(d, d->GetDescriptor()->field(0), salt);
      d->GetReflection()->SetInt32(d, d->GetDescriptor()->field(1), 250'000'000);
    } else if (f->type() == FieldDescriptor::TYPE_MESSAGE && f->is_repeated()) {
      Fill(*r->AddMessage(&m, f), salt);
      Fill(*r->AddMessage(&m, f), salt + 50);
    } else if (f->type() == FieldDescriptor::TYPE_MESSAGE) {
      Fill(*r->MutableMessage(&m, f), salt);
    } else if (f->is_repeated()) {
      r->AddString(&m, f, "text: " + std::to_string(salt));
      r->AddString(&m, f, "");
    } else {
      switch (f->cpp_type()) {
        case FieldDescriptor::CPPTYPE_BOOL: r->SetBool(&m, f, true); break;
        case FieldDescriptor::CPPTYPE_UINT32: r->SetUInt32(&m, f, std::numeric_limits<uint32_t>::max()); break;
        case FieldDescriptor::CPPTYPE_UINT64: r->SetUInt64(&m, f, std::numeric_limits<uint64_t>::max()); break;
        case FieldDescriptor::CPPTYPE_INT32: r->SetInt32(&m, f, -salt); break;
        case FieldDescriptor::CPPTYPE_DOUBLE: r->SetDouble(&m, f, 1.0 / salt); break;
        case FieldDescriptor::CPPTYPE_ENUM: r->SetEnumValue(&m, f, f->enum_type()->value(1)->number()); break;
        case FieldDescriptor::CPPTYPE_STRING: r->SetString(&m, f, "a \"b\" #" + std::to_string(salt)); break;
        default: FAIL() << "a type that this test does not know: " << f->full_name();
      }
    }
  }
}

TEST(MessageToYaml, ReadsBackAsTheSameMessage) {
  v1::JobSpec spec;
  Fill(spec, 0);
  const std::string yaml = MessageToYaml(spec);
  std::vector<Fault> faults;
  Positions positions;
  v1::JobSpec again;
  YamlReader("text", faults, positions).ReadMessage(YAML::Load(yaml), "", again);
  ASSERT_TRUE(faults.empty()) << faults[0].ToString() << "\n" << yaml;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(spec, again)) << yaml;
}

TEST(MessageToYaml, PrintsTimesAndMaps) {
  v1::Job job;
  job.set_name("jobs/a");
  (*job.mutable_labels())["b"] = "1";
  (*job.mutable_labels())["a"] = "x";
  job.mutable_create_time()->set_seconds(1'700'000'000);
  const std::string yaml = MessageToYaml(job);
  EXPECT_NE(yaml.find("name: jobs/a\n"), std::string::npos);
  EXPECT_NE(yaml.find("labels:\n  a: x\n  b: \"1\"\n"), std::string::npos);
  EXPECT_NE(yaml.find("create_time: 2023-11-14T22:13:20.000Z\n"), std::string::npos);
}

}  // namespace
}  // namespace atl::cli
