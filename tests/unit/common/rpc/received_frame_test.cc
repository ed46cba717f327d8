// SPDX-License-Identifier: Apache-2.0
// S37: the memory of a received message is freed inside gRPC's execution context, on any thread.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/rpc/bulk_frames.h"
#include "common/wire/frame.h"

// gRPC's execution context of the calling thread, grpc_core::ExecCtx::exec_ctx_; null: none. The installed headers do
// not declare it. Code that frees memory of a used-up quota follows this pointer.
extern __thread const void* context_of_this_thread __asm__("_ZN9grpc_core7ExecCtx9exec_ctx_E");

namespace atl {
namespace {

// A message in pieces that note where they are freed, as pieces counted against a quota would be.
class Watched {
 public:
  Watched(const std::string& message, size_t piece_bytes) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < message.size(); at += piece_bytes) {
      Piece& piece = pieces_.emplace_back(Piece{message.substr(at, piece_bytes)});
      slices.emplace_back(piece.bytes.data(), piece.bytes.size(), Freed, &piece);
    }
    buffer = grpc::ByteBuffer(slices.data(), slices.size());
  }
  // For each piece "in" or "out" of a context, nothing while it is held; and a full stop.
  std::string Where() const {
    std::string all;
    for (const Piece& piece : pieces_) all.append(piece.freed).append(".");
    return all;
  }

  grpc::ByteBuffer buffer;

 private:
  struct Piece {
    std::string bytes;
    const char* freed = "";
  };
  static void Freed(void* piece) {
    static_cast<Piece*>(piece)->freed = context_of_this_thread != nullptr ? "in" : "out";
  }

  std::deque<Piece> pieces_;
};

std::string PayloadFrame(const std::string& payload) {
  const FramePrefix prefix = EncodeFramePrefix(0, Crc32c(0, AsBytes(payload)), true, payload.size());
  return std::string(reinterpret_cast<const char*>(prefix.bytes().data()), prefix.size) + payload;
}

TEST(ReceivedFrameTest, FreesItsMemoryInAContextOfGrpc) {
  const std::string payload(5000, 'p');
  Watched message(PayloadFrame(payload), 2000);
  FrameReceiver frames;
  std::shared_ptr<const ReceivedFrame> frame = *frames.Read(message.buffer);
  message.buffer.Clear();
  EXPECT_EQ(message.Where(), "...") << "freed while the frame is in use";
  std::string read;
  for (const Bytes& piece : PayloadOf(frame).pieces) {
    read.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  EXPECT_EQ(read, payload);
  EXPECT_EQ(context_of_this_thread, nullptr);
  std::thread([last = std::move(frame)]() mutable { last.reset(); }).join();
  EXPECT_EQ(message.Where(), "in.in.in.");
}

TEST(ReceivedFrameTest, FreesWhatIsNoFrame) {
  Watched message(PayloadFrame(std::string(100, 'p')) + "\x0f" + std::string(100, 'x'), 30);
  FrameReceiver frames;
  EXPECT_FALSE(frames.Read(message.buffer).ok());
  message.buffer.Clear();
  EXPECT_EQ(message.Where().find("out"), std::string::npos) << message.Where();
  EXPECT_EQ(message.Where().find(".."), std::string::npos) << message.Where();
}

TEST(ReceivedFrameTest, FreesAHeader) {
  Watched message(EncodeHeaderFrame(std::string(5000, 'h')), 2000);
  EXPECT_EQ(*ReadHeaderFrame(message.buffer), std::string(5000, 'h'));
  message.buffer.Clear();
  EXPECT_EQ(message.Where(), "in.in.in.");
}

TEST(ReceivedFrameTest, RefusesNoMessage) {
  grpc::ByteBuffer none;
  FrameReceiver frames;
  EXPECT_TRUE(absl::IsInvalidArgument(frames.Read(none).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadHeaderFrame(none).status()));
}

}  // namespace
}  // namespace atl
