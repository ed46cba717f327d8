#include "common/trust/secret_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

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
  IdentityFile mixed = *issued;
  mixed.key_pem = IssueIdentity(authority, {Role::kAdmin, "eve", ""}, kNow_s)->key_pem;
  for (const IdentityFile& wrong : {mixed, IdentityFile{issued->key_pem, issued->certificate_pem, ""},
                                    IdentityFile{"", issued->certificate_pem, issued->authority_pem}}) {
    ASSERT_TRUE(WriteIdentityFile(path, wrong).ok());
    EXPECT_EQ(ReadIdentityFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(SecretFilesTest, AFileOfAnotherKindIsNotToldToBeKeptSecret) {
  const std::string path = directory_ + "/job.yaml";
  ASSERT_TRUE(WriteSecretFile(path, "kind: TrainingJob\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const absl::Status status = ReadIdentityFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find(path + " is not an identity file"), std::string::npos) << status;
}

}  // namespace
}  // namespace atl
