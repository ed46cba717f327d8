// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of uploads and downloads: checks the caller's rights, translates and forwards. The engine's
// core admits contributions to the round log, the blob store takes files, downloads only read. Thread-safe.
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
