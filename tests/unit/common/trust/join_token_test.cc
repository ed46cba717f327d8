// SPDX-License-Identifier: Apache-2.0
#include "common/trust/join_token.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;

Sha256 SomeAuthority() { return Sha256Of(AsBytes(std::string("authority"))); }
NewToken Made(uint32_t uses = 1) {
  return *MakeToken(SomeAuthority(), {.role = Role::kWorker, .uses = uses, .create_s = kNow_s, .end_s = kNow_s + 60});
}

// The bytes documented in docs/formats/join-token.md.
TEST(JoinTokenTest, GoldenText) {
  JoinToken token;
  for (size_t i = 0; i < token.authority.bytes.size(); ++i) token.authority.bytes[i] = static_cast<uint8_t>(i);
  token.id = "a0a1a2a3a4a5a6a7";
  for (size_t i = 0; i < token.secret.bytes().size(); ++i) token.secret.bytes()[i] = static_cast<uint8_t>(0xf0 + i);
  const std::string text = "atoll1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-goaKjpKWmp_Dx8vP09fb3-Pn6-_z9_v_2bICj";
  EXPECT_EQ(PrintJoinToken(token), text);
  EXPECT_EQ(*ParseJoinToken(text), token);
  token.coordinator = "example.org:7070";
  token.name = "cpu-1";
  const std::string joined =
      "atoll1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-goaKjpKWmp_Dx8vP09fb3-Pn6-_z9_"
      "v9leGFtcGxlLm9yZzo3MDcwLCwsY3B1LTFnjMUC";
  EXPECT_EQ(PrintJoinToken(token), joined);
  EXPECT_EQ(*ParseJoinToken(joined), token);
}

// S13.
TEST(JoinTokenTest, EveryWrongLetterIsSeenAndTheTextNeverRepeated) {
  JoinToken token = Made().token;
  token.coordinator = "example.org:7070";
  token.enroll = "[2001:db8::7]:9";
  const std::string text = PrintJoinToken(token);
  ASSERT_EQ(*ParseJoinToken(text), token);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'x' ? 'y' : 'x';
    const absl::Status status = ParseJoinToken(wrong).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(std::string(status.message()).find(text.substr(40, 20)), std::string::npos);
  }
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(ParseJoinToken(text.substr(0, length)).status().code(), absl::StatusCode::kInvalidArgument) << length;
  }
  token.name = "cpu-1,more";
  EXPECT_FALSE(ParseJoinToken(PrintJoinToken(token)).ok()) << "a fifth field";
  for (const std::string& wrong : {text.substr(1), text.substr(0, text.size() - 1), text + "A", text + "=", " " + text,
                                   std::string("atoll1-"), std::string()}) {
    EXPECT_FALSE(ParseJoinToken(wrong).ok()) << wrong.size();
  }
}

TEST(JoinTokenTest, TwoAreNeverAlikeAndTheSecretIsNotKept) {
  const NewToken one = Made(), two = Made();
  EXPECT_NE(one.token.id, two.token.id);
  EXPECT_NE(one.token.secret, two.token.secret);
  EXPECT_EQ(one.record.secret_hash, SecretHash(one.token));
  EXPECT_EQ(one.record.id, one.token.id);
}

// S9, S10, S11.
TEST(JoinTokenTest, EachReasonForRefusalIsNamed) {
  const NewToken made = Made(2);
  const Secret<32> right = SecretHash(made.token);
  EXPECT_TRUE(CheckToken(made.record, right, Role::kWorker, "cpu-1", kNow_s).ok());
  const auto why = [&](TokenRecord record, const Secret<32>& hash, Role role, const std::string& name, int64_t now_s) {
    const absl::Status status = CheckToken(record, hash, role, name, now_s);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    return std::string(status.message());
  };
  TokenRecord changed = made.record;
  EXPECT_NE(why(changed, SecretHash(Made().token), Role::kWorker, "a", kNow_s).find("not known"), std::string::npos);
  EXPECT_NE(why(changed, right, Role::kWorker, "a", kNow_s + 61).find("expired at"), std::string::npos);
  EXPECT_NE(why(changed, right, Role::kAdmin, "a", kNow_s).find("for a worker, not for a admin"), std::string::npos);
  changed.used = 2;
  EXPECT_NE(why(changed, right, Role::kWorker, "a", kNow_s).find("2 uses"), std::string::npos);
  changed.revoked = true;
  EXPECT_NE(why(changed, right, Role::kWorker, "a", kNow_s).find("revoked"), std::string::npos);
  // The error does not reveal the token's state to a client without the secret.
  EXPECT_NE(why(changed, SecretHash(Made().token), Role::kWorker, "a", kNow_s).find("not known"), std::string::npos);
  TokenRecord named = made.record;
  named.name = "cpu-1";
  EXPECT_NE(why(named, right, Role::kWorker, "cpu-2", kNow_s).find("'cpu-1' only"), std::string::npos);
  named.name = "spot-*";
  EXPECT_TRUE(CheckToken(named, right, Role::kWorker, "spot-1", kNow_s).ok());
  for (const char* other : {"spot-", "spot", "a-spot-1", ""})
    EXPECT_FALSE(CheckToken(named, right, Role::kWorker, other, kNow_s).ok()) << other;
  EXPECT_NE(why(named, right, Role::kWorker, "cpu-2", kNow_s).find("that begin with 'spot-' only, and not for 'cpu-2'"),
            std::string::npos);
}

TEST(JoinTokenTest, NameOrPrefixIsAllowed) {
  for (const std::string& good : {std::string(), std::string("a"), std::string("spot-*"), std::string(48, 'a') + "*"})
    EXPECT_TRUE(IsAllowedNames(good)) << good;
  for (const std::string& bad : {std::string("*"), std::string("-*"), std::string("a**"), std::string("a*b"),
                                 std::string(49, 'a') + "*", std::string("A")})
    EXPECT_FALSE(IsAllowedNames(bad)) << bad;
}

}  // namespace
}  // namespace atl
