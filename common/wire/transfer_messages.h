// SPDX-License-Identifier: Apache-2.0
// Messages of the bulk connection, except raw bytes, in domain form and as bytes of a frame's
// header field (proto/atoll/v1/transfer.proto). Parsing validates every name, length, enum and
// range. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_WIRE_TRANSFER_MESSAGES_H_
#define ATOLL_COMMON_WIRE_TRANSFER_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>

#include "atoll/v1/transfer.pb.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/messages.h"

namespace atl {

// Announces a file to store by its content hash.
struct BlobUpload {
  Sha256 sha256;
  uint64_t bytes = 0;
};
// Announces arbitrary bytes, to measure the link; at most limits::kProbeBytes.
struct Probe {
  uint64_t bytes = 0;
};
using UploadHeader = std::variant<ContributionUpload, BlobUpload, Probe>;
// Returns the announced size.
uint64_t UploadBytes(const UploadHeader& header);

// The coordinator's answers during an upload.
struct UploadStatus {
  uint64_t resume_offset_bytes = 0;  // verified prefix, from which the sender continues
  bool accepted = false;             // everything is durable (a probe: received); ends the conversation
};

// Keys of downloads.
struct UpdateKey {
  JobId job;
  FragmentVersion reached;
};
struct FragmentKey {
  JobId job;
  FragmentVersion at;  // version ignored when newest
  bool newest = false;
};
struct BlockKey {
  JobId job;
  Sha256 manifest;
  std::string shard;  // file name in the manifest: no '/', no leading '.'
  uint64_t block = 0;
};
struct BlobKey {
  Sha256 sha256;
};
struct CheckpointFragmentKey {
  JobId job;
  uint64_t step = 0;
  FragmentIndex fragment;
};
using DownloadKey = std::variant<UpdateKey, FragmentKey, BlockKey, BlobKey, CheckpointFragmentKey, Probe>;
struct DownloadRequest {
  DownloadKey key;
  uint64_t offset_bytes = 0;            // bytes that the receiver already has
  WorkerId worker;                      // the requesting worker, for its byte counters and cap; empty: not a worker
  uint64_t limit_bytes_per_second = 0;  // cap over everything sent to `worker`; 0: none
};

struct DownloadHeader {
  uint64_t total_bytes = 0;            // size of the whole object, whatever the requested offset
  Version version;                     // fragments and updates
  Digest hash;                         // fragments and updates: content hash at that version
  CodecKind codec = CodecKind::kFp32;  // updates
  Digest digest;                       // XXH3-128 of the whole; zero for blocks, files and probes
};

std::string SerializeUploadHeader(const UploadHeader& header);
absl::StatusOr<UploadHeader> ParseUploadHeader(const std::string& bytes);
std::string SerializeUploadStatus(const UploadStatus& status);
absl::StatusOr<UploadStatus> ParseUploadStatus(const std::string& bytes);
std::string SerializeDownloadHeader(const DownloadHeader& header);
absl::StatusOr<DownloadHeader> ParseDownloadHeader(const std::string& bytes);

v1::DownloadRequest DownloadRequestToProto(const DownloadRequest& request);
absl::StatusOr<DownloadRequest> DownloadRequestFromProto(const v1::DownloadRequest& proto);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_TRANSFER_MESSAGES_H_
