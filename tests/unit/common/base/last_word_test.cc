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

}  // namespace
}  // namespace atl
