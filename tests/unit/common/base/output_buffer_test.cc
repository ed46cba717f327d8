// SPDX-License-Identifier: Apache-2.0
#include "common/base/output_buffer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>

#include "common/base/descriptor.h"

namespace atl {
namespace {

TEST(OutputBuffer, WaitsForItsReaderAndReportsIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  ASSERT_EQ(::fcntl(writer.get(), F_SETFL, O_NONBLOCK), 0);  // as some parents leave it
  OutputBuffer buffer(writer.get());
  const std::string text(1 << 20, 'x');
  std::jthread writing([&] {
    std::ostream out(&buffer);
    out << text << std::flush;
    EXPECT_TRUE(out.good());
    writer.Close();
  });
  while (!buffer.stalled()) std::this_thread::yield();
  size_t read = 0;
  std::array<char, 65536> piece{};
  for (ssize_t n = 0; (n = ::read(reader.get(), piece.data(), piece.size())) > 0;) read += static_cast<size_t>(n);
  EXPECT_EQ(read, text.size());
  EXPECT_FALSE(buffer.stalled());
}

TEST(OutputBuffer, ResultsThatCannotBeWrittenAreAFailure) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  OutputBuffer buffer(full.get());
  std::ostream out(&buffer);
  std::ostringstream talk;
  out << "result\n";
  EXPECT_EQ(FinishOutput(out, talk, "program", 0, 7), 7);
  EXPECT_EQ(talk.str(), "program: the results could not be written to standard output\n");
  EXPECT_EQ(FinishOutput(out, talk, "program", 2, 7), 2) << "the first failure counts";
}

TEST(OutputBuffer, NothingToWriteIsNoFailure) {
  OutputBuffer buffer(-1);
  std::ostream out(&buffer);
  std::ostringstream talk;
  EXPECT_EQ(FinishOutput(out, talk, "program", 0, 7), 0);
}

TEST(OutputBufferDeathTest, EndsQuietlyWhenTheReaderHasGone) {
  EXPECT_EXIT(
      {
        signal(SIGPIPE, SIG_IGN);
        int ends[2];
        (void)!::pipe(ends);
        ::dup2(ends[1], STDOUT_FILENO);
        ::close(ends[0]);
        OutputBuffer buffer(STDOUT_FILENO);
        std::ostream(&buffer) << "result\n" << std::flush;
        std::exit(0);
      },
      testing::KilledBySignal(SIGPIPE), "^$");
}

}  // namespace
}  // namespace atl
