// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/codec/codec.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

struct Sink final : UploadSink {
  void Granted(uint64_t) override {}
  void Accepted() override {}
  void Refused(const absl::Status& why) override { ADD_FAILURE() << why; }
};

class Acceptances : public testing::Test {
 protected:
  Acceptances() {
    (void)c_.Submit(spec_);
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
    encoded_->resize(EncodedSize(spec_.sync.upload_codec, layout_.fragments[0].elements));
  }
  ContributionHeader HeaderOf(UploadId upload) const {
    ContributionHeader header;
    header.job = key_.job;
    header.worker = WorkerId{"w" + std::to_string(upload)};
    header.target = key_.target;
    header.codec = spec_.sync.upload_codec;
    header.encoded_bytes = encoded_->size();
    header.digest = DigestOf(*encoded_);
    return header;
  }
  // Appends all bytes of a contribution to the log.
  void Upload(UploadId upload) {
    EXPECT_TRUE(c_.data.uploads().Begin(upload, HeaderOf(upload), std::make_shared<Sink>()).ok());
    c_.data.uploads().Grant(upload, {});
    const auto source = MakeMemorySource(encoded_);
    for (uint64_t at = 0; at < encoded_->size(); at += kPiece) {
      const auto bytes = source->Read(at, std::min<size_t>(kPiece, encoded_->size() - at));
      c_.data.uploads().Append(upload, at, *bytes,
                               [](const absl::Status& stored) { EXPECT_TRUE(stored.ok()) << stored; });
    }
    c_.work.RunAll();
  }
  std::vector<UploadId> Durable() const {
    std::vector<UploadId> uploads;
    for (const Event& event : events_) {
      if (const auto* durable = std::get_if<ContributionDurable>(&event)) uploads.push_back(durable->upload);
    }
    return uploads;
  }
  bool IsKept(UploadId upload) { return c_.rounds.ReadContribution(key_, WorkerId{"w" + std::to_string(upload)}).ok(); }

  static constexpr size_t kPiece = 4096;
  const JobSpec spec_ = TinySpec("tiny");
  const ModelLayout layout_ = MakeModelLayout(spec_.model, spec_.sync.pattern, spec_.sync.layers_per_fragment);
  const RoundKey key_{JobId{"tiny"}, 0, {FragmentIndex{0}, Version{0}}};
  const std::shared_ptr<std::vector<std::byte>> encoded_ = std::make_shared<std::vector<std::byte>>();
  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  std::vector<Event> events_;
};

TEST_F(Acceptances, ThatComeWhileTheDiskIsBusyAreFlushedTogether) {
  for (const UploadId upload : {UploadId{1}, UploadId{2}, UploadId{3}}) Upload(upload);
  c_.data.uploads().FlushAcceptance(1);
  c_.data.uploads().FlushAcceptance(2);
  EXPECT_EQ(c_.work.pending(), 1u);
  EXPECT_TRUE(Durable().empty() && !IsKept(1) && !IsKept(2));
  c_.work.RunAll();
  EXPECT_EQ(Durable(), (std::vector<UploadId>{1, 2}));
  EXPECT_TRUE(IsKept(1) && IsKept(2) && !IsKept(3));
  c_.data.uploads().FlushAcceptance(3);
  c_.work.RunAll();
  EXPECT_EQ(Durable(), (std::vector<UploadId>{1, 2, 3}));
  EXPECT_TRUE(IsKept(3));
}

TEST_F(Acceptances, HoldThoughTheUploadEnds) {
  for (const UploadId upload : {UploadId{1}, UploadId{2}}) Upload(upload);
  for (const UploadId upload : {UploadId{1}, UploadId{2}}) c_.data.uploads().FlushAcceptance(upload);
  c_.data.uploads().End(1);
  c_.work.RunAll();
  EXPECT_EQ(Durable(), (std::vector<UploadId>{1, 2}));
  EXPECT_TRUE(IsKept(1) && IsKept(2));
  c_.data.uploads().FlushAcceptance(1);  // for no known upload
  EXPECT_EQ(c_.work.pending(), 0u);
}

}  // namespace
}  // namespace atl
