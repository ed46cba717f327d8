#include "common/base/last_word.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace atl {
namespace {

TEST(LastWordDeathTest, AnAbortIsToldAndStaysOne) {
  EXPECT_EXIT(
      {
        TellOfAborts();
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^base_test: stopped by abort\\(\\)");
  EXPECT_EXIT(
      {
        TellOfAborts();
        ::kill(::getpid(), SIGABRT);
        std::exit(0);
      },
      testing::KilledBySignal(SIGABRT), "^base_test: stopped by abort\\(\\)")
      << "sent from outside";
}

#ifndef ATOLL_SANITIZED  // a sanitizer takes the signal itself
TEST(LastWordDeathTest, ASegmentationFaultIsToldAndStaysOne) {
  EXPECT_EXIT(
      {
        TellOfAborts();
        ::kill(::getpid(), SIGSEGV);
        std::exit(0);
      },
      testing::KilledBySignal(SIGSEGV), "^base_test: stopped by a segmentation fault");
}
#endif

}  // namespace
}  // namespace atl
