// SPDX-License-Identifier: Apache-2.0
// Backup and restore of small states on a real disk: complete, refused, damaged, interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/forwarded_files.h"
#include "common/plan/boot_lines.h"
#include "coordinator/audit/audit_command.h"
#include "coordinator/backup/backup_command.h"
#include "coordinator/backup/copy.h"
#include "coordinator/backup/manifest.h"
#include "coordinator/backup/room.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/sqlite_ledger.h"
#include "tests/unit/another_user.h"

namespace atl::backup {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'700'000'000;

class BackupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / "atoll-backup-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    const auto ledger = OpenSqliteLedger(MakeState());
    ASSERT_TRUE(ledger.ok() && (*ledger)->Recover().ok() && (*ledger)->Recover().ok());
    Put("state/" + blob_, content_);
    Put("state/events/_fleet.jsonl", "{}\n");
    Put("state/blobs/aa/half.part", "half");
    Put("state/coordinator.pem", "a key");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string At(const std::string& name) const { return root_ + "/" + name; }
  std::string MakeState() const {
    fs::create_directories(At("state"));
    return At("state/ledger.sqlite");
  }
  void Put(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(At(name)).parent_path());
    std::ofstream(At(name), std::ios::binary) << content;
  }
  std::string Get(const std::string& name) const {
    std::ifstream file(At(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  int Backup(const std::string& state = "state", const std::string& to = "backup") {
    return Run({false, At(state), At(to), kNow});
  }
  int Restore(const std::string& from = "backup", const std::string& state = "new", int64_t wall_s = kNow) {
    return Run({true, At(state), At(from), wall_s});
  }
  int Run(const BackupOptions& options) {
    out_.str("");
    err_.str("");
    return RunBackup(options, out_, err_);
  }
  // The exit code of `atoll-coordinator verify`.
  int Verify(const std::string& state) {
    std::ostringstream out;
    return audit::RunAudit({false, At(state), false}, out, out);
  }
  uint64_t BootOf(const std::string& state) {
    const auto ledger = OpenSqliteLedger(At(state) + "/ledger.sqlite");
    return ledger.ok() ? (*ledger)->Recover()->boot.value : 0;
  }

  std::string root_;
  const std::string content_ = "stored", blob_ = "blobs/" + Sha256Of(AsBytes(content_)).Hex().substr(0, 2) + "/" +
                                                 Sha256Of(AsBytes(content_)).Hex();
  std::ostringstream out_, err_;
};

TEST_F(BackupTest, ABackupAndAStateMadeFromItAreWell) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("backed up"), HasSubstr("verified and flushed"), Not(HasSubstr("revoke"))));
  EXPECT_EQ(Verify("backup"), audit::kExitWell);
  EXPECT_EQ(Get("backup/" + blob_), content_);
  EXPECT_FALSE(fs::exists(At("backup/coordinator.pem"))) << "a key is in the backup";
  EXPECT_FALSE(fs::exists(At("backup/blobs/aa/half.part")));
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  EXPECT_EQ(Verify("new"), audit::kExitWell);
  EXPECT_EQ(Get("new/" + blob_), content_);
  EXPECT_EQ(Get("new/events/_fleet.jsonl"), "{}\n");
  EXPECT_EQ(Get("new/RESTORED"), Get("backup/BACKUP"));
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("2023-11-14 22:13:20 UTC"), HasSubstr("events/audit of the lost directory"),
                                HasSubstr("revoke and evict again")));
  EXPECT_FALSE(fs::exists(At("new.partial")) || fs::exists(At("backup.partial")));
}

TEST_F(BackupTest, EachRestoreBeginsALineOfItsOwn) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  ASSERT_EQ(Restore("backup", "later", kNow + 1), kExitDone) << err_.str();
  ASSERT_EQ(Restore("backup", "clock-lost", -5), kExitDone) << err_.str();
  EXPECT_EQ(BootOf("new"), kNow * kBootsPerLine + 1);
  EXPECT_EQ(BootOf("later"), (kNow + 1) * kBootsPerLine + 1);
  EXPECT_EQ(BootOf("clock-lost"), kBootsPerLine + 1);
  EXPECT_EQ(BootOf("state"), 3u) << "the backup has changed what it was made of";
  // A backup of a restored state, restored immediately: newer than both.
  ASSERT_EQ(Backup("new", "second"), kExitDone) << err_.str();
  ASSERT_EQ(Restore("second", "newest"), kExitDone) << err_.str();
  EXPECT_EQ(BootOf("newest"), (kNow + 1) * kBootsPerLine + 1);
}

