// SPDX-License-Identifier: Apache-2.0
#include "common/trust/secret_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/another_user.h"

namespace atl {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;

class SecretFilesTest : public testing::Test {
 protected:
  SecretFilesTest() {
    std::string name = testing::TempDir() + "/trustXXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~SecretFilesTest() override { std::filesystem::remove_all(directory_); }
  mode_t Mode(const std::string& path) const {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }
  std::string directory_;
};

TEST_F(SecretFilesTest, OnlyTheOwnerReads) {
  const mode_t before = umask(0);
  const std::string path = directory_ + "/secret";
  ASSERT_TRUE(WriteSecretFile(path, "hello").ok());
  umask(before);
  EXPECT_EQ(Mode(path), mode_t{0600});
  EXPECT_EQ(*ReadSecretFile(path), "hello");
  ASSERT_TRUE(WriteSecretFile(path, "again").ok());
  EXPECT_EQ(*ReadSecretFile(path), "again");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const absl::Status open = ReadSecretFile(path).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(open.message()).find("chmod 600 " + path), std::string::npos) << open;
  EXPECT_EQ(ReadSecretFile(directory_ + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1) << "no temporary file is left";
}

// In a directory that other users may write, an existing key may be theirs.
TEST_F(SecretFilesTest, FilesOfAnotherUserAreRefused) {
  const std::string path = directory_ + "/secret";
  ASSERT_TRUE(WriteSecretFile(path, "hello").ok());
  EXPECT_EQ(*ReadOwnSecretFile(path), "hello");
  ASSERT_EQ(symlink(path.c_str(), (directory_ + "/link").c_str()), 0);
  EXPECT_EQ(ReadOwnSecretFile(directory_ + "/link").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadOwnSecretFile(directory_).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadOwnSecretFile(directory_ + "/none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(ReadOwnSecretFile(path).status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  if (::chown(path.c_str(), 1, 1) != 0) return;  // only root may give a file away
  EXPECT_EQ(ReadOwnSecretFile(path).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(*ReadSecretFile(path), "hello");
}

TEST_F(SecretFilesTest, APathIsTriedAndNothingIsLeft) {
  const std::string path = directory_ + "/secret";
  EXPECT_TRUE(TrySecretFile(path).ok()) << TrySecretFile(path);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  ASSERT_TRUE(WriteSecretFile(path, "hello").ok());
  EXPECT_TRUE(TrySecretFile(path).ok());
  EXPECT_EQ(*ReadSecretFile(path), "hello");
  const absl::Status nowhere = TrySecretFile(directory_ + "/nowhere/secret");
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(nowhere.message()).find("No such file"), std::string::npos) << nowhere;
  EXPECT_NE(std::string(TrySecretFile(directory_).message()).find("Is a directory"), std::string::npos);
}

// The error does not ask to change the mode of a file without a key.
TEST_F(SecretFilesTest, NonIdentityFileIsReported) {
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  for (const absl::Status& read : {ReadSecretFile(directory_).status(), ReadIdentityFile(directory_).status()}) {
    EXPECT_EQ(read.code(), absl::StatusCode::kFailedPrecondition) << "a worker would try it again for ever";
    EXPECT_NE(std::string(read.message()).find("Is a directory"), std::string::npos) << read;
  }
  const std::string path = directory_ + "/text";
  for (const size_t bytes : {size_t{10}, size_t{1} << 20}) {
    std::ofstream(path) << std::string(bytes, 'x');
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    const absl::Status read = ReadIdentityFile(path).status();
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << read;
    EXPECT_EQ(std::string(read.message()).find("chmod"), std::string::npos) << read;
  }
}

TEST_F(SecretFilesTest, AnAuthorityIsMadeOnce) {
  const std::string home = directory_ + "/trust";
  EXPECT_EQ(LoadAuthority(home).status().code(), absl::StatusCode::kNotFound);
  const auto made = CreateAuthority(home, kNow_s);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Mode(home), mode_t{0700});
  EXPECT_EQ(Mode(AuthorityKeyPath(home)), mode_t{0600});
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), made->fingerprint());
  EXPECT_EQ(CreateAuthority(home, kNow_s).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), made->fingerprint());
}

