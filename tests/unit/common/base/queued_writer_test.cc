// SPDX-License-Identifier: Apache-2.0
#include "common/base/queued_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/descriptor.h"

namespace atl {
namespace {

constexpr Duration kForever = Seconds(60);  // timeout of steps that are immediate

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
    room = static_cast<size_t>(::fcntl(ends[1], F_SETPIPE_SZ, 16384));
  }
  // Reads up to and including `last`.
  std::string ReadTo(const std::string& last) const {
    std::string all;
    while (all.find(last) == std::string::npos) {
      std::array<char, 4096> piece{};
      const ssize_t n = ::read(reader.get(), piece.data(), piece.size());
      if (n <= 0) return all + " (no more)";
      all.append(piece.data(), static_cast<size_t>(n));
    }
    return all;
  }
  Descriptor reader, writer;
  size_t room = 0;
};

TEST(QueuedWriter, WritesLinesInOrder) {
  const Pipe pipe;
  QueuedWriter writer(pipe.writer.get());
  for (int i = 0; i < 100; ++i) writer.Write(absl::StrCat("line ", i, "\n"));
  EXPECT_TRUE(writer.Flush(kForever));
  EXPECT_EQ(writer.waiting(), 0u);
  std::string wanted;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&wanted, "line ", i, "\n");
  EXPECT_EQ(pipe.ReadTo("line 99\n"), wanted);
}

TEST(QueuedWriter, StalledReaderBlocksNoThreadAndLearnsItsLosses) {
  const Pipe pipe;
  constexpr size_t kMost = 32768;  // more than the pipe holds
  QueuedWriter writer(pipe.writer.get(), kMost);
  writer.ReportLossWith([](uint64_t lines) { return absl::StrCat("lost ", lines, "\n"); });
  const std::string line(99, 'x');
  constexpr size_t kLines = 1000;
  for (size_t i = 0; i < kLines; ++i) writer.Write(line + "\n");  // must return although the pipe is full
  EXPECT_FALSE(writer.Flush(Milliseconds(1)));
  EXPECT_GT(writer.waiting(), 0u);

  // The reader reads again: the loss is reported without another line.
  std::string read;
  size_t whole = 0, lost = 0;
  while (whole + lost < kLines) {
    read += pipe.ReadTo("\n");
    for (size_t end; (end = read.find('\n')) != std::string::npos; read.erase(0, end + 1)) {
      if (read.compare(0, end, line) == 0) ++whole;
      if (read.compare(0, 5, "lost ") == 0) lost += std::stoul(read.substr(5));
    }
  }
  EXPECT_EQ(whole + lost, kLines);
  EXPECT_GT(lost, 0u);
  EXPECT_GE(whole * (line.size() + 1), kMost / 2);
  EXPECT_LE(whole * (line.size() + 1), kMost + pipe.room + 4096);
  writer.Write("after\n");
  EXPECT_EQ(pipe.ReadTo("after\n"), "after\n");
}

TEST(QueuedWriter, NoLineFollowsTheLast) {
  const Pipe pipe;
  constexpr size_t kMost = 32;
  QueuedWriter writer(pipe.writer.get(), kMost);
  const std::string reason = std::string(2 * kMost, 'r') + "\n";  // more than the queue accepts otherwise
  EXPECT_TRUE(writer.WriteLast(reason, kForever));
  writer.Write("late\n");
  EXPECT_TRUE(writer.WriteLast("second reason\n", kForever));
  EXPECT_EQ(pipe.ReadTo(reason), reason);
  EXPECT_EQ(writer.waiting(), 0u);
}

TEST(QueuedWriter, EndsWhileItsReaderStalls) {
  const Pipe pipe;
  {
    QueuedWriter writer(pipe.writer.get());
    for (int i = 0; i < 400; ++i) writer.Write(std::string(99, 'x') + "\n");
    writer.Write("end\n");
  }
  EXPECT_EQ(pipe.ReadTo("end\n").size(), 400u * 100u + 4u);  // its thread continues once the pipe has space
}

TEST(QueuedWriter, FullDiskLosesLinesAndIsReported) {
  const Pipe pipe;
  Descriptor out(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.open());
  ASSERT_GE(::dup2(full.get(), out.get()), 0);
  QueuedWriter writer(out.get());
  writer.Write("one\n");
  writer.Write("two\n");
  ASSERT_TRUE(writer.Flush(kForever));
  ASSERT_GE(::dup2(pipe.writer.get(), out.get()), 0);
  writer.Write("three\n");
  ASSERT_TRUE(writer.Flush(kForever));
  const std::string read = pipe.ReadTo("three\n");
  EXPECT_NE(read.find("2 lines were lost"), std::string::npos) << read;
}

TEST(QueuedWriter, AReaderThatHasGoneIsNoFault) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.reader.Close();
  QueuedWriter writer(pipe.writer.get());
  writer.Write("nobody\n");
  EXPECT_TRUE(writer.Flush(kForever));
}

TEST(QueuedWriter, WaitsForANonBlockingDescriptor) {
  const Pipe pipe;
  ASSERT_EQ(::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK), 0);
  QueuedWriter writer(pipe.writer.get());
  for (int i = 0; i < 400; ++i) writer.Write(std::string(99, 'x') + "\n");
  writer.Write("end\n");
  EXPECT_EQ(pipe.ReadTo("end\n").size(), 400u * 100u + 4u);
}

TEST(QueuedBuffer, HandsAStreamToTheWriter) {
  const Pipe pipe;
  QueuedWriter writer(pipe.writer.get());
  QueuedBuffer buffer(writer);
  std::ostream stream(&buffer);
  stream << "a line of " << 3 << " parts" << '\n';
  EXPECT_EQ(pipe.ReadTo("\n"), "a line of 3 parts\n");
}

}  // namespace
}  // namespace atl