TEST_F(BackupTest, NothingIsOverwritten) {
  Put("backup/mine", "mine");
  EXPECT_EQ(Backup(), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("already exists and is never overwritten"));
  EXPECT_EQ(Get("backup/mine"), "mine");
  Put("file", "mine");
  EXPECT_EQ(Backup("state", "file"), kExitNotDone);
  EXPECT_EQ(Get("file"), "mine");
  fs::create_directory(At("empty"));
  EXPECT_EQ(Backup("state", "empty"), kExitDone) << err_.str();
  EXPECT_EQ(Restore("empty", "state"), kExitNotDone);
  EXPECT_EQ(BootOf("state"), 3u);
}

TEST_F(BackupTest, RefusalsNameTheWayOut) {
  EXPECT_EQ(Backup("nothing"), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("is not a state directory; name a coordinator's --state-dir"));
  EXPECT_EQ(Backup("state", "state/backup"), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("name a directory outside of it"));
  EXPECT_EQ(Backup("state", "no/where"), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("create it"));
  EXPECT_EQ(Restore("state"), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("is not a backup: it has no file BACKUP"));
  EXPECT_FALSE(fs::exists(At("backup")) || fs::exists(At("backup.partial")));
}

// A rename onto either fails, and would fail only after the whole copy.
TEST_F(BackupTest, AMountPointOrALinkIsRefusedBeforeAnythingIsCopied) {
  EXPECT_EQ(CheckIsReplaceable("/proc").message(),
            "/proc is a mount point and cannot be replaced by the finished copy; name a directory below it");
  fs::create_directory(At("elsewhere"));
  EXPECT_TRUE(CheckIsReplaceable(At("elsewhere")).ok());
  EXPECT_TRUE(CheckIsReplaceable(At("not there")).ok());
  fs::create_directory_symlink(At("elsewhere"), At("link"));
  EXPECT_EQ(Backup("state", "link"), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("link is a symbolic link and cannot be replaced by the finished copy"));
  EXPECT_FALSE(fs::exists(At("link.partial")));
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_EQ(Restore("backup", "link"), kExitNotDone);
  EXPECT_FALSE(fs::exists(At("link.partial")));
}

TEST_F(BackupTest, AStateInUseIsCopiedWithAllThatWasCommitted) {
  const auto lock = LockDirectory(DataDirectory(At("state")));
  ASSERT_TRUE(lock.ok());
  const auto ledger = OpenSqliteLedger(At("state/ledger.sqlite"));
  ASSERT_TRUE(ledger.ok() && (*ledger)->PutToken({.id = "token"}).ok());
  ASSERT_TRUE(fs::exists(At("state/ledger.sqlite-wal")));
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_EQ(Verify("backup"), audit::kExitWell);
  EXPECT_EQ(Get("backup/ledger.sqlite-wal"), Get("state/ledger.sqlite-wal"));
  ASSERT_TRUE((*ledger)->PutToken({.id = "later"}).ok()) << "the backup has disturbed the ledger";
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  const auto restored = OpenSqliteLedger(At("new/ledger.sqlite"));
  ASSERT_TRUE(restored.ok() && (*restored)->Tokens().ok());
  ASSERT_EQ((*restored)->Tokens()->size(), 1u);
  EXPECT_EQ((*(*restored)->Tokens())[0].id, "token");
}

TEST_F(BackupTest, UnfinishedCopyIsNeitherBackupNorState) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  fs::rename(At("backup"), At("backup.partial"));
  fs::rename(At("backup.partial/BACKUP"), At("backup.partial/UNFINISHED"));
  EXPECT_EQ(Restore("backup.partial"), kExitNotDone);
  const std::string why(CheckIsNoBackup(At("backup.partial")).message());
  EXPECT_THAT(why, HasSubstr("is a backup that was not finished"));
  EXPECT_THAT(err_.str(), HasSubstr(why));
  for (const bool replay : {false, true}) {
    std::ostringstream out, err;
    EXPECT_EQ(audit::RunAudit({replay, At("backup.partial"), false}, out, err), audit::kExitNoAudit);
    EXPECT_THAT(err.str(), HasSubstr(why));
    EXPECT_EQ(out.str(), "");
  }
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_FALSE(fs::exists(At("backup/UNFINISHED")));
  EXPECT_TRUE(fs::exists(At("backup/BACKUP")));
}