TEST_F(SecretFilesTest, ACertificateWithoutItsKeyIsNoAuthority) {
  ASSERT_TRUE(CreateAuthority(directory_, kNow_s).ok());
  std::filesystem::remove(AuthorityKeyPath(directory_));
  EXPECT_EQ(LoadAuthority(directory_).status().code(), absl::StatusCode::kNotFound);
  const auto made = CreateAuthority(directory_, kNow_s);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(LoadAuthority(directory_)->fingerprint(), made->fingerprint());
}

TEST_F(SecretFilesTest, ADirectoryThatMayNotBeReadIsNotAbsent) {
  const std::string home = directory_ + "/trust";
  ASSERT_TRUE(CreateAuthority(home, kNow_s).ok());
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(home.c_str(), geteuid() == 0 ? 0700 : 0), 0);
  const int told = AsAnotherUser(directory_, [&home] {
    const absl::Status loaded = LoadAuthority(home).status(), created = CreateAuthority(home, kNow_s).status();
    const bool why = loaded.message().find(AuthorityKeyPath(home) + ": Permission denied") != absl::string_view::npos;
    return absl::IsPermissionDenied(loaded) && absl::IsPermissionDenied(created) && why ? 0 : 1;
  });
  ASSERT_EQ(chmod(home.c_str(), 0700), 0);
  if (told < 0) GTEST_SKIP() << "no other user than root can be tried here";
  EXPECT_EQ(told, 0);
}

TEST_F(SecretFilesTest, AnAuthorityIsRotatedAndRetired) {
  const std::string home = directory_ + "/trust";
  EXPECT_EQ(RotateAuthority(home, kNow_s).status().code(), absl::StatusCode::kNotFound);
  const Authority first = *CreateAuthority(home, kNow_s);
  const absl::Status none = RetireAuthority(home).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(none.message()).find("has no previous authority to retire"), std::string::npos) << none;
  const auto rotated = RotateAuthority(home, kNow_s + 5);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(Mode(AuthorityKeyPath(home)), mode_t{0600});
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), rotated->fingerprint());
  EXPECT_NE(rotated->fingerprint(), first.fingerprint());
  EXPECT_GT(RetireAfter(*rotated), kNow_s + 5 + kUserLifetime_s);
  const absl::Status again = RotateAuthority(home, kNow_s).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(again.message()).find("stop trusting it with: atoll ca retire " + home), std::string::npos)
      << again;
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), rotated->fingerprint());
  ASSERT_TRUE(RetireAuthority(home).ok());
  EXPECT_FALSE(LoadAuthority(home)->is_rotated());
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), rotated->fingerprint());
  const auto at_once = RotateAuthority(home, kNow_s + 6, /*retire=*/true);
  ASSERT_TRUE(at_once.ok()) << at_once.status();
  EXPECT_FALSE(LoadAuthority(home)->is_rotated());
  EXPECT_EQ(LoadAuthority(home)->fingerprint(), at_once->fingerprint());
  EXPECT_EQ(LoadAuthority(home)->retired_until_s(), kNow_s + 6);
}

