// SPDX-License-Identifier: Apache-2.0
// Files of a newer program: the stores and the audit refuse each of them with the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atoll/v1/record.pb.h"
#include "common/base/crc32c.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/store/segment_format.h"
#include "coordinator/store/snapshot_store.h"
#include "tests/unit/coordinator/store/round_log_fixture.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

SimDisk::Content ContentOf(const std::string& text) {
  const Bytes bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

class NewerRevision : public RoundLogTest {
 protected:
  void ExpectRefused(const absl::Status& status, const std::string& path) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("format revision 2"), HasSubstr("use the newer program")));
  }
  void ExpectReported(const std::string& path) {
    ASSERT_EQ(report_.damages(), 1u);
    EXPECT_EQ(report_.damage()[0].file, path);
    EXPECT_THAT(report_.damage()[0].problem, HasSubstr("format revision 2"));
    EXPECT_EQ(report_.damage()[0].way_out, audit::kNewerProgram);
  }
  audit::Report report_{"verify", "/data"};
};

TEST_F(NewerRevision, SegmentIsRefused) {
  const std::string header =
      SerializeSegmentHeader({kSegmentRevision + 1, kKey.job, kKey.epoch, kKey.target, kLayout, {1}});
  const RecordHeaderBytes record = EncodeRecordHeader({.type = RecordType::kSegmentHeader,
                                                       .payload_bytes = header.size(),
                                                       .sequence = 5,
                                                       .boot = 1,
                                                       .payload_crc32c = Crc32c(0, AsBytes(header))});
  Reopen(1);  // creates the file
  SimDisk::Content& content = disk_.At(Path());
  content.assign(record.begin(), record.end());
  const SimDisk::Content payload = ContentOf(header);
  content.insert(content.end(), payload.begin(), payload.end());
  RoundLog log(disk_, directory_, BootNumber{1}, kSecret);
  ExpectRefused(log.Open(kKey, kLayout), Path());
  EXPECT_FALSE(audit::ReadSegment(disk_, Path(), "tiny", report_).has_value());
  ExpectReported(Path());
}

TEST_F(NewerRevision, SnapshotIsRefused) {
  const std::vector<float> values = {1, 2, 3};
  const SnapshotKey key{kKey.job, 0, {{0}, {4}}};
  SnapshotStore store(disk_, directory_, BootNumber{1});
  ASSERT_EQ(store.Write(key, FragmentArrays{values, {}, {}}, ContentHash(values, 4, kLayout), kLayout),
            absl::OkStatus());
  const std::string path = directory_.SnapshotPath(key);
  SimDisk::Content& content = disk_.At(path);
  uint32_t numbers[2];  // size and checksum of the header
  std::memcpy(numbers, &content[8], sizeof numbers);
  v1::SnapshotHeader header;
  ASSERT_TRUE(header.ParseFromArray(&content[16], static_cast<int>(numbers[0])));
  header.set_format_revision(kSnapshotRevision + 1);
  const SimDisk::Content changed = ContentOf(header.SerializeAsString());
  ASSERT_EQ(changed.size(), numbers[0]);
  numbers[1] = Crc32c(0, changed);
  std::memcpy(&content[8], numbers, sizeof numbers);
  std::copy(changed.begin(), changed.end(), &content[16]);
  ExpectRefused(store.Load(key, kLayout).status(), path);
  EXPECT_FALSE(audit::ReadSnapshot(disk_, path, "tiny", report_).has_value());
  ExpectReported(path);
}

TEST_F(NewerRevision, CheckpointManifestIsRefused) {
  v1::CheckpointManifest manifest;
  manifest.set_format_revision(2);
  manifest.set_job("tiny");
  manifest.add_versions(4);
  const std::string bytes = manifest.SerializeAsString();
  const absl::Status status = ParseCheckpointManifest(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("format revision 2"), HasSubstr("use the program that wrote it")));
  Reopen(1);  // creates the directories
  disk_.At(Path()) = ContentOf(bytes);
  EXPECT_FALSE(audit::ReadManifest(disk_, Path(), "tiny", report_).has_value());
  ExpectReported(Path());
}

}  // namespace
}  // namespace atl
