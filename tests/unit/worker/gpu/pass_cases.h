// SPDX-License-Identifier: Apache-2.0
// Test cases for the kernels of a pass, on a card and on the host: compared with the formulas in
// double precision, at aligned and odd addresses, rows and strides, one at a time, with no write
// beyond the end of a range.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_PASS_CASES_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_PASS_CASES_H_

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/held_values.h"
#include "worker/device/pass_kernels.h"

namespace atl::pass_cases {

struct Scores {
  int32_t type = ATOLL_GPU_TYPE_FP32;
  size_t rows = 3, vocab = 1, shift = 0;
  double z_loss = 0;
  bool gradients = true;
};

inline void ExpectJudgedOnce(Place& place, const Scores& c) {
  constexpr double kScale = 0.25;
  const std::string what = absl::StrCat("type ", c.type, ", ", c.rows, " x ", c.vocab, ", shift ", c.shift);
  const Held scores(place, c.type, Spread(c.vocab, c.rows * c.vocab, 9), c.shift);
  const Held losses(place, ATOLL_GPU_TYPE_FP32, std::vector<double>(c.rows));
  std::vector<int64_t> targets(c.rows);
  for (size_t row = 0; row < c.rows; ++row) targets[row] = static_cast<int64_t>((row * 7919 + c.vocab - 1) % c.vocab);
  const void* const of_rows = place.Put(std::as_bytes(std::span(targets)));
  ASSERT_TRUE(place.kernels()
                  .Judge({c.type, c.gradients ? 1 : 0, scores.data(), static_cast<const int64_t*>(of_rows),
                          static_cast<float*>(losses.data()), c.rows, c.vocab, kScale, static_cast<float>(c.z_loss)})
                  .ok());
  std::vector<double> wanted_losses, wanted;
  for (size_t row = 0; row < c.rows; ++row) {
    const auto of = [&](size_t i) { return scores[row * c.vocab + i]; };
    double sum = 0;
    for (size_t i = 0; i < c.vocab; ++i) sum += std::exp(of(i));
    const double log_sum = std::log(sum);
    const auto target = static_cast<size_t>(targets[row]);
    wanted_losses.push_back(log_sum - of(target));
    for (size_t i = 0; i < c.vocab; ++i) {
      const double p = std::exp(of(i) - log_sum);
      wanted.push_back(c.gradients ? kScale * (p * (1 + 2 * c.z_loss * log_sum) - (i == target ? 1 : 0)) : of(i));
    }
  }
  ExpectNear(losses.Now(), wanted_losses, 0, 2e-5, what + ", losses");
  ExpectNear(scores.Now(), wanted, c.gradients ? SlackOf(c.type) : 0, c.gradients ? 1e-6 : 0, what);
}

// `most_rows`: more than a launch has blocks of threads, if the place is fast enough.
inline void ExpectJudged(Place& place, size_t most_rows = 3) {
  for (const int32_t type : kTypes) {
    for (const size_t vocab : std::initializer_list<size_t>{1, 7, 8, 64, 1003, 2048, 4104, 20008, 20011}) {
      ExpectJudgedOnce(place, {.type = type, .vocab = vocab, .z_loss = vocab % 3 == 0 ? 1e-3 : 0});
    }
    ExpectJudgedOnce(place, {.type = type, .vocab = 264, .shift = 1});
    ExpectJudgedOnce(place, {.type = type, .vocab = 264, .gradients = false});
    ExpectJudgedOnce(place, {.type = type, .rows = most_rows, .vocab = 24});
  }
}

// A non-finite score in any lane; impossible scores are ignored.
inline void ExpectNotFinite(Place& place) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr size_t kVocab = 2048;
  const std::array<int64_t, 1> target = {3};
  const auto* const of_row = static_cast<const int64_t*>(place.Put(std::as_bytes(std::span(target))));
  const Held loss(place, ATOLL_GPU_TYPE_FP32, {0});
  const auto judged = [&](const Held& scores, int32_t type, size_t vocab) {
    EXPECT_TRUE(
        place.kernels().Judge({type, 1, scores.data(), of_row, static_cast<float*>(loss.data()), 1, vocab, 1, 0}).ok());
    return loss.Now()[0];
  };
  for (const int32_t type : kTypes) {
    for (const double bad : {kInfinite, kNan, -kInfinite}) {
      for (const size_t at : {size_t{0}, size_t{5}, size_t{2000}}) {
        std::vector<double> values(kVocab, 1.0);
        values[at] = bad;
        const Held scores(place, type, values);
        const double told = judged(scores, type, kVocab);
        const std::vector<double> gradients = scores.Now();
        if (bad < 0) {
          EXPECT_NEAR(told, std::log(2047.0), 1e-5) << at;
          EXPECT_EQ(gradients[at], 0) << at;
        } else {
          EXPECT_TRUE(std::isnan(told)) << bad << " at " << at << " makes " << told;
          for (const double g : gradients) ASSERT_TRUE(std::isnan(g)) << bad << " at " << at;
        }
      }
    }
    std::vector<double> values(64, -kInfinite);
    values[3] = 2;
    EXPECT_EQ(judged(Held(place, type, values), type, 64), 0.0);
  }
}

