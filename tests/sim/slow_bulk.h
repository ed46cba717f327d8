// SPDX-License-Identifier: Apache-2.0
// A bulk client on a slow link. Each upload begins after the time that its bytes would take; each
// download is delayed. Uploads queue one after the other, and so do downloads.
#ifndef ATOLL_TESTS_SIM_SLOW_BULK_H_
#define ATOLL_TESTS_SIM_SLOW_BULK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/rpc/bulk.h"

namespace atl {

class SlowBulk final : public BulkClient {
 public:
  // Both outlive it.
  SlowBulk(BulkClient& fast, const Clock& clock) : fast_(fast), clock_(clock) {}

  uint64_t upload_bytes_per_second = 0;  // of later uploads; 0: no limit

  Duration download_takes{};  // of each later download

  // Begins the calls that are due. Returns when to call again.
  Instant Turn();

  std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) override;
  std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink> sink, BulkDone done) override;
  void MissingBlobs(std::vector<Sha256> blobs, std::function<void(absl::StatusOr<std::vector<Sha256>>)> done) override {
    fast_.MissingBlobs(std::move(blobs), std::move(done));
  }
  void SetJobCaps(const BulkCaps& caps) override { fast_.SetJobCaps(caps); }

 private:
  struct Pending;
  class Call;
  using Begin = std::function<std::unique_ptr<BulkCall>(BulkDone done)>;
  std::unique_ptr<BulkCall> BeginAt(Instant due, Begin begin, BulkDone done);
  BulkClient& fast_;
  const Clock& clock_;
  Instant up_free_at_{}, down_free_at_{};
  std::vector<std::weak_ptr<Pending>> pending_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SLOW_BULK_H_