TEST_F(BackupTest, ARestoreThatIsNotFinishedIsNoState) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  Put("new.partial/UNFINISHED", "A restore of there that was not finished.\n");
  const std::string why(CheckIsNoBackup(At("new.partial")).message());
  EXPECT_THAT(why,
              HasSubstr("is a restored state that was not finished; let 'atoll-coordinator restore' go on with it"));
  std::ostringstream out, err;
  EXPECT_EQ(audit::RunAudit({false, At("new.partial"), false}, out, err), audit::kExitNoAudit);
  EXPECT_THAT(err.str(), HasSubstr(why));
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  EXPECT_FALSE(fs::exists(At("new/UNFINISHED")) || fs::exists(At("new/BACKUP")));
  EXPECT_TRUE(fs::exists(At("new/RESTORED")));
  EXPECT_EQ(CheckIsNoBackup(At("new")), absl::OkStatus());
}

TEST_F(BackupTest, LogWithABrokenDurableFrameIsReportedAndNotCopied) {
  const auto ledger = OpenSqliteLedger(At("state/ledger.sqlite"));
  ASSERT_TRUE(ledger.ok());
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE((*ledger)->PutToken({.id = id}).ok());
  std::string log = Get("state/ledger.sqlite-wal");
  log[32 + 1000] = static_cast<char>(log[32 + 1000] ^ 1);
  Put("state/ledger.sqlite-wal", log);
  EXPECT_EQ(Backup(), kExitDamage);
  EXPECT_THAT(err_.str(), HasSubstr("ledger.sqlite-wal is damaged at offset 32"));
  EXPECT_FALSE(fs::exists(At("backup")));
}

TEST_F(BackupTest, ABrokenOffCopyIsGoneOnWith) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  fs::rename(At("backup"), At("backup.partial"));
  fs::remove(At("backup.partial/events/_fleet.jsonl"));
  Put("backup.partial/" + blob_, "sto");
  Put("backup.partial/ledger.sqlite-wal", "left over");
  Put("state/events/later.jsonl", "{}\n");
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_EQ(Verify("backup"), audit::kExitWell);
  EXPECT_EQ(Get("backup/events/later.jsonl"), "{}\n");
  EXPECT_FALSE(fs::exists(At("backup/ledger.sqlite-wal")));

  // Restores that were interrupted before, and after, the ledger moved to a new line.
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  fs::rename(At("new"), At("new.partial"));
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  EXPECT_EQ(Verify("new"), audit::kExitWell);
  EXPECT_EQ(BootOf("new"), kNow * kBootsPerLine + 1) << "the line was begun twice";
  EXPECT_FALSE(fs::exists(At("new/BACKUP")));
}

TEST_F(BackupTest, RemovedFilesAreNotInTheCopy) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  fs::rename(At("backup"), At("backup.partial"));
  fs::remove(At("state/events/_fleet.jsonl"));
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  EXPECT_FALSE(fs::exists(At("backup/events/_fleet.jsonl")));
}

TEST_F(BackupTest, AForeignDirectoryInTheWayIsLeftAlone) {
  Put("backup.partial/mine", "mine");
  EXPECT_EQ(Backup(), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("contains mine, which is not from a backup or restore; move it elsewhere\n"));
  EXPECT_EQ(Get("backup.partial/mine"), "mine");
  fs::remove_all(At("backup.partial"));
  const auto lock = LockDirectory(DataDirectory(At("backup.partial")));
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(Backup(), kExitNotDone);
  EXPECT_THAT(err_.str(), HasSubstr("another backup or restore is writing"));
}

TEST_F(BackupTest, APlaceThatMayNotBeWrittenToIsNamedAsThat) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  fs::permissions(root_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  for (const char* name : {"state", "backup"}) fs::permissions(At(name), fs::perms(0755));
  const int told = AsAnotherUser(root_, [this] {
    const auto denied = [this](const std::string& partial) {
      return err_.str().find("mkdir " + At(partial) + ": Permission denied; ") != std::string::npos;
    };
    if (Backup("state", "second") != kExitNotDone || !denied("second.partial")) return 1;
    return Restore() == kExitNotDone && denied("new.partial") ? 0 : 2;
  });
  fs::permissions(root_, fs::perms::owner_all);
  if (told < 0) GTEST_SKIP() << "no other user than root can be tried here";
  EXPECT_EQ(told, 0);
}

TEST_F(BackupTest, DamageIsReportedAndNotCopied) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  Put("backup/" + blob_, "other!");
  EXPECT_EQ(Restore(), kExitDamage);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr(blob_), HasSubstr("does not have the SHA-256 that BACKUP names")));
  EXPECT_FALSE(fs::exists(At("new")));
  Put("state/" + blob_, "other!");
  EXPECT_EQ(Backup("state", "second"), kExitDamage);
  EXPECT_THAT(err_.str(), HasSubstr("is damaged, and no copy was kept"));
  EXPECT_FALSE(fs::exists(At("second")) || fs::exists(At("second.partial")));
}

