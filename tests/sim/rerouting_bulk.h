// SPDX-License-Identifier: Apache-2.0
// The bulk connection of a worker to whichever coordinator lives, for harnesses. When that dies, everything that waits
// for its answer hears Unavailable, as from a socket that is reset, and nothing reaches it any more. Not thread-safe.
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
  // Contributions that are reported to the worker as accepted are added to `acknowledged`, which outlives this.
  // `impossible` gets those that the coordinator calls INVALID_ARGUMENT.
  explicit ReroutingBulk(std::vector<ContributionHeader>& acknowledged, Refusal impossible = nullptr);
  ~ReroutingBulk() override;

  int refusals = 0;     // uploads still to be refused for good
  int corruptions = 0;  // frames still to arrive with other bytes
  int spoils = 0;       // downloads still to come with other bytes, which the transfer does not see
  bool dead = false;    // the worker's process has ended

  // Null: no coordinator.
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
  // `reply` for a handler: it is called once, by the handler or by the death of its coordinator.
  template <typename Result>
  static std::function<void(Result)> Answered(const std::shared_ptr<Wire>& wire, std::function<void(Result)> reply);
  const std::shared_ptr<Wire> wire_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_REROUTING_BULK_H_