TEST_F(SecretFilesTest, AuthorityChangesAreExclusive) {
  const Authority authority = *CreateAuthority(directory_, kNow_s);
  const int fd = open(directory_.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  for (const absl::Status& refused :
       {RotateAuthority(directory_, kNow_s).status(), RetireAuthority(directory_).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(std::string(refused.message()).find("another 'atoll ca' command is running in"), std::string::npos)
        << refused;
  }
  close(fd);
  EXPECT_EQ(LoadAuthority(directory_)->fingerprint(), authority.fingerprint());
  EXPECT_TRUE(RotateAuthority(directory_, kNow_s).ok());
}

// After a crash between the two files the old authority is still the authority, and the next call
// starts again.
TEST_F(SecretFilesTest, AHalfRotationIsNone) {
  const Authority first = *CreateAuthority(directory_, kNow_s);
  ASSERT_TRUE(RotateAuthority(directory_, kNow_s).ok());
  ASSERT_TRUE(WriteSecretFile(AuthorityKeyPath(directory_), *first.key_pem()).ok());
  EXPECT_EQ(LoadAuthority(directory_)->fingerprint(), first.fingerprint());
  const auto rotated = RotateAuthority(directory_, kNow_s);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(ReadAuthorities(LoadAuthority(directory_)->certificates_pem())->size(), 2u) << "nothing of the first try";
}

TEST_F(SecretFilesTest, ARotationIsItsOwnersBusiness) {
  ASSERT_TRUE(CreateAuthority(directory_, kNow_s).ok());
  if (geteuid() != 0) GTEST_SKIP() << "a file of another user takes root to make";
  ASSERT_EQ(chown(AuthorityKeyPath(directory_).c_str(), 4711, static_cast<gid_t>(-1)), 0);
  for (const absl::Status& refused :
       {RotateAuthority(directory_, kNow_s).status(), RetireAuthority(directory_).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_NE(std::string(refused.message()).find("is owned by user 4711"), std::string::npos) << refused;
  }
}

TEST_F(SecretFilesTest, AnIdentityIsOneFile) {
  const Authority authority = *Authority::Create(kNow_s);
  const auto issued = IssueIdentity(authority, {Role::kAdmin, "eve", ""}, kNow_s);
  ASSERT_TRUE(issued.ok()) << issued.status();
  const std::string path = directory_ + "/eve.pem";
  ASSERT_TRUE(WriteIdentityFile(path, *issued).ok());
  const auto read = ReadIdentityFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key_pem, issued->key_pem);
  EXPECT_EQ(read->certificate_pem, issued->certificate_pem);
  EXPECT_EQ(read->authority_pem, authority.certificate_pem());
  const Authority rotated = *authority.Rotated(kNow_s);
  const auto later = IssueIdentity(rotated, {Role::kAdmin, "eve", ""}, kNow_s);
  ASSERT_TRUE(later.ok() && WriteIdentityFile(path, *later).ok());
  EXPECT_EQ(ReadIdentityFile(path)->certificate_pem, later->certificate_pem);
  EXPECT_EQ(ReadIdentityFile(path)->authority_pem, rotated.certificates_pem());
  IdentityFile mixed = *issued;
  mixed.key_pem = IssueIdentity(authority, {Role::kAdmin, "eve", ""}, kNow_s)->key_pem;
  for (const IdentityFile& wrong : {mixed, IdentityFile{issued->key_pem, issued->certificate_pem, ""},
                                    IdentityFile{"", issued->certificate_pem, issued->authority_pem}}) {
    ASSERT_TRUE(WriteIdentityFile(path, wrong).ok());
    EXPECT_EQ(ReadIdentityFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(SecretFilesTest, AProtectedIdentityIsReadWithItsPassphrase) {
  const Authority authority = *Authority::Create(kNow_s);
  const IdentityFile identity = *IssueIdentity(authority, {Role::kAdmin, "admin", ""}, kNow_s);
  const std::string path = directory_ + "/admin.pem";
  ASSERT_TRUE(WriteIdentityFile(path, identity, "correct horse").ok());
  EXPECT_EQ(Mode(path), mode_t{0600});
  const absl::Status daemon = ReadIdentityFile(path).status();
  EXPECT_EQ(daemon.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(daemon.message().find("a daemon needs an identity without a passphrase"), std::string::npos) << daemon;
  EXPECT_EQ(ReadIdentityFile(path, "correct horst").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadIdentityFile(path, "correct horse")->key_pem, identity.key_pem);
  EXPECT_EQ(ReadLockedIdentityFile(path)->certificate_pem, identity.certificate_pem);
  // Another key under the same passphrase.
  IdentityFile mixed = *IssueIdentity(authority, {Role::kAdmin, "eve", ""}, kNow_s);
  mixed.certificate_pem = identity.certificate_pem;
  ASSERT_TRUE(WriteIdentityFile(path, mixed, "correct horse").ok());
  EXPECT_EQ(ReadIdentityFile(path, "correct horse").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SecretFilesTest, OtherFilesGetNoAdviceOnSecrecy) {
  const std::string path = directory_ + "/job.yaml";
  ASSERT_TRUE(WriteSecretFile(path, "kind: TrainingJob\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const absl::Status status = ReadIdentityFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find(path + " is not an identity file"), std::string::npos) << status;
}

}  // namespace
}  // namespace atl
