// SPDX-License-Identifier: Apache-2.0
// Verdicts on links and jobs, and rates measured on a manual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/preflight/job_fit.h"
#include "common/preflight/link_rate.h"
#include "tests/support/manual_clock.h"

namespace atl {
namespace {

using testing::HasSubstr;

// Transfers at a fixed rate: returns immediately and advances the clock.
class RatedClient final : public BulkClient {
 public:
  RatedClient(ManualClock& clock, double bytes_per_second) : clock_(clock), rate_(bytes_per_second) {}
  std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) override {
    EXPECT_EQ(UploadBytes(header), source->size_bytes());
    const auto bytes = source->Read(0, static_cast<size_t>(source->size_bytes()));
    EXPECT_EQ(bytes->size(), source->size_bytes());
    return Move(source->size_bytes(), done);
  }
  std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink>, BulkDone done) override {
    worker = request.worker;
    return Move(std::get<Probe>(request.key).bytes, done);
  }
  void MissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)>) override {}
  void SetJobCaps(const BulkCaps&) override {}

  absl::Status status;
  WorkerId worker;
  std::vector<uint64_t> probes;

 private:
  std::unique_ptr<BulkCall> Move(uint64_t bytes, const BulkDone& done) {
    probes.push_back(bytes);
    clock_.Advance(Milliseconds(static_cast<int64_t>(1e3 * static_cast<double>(bytes) / rate_)));
    done({.status = status, .payload_bytes = bytes});
    return nullptr;
  }
  ManualClock& clock_;
  const double rate_;
};

TEST(LinkRate, ProbesGrowUntilOneTakesASecond) {
  ManualClock clock;
  RatedClient client(clock, 1.25e6);  // 10 Mbit/s
  EXPECT_NEAR(*MeasureUpload(client, clock), 1.25e6, 2e3);
  EXPECT_THAT(client.probes, testing::ElementsAre(256u << 10, 1u << 20, 4u << 20));
}

TEST(LinkRate, AFastLinkIsMeasuredWithTheLargestProbe) {
  ManualClock clock;
  RatedClient client(clock, 1.25e9);
  EXPECT_NEAR(*MeasureDownload(client, clock, "cpu-1"), 1.25e9, 5e7);
  EXPECT_EQ(client.probes.back(), limits::kProbeBytes);
  EXPECT_EQ(client.worker, WorkerId{"cpu-1"});
}

TEST(LinkRate, FailureIsReported) {
  ManualClock clock;
  RatedClient client(clock, 1e6);
  client.status = absl::DeadlineExceededError("a bulk transfer made no progress for 30 s");
  EXPECT_EQ(MeasureUpload(client, clock).status(), client.status);
  EXPECT_EQ(MeasureDownload(client, clock, "").status(), client.status);
}

// 25 M parameters, whole, fp32: 100 MB each way every 100 steps.
JobOffer Offer(std::optional<double> step_seconds) {
  JobOffer offer{.job = {"big"}, .spec = {}, .step_seconds = step_seconds};
  offer.spec.model.hidden_size = 512;
  offer.spec.model.heads = 8;
  offer.spec.sync.inner_steps = 100;
  ResolveDefaults(offer.spec, 32'768);
  return offer;
}

LinkCapacity At(double bits_per_second) { return {bits_per_second / 8, bits_per_second / 8, 0.01}; }

TEST(JobFit, AFastLinkIsGood) {
  const Finding finding = JudgeLink(Offer(0.5), At(10e9));
  EXPECT_EQ(finding.verdict, Verdict::kGood) << finding.sentence;
  EXPECT_THAT(finding.sentence, HasSubstr("big: "));
  EXPECT_THAT(finding.sentence, HasSubstr("every 100 steps"));
}

TEST(JobFit, ASlowLinkIsAWarningWithTheRateThatWouldDo) {
  const Finding finding = JudgeLink(Offer(0.5), At(20e6));
  EXPECT_EQ(finding.verdict, Verdict::kWarning) << finding.sentence;
  EXPECT_THAT(finding.sentence, HasSubstr("% of the time; for 95 % it needs "));
  EXPECT_THAT(finding.sentence, HasSubstr("bit/s upwards"));
}

TEST(JobFit, WithoutAStepTimeReportsTheShortestFit) {
  const Finding slow = JudgeLink(Offer({}), At(20e6));
  EXPECT_EQ(slow.verdict, Verdict::kGood);
  EXPECT_THAT(slow.sentence, HasSubstr("no step was measured yet: with steps of "));
  // Twice the rate halves it.
  const auto seconds = [](const std::string& text) {
    const std::string before = "with steps of ";
    return std::stod(text.substr(text.find(before) + before.size()));
  };
  EXPECT_NEAR(seconds(slow.sentence) / seconds(JudgeLink(Offer({}), At(40e6)).sentence), 2, 0.1);
}

// 25 M parameters: 0.9 GiB with every fragment in flight, half of it on a GPU if there is one.
TEST(JobFit, MemoryIsJudgedWithoutAndWithAGpu) {
  const Finding fits = JudgeMemory(Offer({}), uint64_t{8} << 30);
  EXPECT_EQ(fits.verdict, Verdict::kGood) << fits.sentence;
  EXPECT_THAT(fits.sentence, HasSubstr("big needs "));
  EXPECT_THAT(fits.sentence, HasSubstr("and activations; 8 GiB are free on this machine"));
  const Finding takes_a_gpu = JudgeMemory(Offer({}), uint64_t{600} << 20);
  EXPECT_EQ(takes_a_gpu.verdict, Verdict::kWarning);
  EXPECT_THAT(takes_a_gpu.sentence, HasSubstr("0.586 GiB are free on this machine: use a GPU"));
  const Finding too_small = JudgeMemory(Offer({}), uint64_t{10} << 20);
  EXPECT_EQ(too_small.verdict, Verdict::kWarning);
  EXPECT_THAT(too_small.sentence, HasSubstr(": use a machine with more memory"));
}

TEST(JobFit, RatesInTheirUnits) {
  EXPECT_EQ(BitRateText(1.25e6), "10 Mbit/s");
  EXPECT_EQ(BitRateText(1.25e9), "10 Gbit/s");
  EXPECT_EQ(BitRateText(125), "1 kbit/s");
}

TEST(Findings, ALineDoesNotSteerTheTerminal) {
  EXPECT_EQ(FindingLine({Verdict::kWarning, "clock", "a\x1b[2Jb\nc"}), "warning  clock        a?[2Jb?c");
}

}  // namespace
}  // namespace atl
