// SPDX-License-Identifier: Apache-2.0
// The list of a backup: valid entries, and refusals.
#include "coordinator/backup/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::backup {
namespace {

using testing::HasSubstr;

Manifest Example() {
  return {.state_dir = "/srv/atoll",
          .wall_s = 1'700'000'000,
          .bytes = 12,
          .files = {{"ledger.sqlite", Sha256Of(AsBytes(std::string("a")))},
                    {"jobs/j/rounds/e0000000000/f00000/v0000000000.seg", Sha256Of(AsBytes(std::string("b")))}}};
}

TEST(BackupManifest, IsWhatSha256sumReads) {
  EXPECT_EQ(ToText(Example()),
            "# atoll backup, format revision 1\n# from /srv/atoll\n# made 1700000000\n# holds 2 files, 12 bytes\n"
            "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  "
            "jobs/j/rounds/e0000000000/f00000/v0000000000.seg\n"
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  ledger.sqlite\n");
}

TEST(BackupManifest, ReadsWhatItWrites) {
  const auto read = ParseManifest(ToText(Example()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state_dir, "/srv/atoll");
  EXPECT_EQ(read->wall_s, 1'700'000'000);
  EXPECT_EQ(read->bytes, 12u);
  EXPECT_EQ(read->files, Example().files);
}

TEST(BackupManifest, RefusesEveryCutAndForeignText) {
  const std::string whole = ToText(Example());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(ParseManifest(whole.substr(0, bytes)).ok()) << "cut to " << bytes << " bytes";
  }
  EXPECT_THAT(std::string(ParseManifest("# atoll backup, format revision 2\n").status().message()),
              HasSubstr("another version"));
  EXPECT_FALSE(ParseManifest(whole + "x").ok());
  EXPECT_FALSE(ParseManifest(whole + whole.substr(whole.find("ca97"))).ok()) << "a file named twice";
}

// S21.
TEST(BackupManifest, NamesOnlyFilesOfAState) {
  for (const char* path : {"ledger.sqlite", "ledger.sqlite-wal", "jobs/j/snapshots/e0/f0/v0.snap", "blobs/aa/aabb",
                           "events/_fleet.jsonl"}) {
    EXPECT_TRUE(IsStateFile(path)) << path;
  }
  for (const char* path :
       {"", "/etc/passwd", "../x", "jobs/../../x", "jobs/./x", "jobs//x", "jobs/", "LOCK", "BACKUP", "coordinator.pem",
        "ledger.sqlite-shm", "jobs/j/v1.snap.tmp", "blobs/aa/x.part", "jobs/a\nb", "jobs/a\\b"}) {
    EXPECT_FALSE(IsStateFile(path)) << path;
    std::string text = ToText(Example());
    const size_t at = text.find("jobs/j/");
    text.replace(at, text.find('\n', at) - at, path);
    EXPECT_FALSE(ParseManifest(text).ok()) << path;
  }
}

}  // namespace
}  // namespace atl::backup
