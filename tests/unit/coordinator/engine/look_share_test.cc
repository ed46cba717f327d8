// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/look_share.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr Instant kBegin{Seconds(1000).ns};

// The time that looks of this length take within `all` if one waits at all times.
Duration Taken(Duration length, Duration all) {
  LookShare share;
  Duration taken{};
  for (Instant now = kBegin; now < kBegin + all; now = std::max(now, share.opens())) {
    EXPECT_TRUE(share.Open(now));
    now = now + length;
    taken = taken + length;
    share.Took(length, now);
  }
  return taken;
}

// S36.
TEST(LookShare, TheyTakeAQuarterOfTheTimeWhateverTheirLength) {
  const Duration all = Seconds(100);
  for (const Duration length : {Nanoseconds(100'000), Milliseconds(1), Milliseconds(7), LookShare::kMost}) {
    const Duration taken = Taken(length, all);
    EXPECT_LE(taken.ns, (all / LookShare::kOneIn + LookShare::kAtOnce + length * 2).ns) << length.ns;
    EXPECT_GE(taken.ns, (all / (LookShare::kOneIn + 2)).ns) << length.ns;
  }
}

TEST(LookShare, AfterAPauseSomeComeAtOnceAndNothingMoreIsSavedUp) {
  LookShare share;
  for (const Instant begin : {kBegin, kBegin + Seconds(3600)}) {
    Instant now = begin;
    for (; share.Open(now); now = now + Milliseconds(1)) share.Took(Milliseconds(1), now + Milliseconds(1));
    EXPECT_GE((now - begin).ns, LookShare::kAtOnce.ns);
    EXPECT_LE((now - begin).ns, 2 * LookShare::kAtOnce.ns);
  }
}

TEST(LookShare, ALookDuringWhichTheProcessStoodStillDelaysTheNextByLittle) {
  LookShare share;
  share.Took(Seconds(3600), kBegin);
  EXPECT_FALSE(share.Open(kBegin));
  EXPECT_LE((share.opens() - kBegin).ns, (LookShare::kMost * LookShare::kOneIn).ns);
}

}  // namespace
}  // namespace atl
