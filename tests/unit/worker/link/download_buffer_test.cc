// SPDX-License-Identifier: Apache-2.0
#include "worker/link/download_buffer.h"

#include <gtest/gtest.h>

#include <string>

namespace atl {
namespace {

DownloadHeader HeaderOf(const std::string& content, uint64_t version) {
  return {.total_bytes = content.size(),
          .version = {version},
          .hash = {},
          .codec = CodecKind::kFp32,
          .digest = DigestOf(AsBytes(content))};
}

TEST(DownloadBuffer, KnowsTheDigestOverSeveralConversations) {
  const std::string content = "what one conversation begins another ends";
  DownloadBuffer buffer(100, std::make_shared<BufferShelf>(1));
  ASSERT_EQ(buffer.OnHeader(HeaderOf(content, 3)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(content).first(10)), absl::OkStatus());
  buffer.PrepareResume(Version{});
  EXPECT_EQ(buffer.size(), 10u);
  ASSERT_EQ(buffer.OnHeader(HeaderOf(content, 3)), absl::OkStatus());
  EXPECT_FALSE(buffer.complete());
  ASSERT_EQ(buffer.OnBytes(10, AsBytes(content).subspan(10)), absl::OkStatus());
  EXPECT_TRUE(buffer.complete());
  EXPECT_TRUE(buffer.intact());
  EXPECT_EQ(buffer.Take()->size(), content.size());
}

TEST(DownloadBuffer, BytesOfAnotherDigestAreNotIntact) {
  DownloadBuffer buffer(100, std::make_shared<BufferShelf>(1));
  ASSERT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("abXd"))), absl::OkStatus());
  EXPECT_TRUE(buffer.complete());
  EXPECT_FALSE(buffer.intact());
  buffer.Clear();
  EXPECT_EQ(buffer.size(), 0u);
  ASSERT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("abcd"))), absl::OkStatus());
  EXPECT_TRUE(buffer.intact());
}

TEST(DownloadBuffer, RestartsIfAnotherVersionIsServed) {
  DownloadBuffer buffer(100, std::make_shared<BufferShelf>(1));
  ASSERT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("ab"))), absl::OkStatus());
  EXPECT_EQ(buffer.OnHeader(HeaderOf("efghi", 4)).code(), absl::StatusCode::kAborted);
  buffer.PrepareResume(Version{});
  EXPECT_EQ(buffer.size(), 0u);
  ASSERT_EQ(buffer.OnHeader(HeaderOf("efghi", 4)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("efghi"))), absl::OkStatus());
  EXPECT_TRUE(buffer.intact());
}

// As after a rollback: a fragment has no digest except its content hash.
TEST(DownloadBuffer, RestartsIfTheVersionHasAnotherHash) {
  DownloadBuffer buffer(100, std::make_shared<BufferShelf>(1));
  DownloadHeader header{.total_bytes = 4, .version = {3}, .hash = {1, 2}, .codec = CodecKind::kFp32, .digest = {}};
  ASSERT_EQ(buffer.OnHeader(header), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("ab"))), absl::OkStatus());
  header.hash = {1, 3};
  EXPECT_EQ(buffer.OnHeader(header).code(), absl::StatusCode::kAborted);
  buffer.PrepareResume(Version{});
  EXPECT_EQ(buffer.size(), 0u);
}

TEST(DownloadBuffer, RestartsIfANewerVersionIsWanted) {
  DownloadBuffer buffer(100, std::make_shared<BufferShelf>(1));
  ASSERT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)), absl::OkStatus());
  ASSERT_EQ(buffer.OnBytes(0, AsBytes(std::string("ab"))), absl::OkStatus());
  buffer.PrepareResume(Version{3});
  EXPECT_EQ(buffer.size(), 2u);
  buffer.PrepareResume(Version{4});
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)).code(), absl::StatusCode::kNotFound);
}

TEST(DownloadBuffer, RefusesWhatDoesNotFit) {
  DownloadBuffer buffer(4, std::make_shared<BufferShelf>(1));
  EXPECT_EQ(buffer.OnHeader(HeaderOf("efghi", 4)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(buffer.OnHeader(HeaderOf("abcd", 3)), absl::OkStatus());
  EXPECT_EQ(buffer.OnBytes(1, AsBytes(std::string("a"))).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(buffer.OnBytes(0, AsBytes(std::string("abcde"))).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace atl