// Shifts of gates and ups, of the incoming gradient, and of the output.
inline void ExpectGatedOnce(Place& place, int32_t type, size_t rows, size_t width, std::array<size_t, 3> shifts = {}) {
  const std::string what =
      absl::StrCat("type ", type, ", ", rows, " x ", width, ", shifts ", shifts[0], shifts[1], shifts[2]);
  const Held in(place, type, Spread(width, rows * 2 * width, 6), shifts[0]);
  const Held above(place, type, Spread(width + 1, rows * width, 2), shifts[1]);
  const Held out(place, type, std::vector<double>(rows * width), shifts[2]);
  const Held back(place, type, std::vector<double>(rows * 2 * width), shifts[2]);
  const auto columns = static_cast<uint32_t>(width);
  ASSERT_TRUE(place.kernels().Gate({type, columns, rows, in.data(), nullptr, out.data()}).ok());
  ASSERT_TRUE(place.kernels().GateBack({type, columns, rows, in.data(), above.data(), back.data()}).ok());
  std::vector<double> wanted(rows * width), wanted_back(rows * 2 * width);
  for (size_t i = 0; i < rows * width; ++i) {
    const size_t first = i / width * 2 * width + i % width, second = first + width;
    const double g = in[first], u = in[second], s = 1 / (1 + std::exp(-g));
    wanted[i] = g * s * u;
    wanted_back[first] = above[i] * u * s * (1 + g * (1 - s));
    wanted_back[second] = above[i] * g * s;
  }
  ExpectNear(out.Now(), wanted, SlackOf(type), 1e-6, "SwiGLU, " + what);
  ExpectNear(back.Now(), wanted_back, SlackOf(type), 1e-5, "its gradient, " + what);
}

