// SPDX-License-Identifier: Apache-2.0
// For harnesses: the bulk connection of a worker to the coordinator that currently lives. When that
// coordinator dies, every pending call fails with Unavailable, as after a socket reset, and later
// answers are dropped. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_REROUTING_BULK_H_
#define ATOLL_TESTS_SIM_REROUTING_BULK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/bulk.h"

namespace atl {

class ReroutingBulk final : public BulkHandler {
 public:
  using Refusal = std::function<void(const ContributionHeader& header, const absl::Status& why)>;
  // Contributions reported to the worker as accepted are added to `acknowledged`, which outlives
  // this. `impossible` receives those that the coordinator refuses with INVALID_ARGUMENT.
  explicit ReroutingBulk(std::vector<ContributionHeader>& acknowledged, Refusal impossible = nullptr);
  ~ReroutingBulk() override;

  int refusals = 0;     // remaining uploads to refuse permanently
  int corruptions = 0;  // remaining frames to corrupt
  int spoils = 0;       // remaining downloads to corrupt without notice by the transfer
  bool dead = false;    // the worker's process has ended

  // Connects to this coordinator; null: to none.
  void Lead(BulkHandler* handler);
  bool cut() const;

  std::shared_ptr<UploadHandler> NewUpload(std::string peer) override;
  void OnDownload(DownloadRequest request, DownloadReply reply) override;
  void OnMissingBlobs(std::vector<Sha256> blobs,
                      std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override;

 private:
  struct Wire;
  class Upload;
  class Source;
  // A `reply` for a handler. It is called once: by the handler, or when the coordinator dies.
  template <typename Result>
  static std::function<void(Result)> Answered(const std::shared_ptr<Wire>& wire, std::function<void(Result)> reply);
  const std::shared_ptr<Wire> wire_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_REROUTING_BULK_H_
