// SPDX-License-Identifier: Apache-2.0
#include "common/wire/transfer_messages.h"

#include <algorithm>

#include "common/plan/limits.h"
#include "common/wire/element_limit.h"
#include "common/wire/field_copier.h"
#include "common/wire/resource_names.h"

namespace atl {
namespace {

// Smallest cap allowed in a job file (common/plan/job_validation.cc) and in a worker's option.
constexpr uint64_t kLeastDownloadCap = 1000;

// A plain file name: no directory, not hidden, no character that is special in a path or a terminal.
bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= limits::kLabelBytes && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
         });
}

absl::Status Unreadable(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("a bulk frame's header is not a valid ", what));
}

}  // namespace

// A contribution on the wire, with a bound on its loss. In the records of the store the loss has none.
static void Fields(FieldCopier& copy, ContributionUpload& m) {
  Fields(copy, m.header);
  copy.Check("mean_loss_micro", m.header.mean_loss_micro >= 0 && m.header.mean_loss_micro <= limits::kMostLossMicro,
             m.header.mean_loss_micro, " is not a loss: 0 to ", limits::kMostLossMicro, " is allowed");
  copy("boot", m.boot);
}

static void Fields(FieldCopier& copy, BlobUpload& m) {
  copy("sha256", m.sha256).Any("bytes", m.bytes);
  copy.Check("bytes", m.bytes <= limits::kBlobBytes, m.bytes, " is above the limit of ", limits::kBlobBytes);
}

static void Fields(FieldCopier& copy, Probe& m) {
  copy.Any("bytes", m.bytes);
  copy.Check("bytes", m.bytes != 0 && m.bytes <= limits::kProbeBytes, m.bytes, " is not between 1 and ",
             limits::kProbeBytes);
}

static void Fields(FieldCopier& copy, UploadHeader& m) {
  copy.OneOf("upload_header.kind", m, {"contribution", "blob", "probe"});
}

static void Fields(FieldCopier& copy, UploadStatus& m) {
  copy.Any("resume_offset_bytes", m.resume_offset_bytes)("accepted", m.accepted);
}

static void Fields(FieldCopier& copy, DownloadHeader& m) {
  copy.Any("total_bytes", m.total_bytes);
  copy.Check("total_bytes", m.total_bytes <= limits::kBlobBytes * sizeof(float), m.total_bytes, " is impossible");
  copy("version", m.version)("hash", m.hash);
  copy.Optional("codec", m.codec);
  copy.Optional("digest", m.digest, !m.digest.IsZero());
}

static void Fields(FieldCopier& copy, UpdateKey& m) {
  copy("job", m.job)("reached", m.reached);
  copy.Check("reached.version", m.reached.version.value != 0, "no update produces version 0");
}

static void Fields(FieldCopier& copy, FragmentKey& m) { copy("job", m.job)("at", m.at)("newest", m.newest); }

static void Fields(FieldCopier& copy, BlockKey& m) {
  copy("job", m.job)("manifest_sha256", m.manifest).Any("shard", m.shard);
  copy.Check("shard", IsFileName(m.shard), "is not a plain file name")("block", m.block);
}

static void Fields(FieldCopier& copy, BlobKey& m) { copy("blob_sha256", m.sha256); }

static void Fields(FieldCopier& copy, CheckpointFragmentKey& m) {
  std::string name = copy.reads() ? "" : CheckpointNameOf(m.job, m.step);
  copy.Any("checkpoint", name);
  if (copy.reads()) {
    const absl::StatusOr<CheckpointName> parsed = ParseCheckpointName(name);
    if (!parsed.ok()) return copy.Refuse(parsed.status());
    copy.Check("checkpoint", !parsed->latest, "names no step; first query the latest step");
    m = {parsed->job, parsed->step, {}};
  }
  copy("fragment", m.fragment);
}

static void Fields(FieldCopier& copy, DownloadRequest& m) {
  copy.OneOf("download_request.kind", m.key,
             {"update", "fragment", "block", "blob_sha256", "checkpoint_fragment", "probe"});
  copy("offset_bytes", m.offset_bytes).Optional("worker", m.worker);
  copy("limit_bytes_per_second", m.limit_bytes_per_second);
  copy.Check("limit_bytes_per_second", m.limit_bytes_per_second == 0 || m.limit_bytes_per_second >= kLeastDownloadCap,
             "must be at least ", kLeastDownloadCap,
             ", or 0 for no limit: a slower download would occupy its slot forever");
}

uint64_t UploadBytes(const UploadHeader& header) {
  const auto* contribution = std::get_if<ContributionUpload>(&header);
  if (contribution != nullptr) return contribution->header.encoded_bytes;
  const auto* blob = std::get_if<BlobUpload>(&header);
  return blob != nullptr ? blob->bytes : std::get<Probe>(header).bytes;
}

std::string SerializeUploadHeader(const UploadHeader& header) {
  return ToProto<v1::UploadHeader>(header).SerializeAsString();
}

absl::StatusOr<UploadHeader> ParseUploadHeader(const std::string& bytes) {
  v1::UploadHeader proto;
  ATOLL_RETURN_IF_ERROR(ParseWithin(bytes, proto));
  return FromProto<UploadHeader>(proto, "");
}

std::string SerializeUploadStatus(const UploadStatus& status) {
  return ToProto<v1::UploadStatus>(status).SerializeAsString();
}

absl::StatusOr<UploadStatus> ParseUploadStatus(const std::string& bytes) {
  v1::UploadStatus proto;
  if (!proto.ParseFromString(bytes)) return Unreadable("UploadStatus");
  return FromProto<UploadStatus>(proto, "upload_status");
}

std::string SerializeDownloadHeader(const DownloadHeader& header) {
  return ToProto<v1::DownloadHeader>(header).SerializeAsString();
}

absl::StatusOr<DownloadHeader> ParseDownloadHeader(const std::string& bytes) {
  v1::DownloadHeader proto;
  if (!proto.ParseFromString(bytes)) return Unreadable("DownloadHeader");
  return FromProto<DownloadHeader>(proto, "download_header");
}

v1::DownloadRequest DownloadRequestToProto(const DownloadRequest& request) {
  return ToProto<v1::DownloadRequest>(request);
}

absl::StatusOr<DownloadRequest> DownloadRequestFromProto(const v1::DownloadRequest& proto) {
  return FromProto<DownloadRequest>(proto, "");
}

}  // namespace atl