inline void ExpectGated(Place& place) {
  for (const int32_t type : kTypes) {
    for (const size_t width : std::initializer_list<size_t>{1, 5, 8, 24, 264}) ExpectGatedOnce(place, type, 3, width);
    for (const std::array<size_t, 3> shifts : {std::array<size_t, 3>{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}) {
      ExpectGatedOnce(place, type, 2, 16, shifts);
    }
    ExpectGatedOnce(place, type, 0, 16);
  }
}

// `apart`: elements between two heads, in addition to the head.
struct Turned {
  int32_t type = ATOLL_GPU_TYPE_FP32;
  uint32_t head_dim = 32;
  bool own_angles = false;
  size_t in_shift = 0, out_shift = 0, cosine_shift = 0, sine_shift = 0, in_apart = 0, out_apart = 0;
};

// Heads at a stride, rotated into separate memory, and back in place.
inline void ExpectTurnedOnce(Place& place, const Turned& c) {
  constexpr uint32_t kSequences = 2, kLength = 3, kHeads = 2, kAll = 5;
  const size_t head_dim = c.head_dim, half = head_dim / 2;
  const size_t rows = c.own_angles ? kSequences * kLength : kLength;
  const size_t in_head = head_dim + c.in_apart, out_head = head_dim + c.out_apart;
  const std::string what = absl::StrCat("type ", c.type, ", heads of ", head_dim, ", shifts ", c.in_shift, c.out_shift,
                                        c.cosine_shift, c.sine_shift, ", apart ", c.in_apart, " ", c.out_apart);
  const Held in(place, c.type, Spread(head_dim, kSequences * kLength * kAll * in_head, 3), c.in_shift);
  const Held out(place, c.type, std::vector<double>(kSequences * kLength * kHeads * out_head, 4), c.out_shift);
  const Held again(place, c.type, std::vector<double>(kSequences * kLength * kAll * in_head, 5), c.in_shift);
  std::vector<double> cosines = Spread(8, rows * half, 3), sines = cosines;
  for (double& x : cosines) x = std::cos(x);
  for (double& x : sines) x = std::sin(x);
  const Held cosine(place, c.type, cosines, c.cosine_shift), sine(place, c.type, sines, c.sine_shift);
  atoll_gpu_turning t = {c.type,        0,
                         kSequences,    kLength,
                         kHeads,        c.head_dim,
                         in.data(),     {kLength * kAll * in_head, kAll * in_head, in_head},
                         out.data(),    {kLength * kHeads * out_head, kHeads * out_head, out_head},
                         cosine.data(), sine.data(),
                         rows};
  ASSERT_TRUE(place.kernels().Turn(t).ok()) << what;
  const std::vector<double> made = out.Now();
  t.back = 1;
  t.in = out.data(), t.out = again.data();
  std::swap(t.in_strides, t.out_strides);
  ASSERT_TRUE(place.kernels().Turn(t).ok()) << what;
  const Held made_of(place, c.type, made);  // the rotation back, rounded like the kernel's
  std::vector<double> wanted(made.size(), 4), wanted_again(kSequences * kLength * kAll * in_head, 5);
  for (size_t row = 0; row < kSequences * kLength; ++row) {
    for (size_t head = 0; head < kHeads; ++head) {
      const size_t from = (row * kAll + head) * in_head, to = (row * kHeads + head) * out_head;
      for (size_t i = 0; i < half; ++i) {
        const size_t angle = (c.own_angles ? row : row % kLength) * half + i;
        const double x = in[from + i], y = in[from + half + i], co = cosine[angle], si = sine[angle];
        wanted[to + i] = x * co - y * si;
        wanted[to + half + i] = y * co + x * si;
        const double u = made_of[to + i], v = made_of[to + half + i];
        wanted_again[from + i] = u * co + v * si;
        wanted_again[from + half + i] = v * co - u * si;
      }
    }
  }
  ExpectNear(made, wanted, SlackOf(c.type), 1e-6, what);
  ExpectNear(again.Now(), wanted_again, SlackOf(c.type), 1e-6, what + ", turned back");
}

inline void ExpectTurned(Place& place) {
  for (const int32_t type : kTypes) {
    for (const uint32_t head_dim : {2u, 6u, 16u, 32u}) {
      ExpectTurnedOnce(place, {.type = type, .head_dim = head_dim, .own_angles = head_dim == 6});
    }
    ExpectTurnedOnce(place, {.type = type, .own_angles = true});
    for (size_t odd = 0; odd < 6; ++odd) {
      std::array<size_t, 6> by{};
      by[odd] = 1;
      ExpectTurnedOnce(place, {type, 32, false, by[0], by[1], by[2], by[3], by[4], by[5]});
    }
  }
}

}  // namespace atl::pass_cases

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_PASS_CASES_H_
