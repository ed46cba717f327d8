// SPDX-License-Identifier: Apache-2.0
// Bulk conversations. Contributions pass through the engine's core to the round log, files to the blob store;
// downloads read immutable sources only. Translates, checks the caller's rights and forwards. Thread-safe.
#ifndef ATOLL_COORDINATOR_SERVICE_BULK_SESSIONS_H_
#define ATOLL_COORDINATOR_SERVICE_BULK_SESSIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/bulk.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/engine/engine.h"

namespace atl {

class BulkSessions final : public BulkHandler {
 public:
  BulkSessions(Engine& engine, DataPlane& data) : engine_(engine), data_(data) {}
  std::shared_ptr<UploadHandler> NewUpload(std::string peer) override;
  void OnDownload(DownloadRequest request, DownloadReply reply) override;
  void OnMissingBlobs(std::vector<Sha256> blobs,
                      std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override;

 private:
  Engine& engine_;
  DataPlane& data_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_BULK_SESSIONS_H_