// An event log, or an old checkpoint. If that were an error, every later backup would fail, and a
// usable state would have none.
TEST_F(BackupTest, DamageNotNeededForAStartIsReportedAndCopied) {
  Put("state/events/audit/0000000000.jsonl", "not a line of the log\n");
  ASSERT_EQ(Verify("state"), audit::kExitDamage);
  EXPECT_EQ(Backup(), kExitDamage);
  EXPECT_THAT(err_.str(),
              AllOf(HasSubstr("events/audit/0000000000.jsonl"), HasSubstr("the copy was kept with this damage")));
  EXPECT_EQ(Get("backup/" + blob_), content_);
  EXPECT_EQ(Restore(), kExitDamage);
  EXPECT_EQ(BootOf("new"), kNow * kBootsPerLine + 1) << "a whole state, but for that";
  Put("state/" + blob_, "other!");
  EXPECT_EQ(Backup("state", "second"), kExitDamage);
  EXPECT_FALSE(fs::exists(At("second")));
}

TEST_F(BackupTest, ACoordinatorDoesNotRunOnABackup) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  EXPECT_TRUE(CheckIsNoBackup(At("state")).ok());
  EXPECT_TRUE(CheckIsNoBackup(At("new")).ok());
  EXPECT_THAT(std::string(CheckIsNoBackup(At("backup")).message()), HasSubstr("restore --from"));
}

// An interrupted restore left directories of a job that the backup does not have.
TEST_F(BackupTest, DirectoriesWithoutFilesAreNoDamage) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  Put("new.partial/BACKUP", Get("backup/BACKUP"));
  Put("new.partial/LOCK", "");
  fs::create_directories(At("new.partial/jobs/x/rounds/e0000000000/f00000"));
  ASSERT_EQ(Restore(), kExitDone) << err_.str();
  EXPECT_EQ(Verify("new"), audit::kExitWell);
}

// exFAT, vfat, CIFS.
class WithoutLinks final : public ForwardedFiles {
 public:
  using ForwardedFiles::ForwardedFiles;
  absl::Status HardLink(const std::string&, const std::string&) override {
    return absl::PermissionDeniedError("link: Operation not permitted");
  }
};

TEST_F(BackupTest, WhereNothingCanBeLinkedItIsCopied) {
  const std::string snapshot = "jobs/j/snapshots/e0/f0/v1.snap", checkpoint = "jobs/j/checkpoints/0/f0.snap";
  Put("state/" + snapshot, "parameters");
  Put("state/" + checkpoint, "parameters");
  const Sha256 hash = Sha256Of(AsBytes(std::string("parameters")));
  WithoutLinks files(MakePosixFiles());
  const Manifest manifest{.state_dir = "", .wall_s = 0, .bytes = 0, .files = {{snapshot, hash}, {checkpoint, hash}}};
  ASSERT_TRUE(CopyFiles(files, manifest, At("state"), At("copy")).ok());
  EXPECT_EQ(Get("copy/" + checkpoint), "parameters");
  EXPECT_FALSE(fs::equivalent(At("copy/" + snapshot), At("copy/" + checkpoint)));
}

TEST_F(BackupTest, ACheckpointStaysALinkToItsSnapshot) {
  ASSERT_EQ(Backup(), kExitDone) << err_.str();
  const std::string snapshot = "jobs/j/snapshots/e0/f0/v1.snap", checkpoint = "jobs/j/checkpoints/0/f0.snap";
  Put("state/" + snapshot, "parameters");
  fs::create_directories(At("state/jobs/j/checkpoints/0"));
  fs::create_hard_link(At("state/" + snapshot), At("state/" + checkpoint));
  const Sha256 hash = Sha256Of(AsBytes(std::string("parameters")));
  const std::unique_ptr<Files> files = MakePosixFiles();
  const Manifest manifest{.state_dir = "", .wall_s = 0, .bytes = 0, .files = {{snapshot, hash}, {checkpoint, hash}}};
  ASSERT_TRUE(CopyFiles(*files, manifest, At("state"), At("copy")).ok());
  EXPECT_EQ(Get("copy/" + checkpoint), "parameters");
  EXPECT_TRUE(fs::equivalent(At("copy/" + snapshot), At("copy/" + checkpoint)));
}

}  // namespace
}  // namespace atl::backup
