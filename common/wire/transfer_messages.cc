// SPDX-License-Identifier: Apache-2.0
#include "common/wire/transfer_messages.h"

#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/element_limit.h"
#include "common/wire/field_checks.h"
#include "common/wire/resource_names.h"

namespace atl {
namespace {

// Smallest cap allowed in a job file (common/plan/job_validation.cc) and in a worker's option.
constexpr uint64_t kLeastDownloadCap = 1000;

absl::StatusOr<Sha256> Sha256Field(const std::string& hex, const std::string& path) {
  Sha256 out;
  if (!Sha256::FromHex(hex, out)) return FieldError(path, "is not a SHA-256 of 64 hexadecimal digits");
  return out;
}

// Requires a plain file name: no directory, not hidden, no character that is special in a path or a
// terminal.
absl::Status CheckFileName(const std::string& name, const std::string& path) {
  bool valid = !name.empty() && name.size() <= limits::kLabelBytes && name[0] != '.';
  for (const char c : name)
    valid = valid && c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  return valid ? absl::OkStatus() : FieldError(path, "is not a plain file name");
}

void Fill(const UpdateKey& key, v1::DownloadRequest& out) {
  out.mutable_update()->set_job(key.job.value);
  *out.mutable_update()->mutable_reached() = ToProto(key.reached);
}
void Fill(const FragmentKey& key, v1::DownloadRequest& out) {
  out.mutable_fragment()->set_job(key.job.value);
  *out.mutable_fragment()->mutable_at() = ToProto(key.at);
  out.mutable_fragment()->set_newest(key.newest);
}
void Fill(const BlockKey& key, v1::DownloadRequest& out) {
  v1::BlockKey& block = *out.mutable_block();
  block.set_job(key.job.value);
  block.set_manifest_sha256(key.manifest.Hex());
  block.set_shard(key.shard);
  block.set_block(key.block);
}
void Fill(const BlobKey& key, v1::DownloadRequest& out) { out.set_blob_sha256(key.sha256.Hex()); }
void Fill(const CheckpointFragmentKey& key, v1::DownloadRequest& out) {
  out.mutable_checkpoint_fragment()->set_checkpoint(CheckpointNameOf(key.job, key.step));
  out.mutable_checkpoint_fragment()->set_fragment(key.fragment.value);
}
void Fill(const Probe& key, v1::DownloadRequest& out) { out.mutable_probe()->set_bytes(key.bytes); }

absl::StatusOr<DownloadKey> ReadUpdateKey(const v1::UpdateKey& in) {
  UpdateKey key;
  ATOLL_ASSIGN_OR_RETURN(key.job, JobField(in.job(), Emptiness::kRefused, "update.job"));
  ATOLL_ASSIGN_OR_RETURN(key.reached, FromProto(in.reached(), "update.reached"));
  if (key.reached.version.value == 0) return FieldError("update.reached.version", "no update produces version 0");
  return key;
}
absl::StatusOr<DownloadKey> ReadFragmentKey(const v1::FragmentKey& in) {
  FragmentKey key;
  ATOLL_ASSIGN_OR_RETURN(key.job, JobField(in.job(), Emptiness::kRefused, "fragment.job"));
  ATOLL_ASSIGN_OR_RETURN(key.at, FromProto(in.at(), "fragment.at"));
  key.newest = in.newest();
  return key;
}
absl::StatusOr<DownloadKey> ReadBlockKey(const v1::BlockKey& in) {
  BlockKey key;
  ATOLL_ASSIGN_OR_RETURN(key.job, JobField(in.job(), Emptiness::kRefused, "block.job"));
  ATOLL_ASSIGN_OR_RETURN(key.manifest, Sha256Field(in.manifest_sha256(), "block.manifest_sha256"));
  ATOLL_RETURN_IF_ERROR(CheckFileName(in.shard(), "block.shard"));
  key.shard = in.shard();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.block(), "block.block"));
  key.block = in.block();
  return key;
}
absl::StatusOr<DownloadKey> ReadCheckpointKey(const v1::CheckpointFragmentKey& in) {
  ATOLL_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(in.checkpoint()));
  if (name.latest) return FieldError("checkpoint_fragment.checkpoint", "names no step; first query the latest step");
  if (in.fragment() >= limits::kFragments) {
    return FieldError("checkpoint_fragment.fragment",
                      absl::StrCat(in.fragment(), " is not below ", limits::kFragments));
  }
  return CheckpointFragmentKey{name.job, name.step, {in.fragment()}};
}
absl::StatusOr<Probe> ReadProbe(const v1::ProbeHeader& in) {
  if (in.bytes() == 0 || in.bytes() > limits::kProbeBytes) {
    return FieldError("probe.bytes", absl::StrCat(in.bytes(), " is not between 1 and ", limits::kProbeBytes));
  }
  return Probe{in.bytes()};
}
absl::StatusOr<DownloadKey> ReadBlobKey(const std::string& hex) {
  ATOLL_ASSIGN_OR_RETURN(const Sha256 sha256, Sha256Field(hex, "blob_sha256"));
  return BlobKey{sha256};
}
absl::StatusOr<DownloadKey> ReadKey(const v1::DownloadRequest& in) {
  switch (in.kind_case()) {
    case v1::DownloadRequest::kUpdate: return ReadUpdateKey(in.update());
    case v1::DownloadRequest::kFragment: return ReadFragmentKey(in.fragment());
    case v1::DownloadRequest::kBlock: return ReadBlockKey(in.block());
    case v1::DownloadRequest::kBlobSha256: return ReadBlobKey(in.blob_sha256());
    case v1::DownloadRequest::kCheckpointFragment: return ReadCheckpointKey(in.checkpoint_fragment());
    case v1::DownloadRequest::kProbe: return ReadProbe(in.probe());
    case v1::DownloadRequest::KIND_NOT_SET: break;
  }
  return FieldError("download_request.kind", "has a kind unknown to this program");
}

absl::Status Unreadable(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("a bulk frame's header is not a valid ", what));
}

}  // namespace

uint64_t UploadBytes(const UploadHeader& header) {
  struct Visitor {
    uint64_t operator()(const ContributionUpload& upload) const { return upload.header.encoded_bytes; }
    uint64_t operator()(const BlobUpload& upload) const { return upload.bytes; }
    uint64_t operator()(const Probe& probe) const { return probe.bytes; }
  };
  return std::visit(Visitor{}, header);
}

int32_t CodecToNumber(CodecKind codec) { return static_cast<int32_t>(codec) + 1; }

absl::StatusOr<CodecKind> CodecFromNumber(int32_t number, const std::string& path) {
  if (number < 1 || number > std::ssize(kCodecKinds))
    return FieldError(path, absl::StrCat("codec ", number, " is not known"));
  return static_cast<CodecKind>(number - 1);
}

v1::ContributionHeader ContributionHeaderToProto(const ContributionHeader& in, BootNumber boot) {
  v1::ContributionHeader out;
  out.set_job(in.job.value);
  out.set_worker(in.worker.value);
  out.set_incarnation(in.incarnation.value);
  *out.mutable_target() = ToProto(in.target);
  *out.mutable_digest() = DigestToProto(in.digest);
  out.set_encoded_bytes(in.encoded_bytes);
  out.set_codec(CodecToNumber(in.codec));
  out.set_tokens(in.tokens);
  out.set_steps(in.steps);
  out.set_send_step(in.send_step);
  out.set_mean_loss_micro(in.mean_loss_micro);
  for (const LeaseCursor& cursor : in.cursors) *out.add_cursors() = ToProto(cursor);
  out.set_boot(boot.value);
  if (in.upload_error_nano) out.set_upload_error_nano(*in.upload_error_nano);
  return out;
}

absl::StatusOr<ContributionHeader> ContributionHeaderFromProto(const v1::ContributionHeader& in,
                                                               const std::string& path) {
  ContributionHeader out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, path + ".job"));
  ATOLL_ASSIGN_OR_RETURN(out.worker, WorkerField(in.worker(), Emptiness::kRefused, path + ".worker"));
  for (const auto& [value, name] : {std::pair{in.incarnation(), ".incarnation"},
                                    {in.encoded_bytes(), ".encoded_bytes"},
                                    {in.tokens(), ".tokens"},
                                    {in.steps(), ".steps"},
                                    {in.send_step(), ".send_step"}}) {
    ATOLL_RETURN_IF_ERROR(CheckCount(value, path + name));
  }
  if (in.encoded_bytes() == 0 || in.encoded_bytes() > limits::kParameters * sizeof(float)) {
    return FieldError(path + ".encoded_bytes", absl::StrCat(in.encoded_bytes(), " is not a size of a contribution"));
  }
  out.incarnation.value = in.incarnation();
  ATOLL_ASSIGN_OR_RETURN(out.target, FromProto(in.target(), path + ".target"));
  out.digest = DigestFromProto(in.digest());
  out.encoded_bytes = in.encoded_bytes();
  ATOLL_ASSIGN_OR_RETURN(out.codec, CodecFromNumber(in.codec(), path + ".codec"));
  out.tokens = in.tokens();
  out.steps = in.steps();
  out.send_step = in.send_step();
  out.mean_loss_micro = in.mean_loss_micro();
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.cursors_size()), limits::kLeasesPerWorker, path + ".cursors"));
  for (const v1::LeaseCursor& cursor : in.cursors()) {
    ATOLL_ASSIGN_OR_RETURN(out.cursors.emplace_back(), FromProto(cursor, path + ".cursors"));
  }
  if (in.has_upload_error_nano()) out.upload_error_nano = in.upload_error_nano();
  return out;
}

std::string SerializeUploadHeader(const UploadHeader& header) {
  v1::UploadHeader proto;
  if (const auto* contribution = std::get_if<ContributionUpload>(&header)) {
    *proto.mutable_contribution() = ContributionHeaderToProto(contribution->header, contribution->boot);
  } else if (const auto* blob = std::get_if<BlobUpload>(&header)) {
    proto.mutable_blob()->set_sha256(blob->sha256.Hex());
    proto.mutable_blob()->set_bytes(blob->bytes);
  } else {
    proto.mutable_probe()->set_bytes(std::get<Probe>(header).bytes);
  }
  return proto.SerializeAsString();
}

absl::StatusOr<UploadHeader> ParseUploadHeader(const std::string& bytes) {
  v1::UploadHeader proto;
  ATOLL_RETURN_IF_ERROR(ParseWithin(bytes, proto));
  if (proto.has_contribution()) {
    ContributionUpload out;
    ATOLL_ASSIGN_OR_RETURN(out.header, ContributionHeaderFromProto(proto.contribution(), "contribution"));
    ATOLL_RETURN_IF_ERROR(CheckLoss(out.header.mean_loss_micro, "contribution.mean_loss_micro"));
    ATOLL_RETURN_IF_ERROR(CheckCount(proto.contribution().boot(), "contribution.boot"));
    out.boot.value = proto.contribution().boot();
    return UploadHeader(std::move(out));
  }
  if (proto.has_probe()) return ReadProbe(proto.probe());
  if (!proto.has_blob()) return FieldError("upload_header.kind", "has a kind unknown to this program");
  BlobUpload out;
  ATOLL_ASSIGN_OR_RETURN(out.sha256, Sha256Field(proto.blob().sha256(), "blob.sha256"));
  if (proto.blob().bytes() > limits::kBlobBytes) {
    return FieldError("blob.bytes", absl::StrCat(proto.blob().bytes(), " is above the limit of ", limits::kBlobBytes));
  }
  out.bytes = proto.blob().bytes();
  return UploadHeader(out);
}

std::string SerializeUploadStatus(const UploadStatus& status) {
  v1::UploadStatus proto;
  proto.set_resume_offset_bytes(status.resume_offset_bytes);
  proto.set_accepted(status.accepted);
  return proto.SerializeAsString();
}

absl::StatusOr<UploadStatus> ParseUploadStatus(const std::string& bytes) {
  v1::UploadStatus proto;
  if (!proto.ParseFromString(bytes)) return Unreadable("UploadStatus");
  return UploadStatus{proto.resume_offset_bytes(), proto.accepted()};
}

std::string SerializeDownloadHeader(const DownloadHeader& header) {
  v1::DownloadHeader proto;
  proto.set_total_bytes(header.total_bytes);
  proto.set_version(header.version.value);
  *proto.mutable_hash() = DigestToProto(header.hash);
  proto.set_codec(CodecToNumber(header.codec));
  if (!header.digest.IsZero()) *proto.mutable_digest() = DigestToProto(header.digest);
  return proto.SerializeAsString();
}

absl::StatusOr<DownloadHeader> ParseDownloadHeader(const std::string& bytes) {
  v1::DownloadHeader proto;
  if (!proto.ParseFromString(bytes)) return Unreadable("DownloadHeader");
  DownloadHeader out;
  if (proto.total_bytes() > limits::kBlobBytes * sizeof(float)) {
    return FieldError("download_header.total_bytes", absl::StrCat(proto.total_bytes(), " is impossible"));
  }
  out.total_bytes = proto.total_bytes();
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.version(), "download_header.version"));
  out.version.value = proto.version();
  out.hash = DigestFromProto(proto.hash());
  if (proto.codec() != 0) {
    ATOLL_ASSIGN_OR_RETURN(out.codec, CodecFromNumber(proto.codec(), "download_header.codec"));
  }
  out.digest = DigestFromProto(proto.digest());
  return out;
}

v1::DownloadRequest DownloadRequestToProto(const DownloadRequest& request) {
  v1::DownloadRequest proto;
  std::visit([&](const auto& key) { Fill(key, proto); }, request.key);
  proto.set_offset_bytes(request.offset_bytes);
  proto.set_worker(request.worker.value);
  proto.set_limit_bytes_per_second(request.limit_bytes_per_second);
  return proto;
}

absl::StatusOr<DownloadRequest> DownloadRequestFromProto(const v1::DownloadRequest& proto) {
  DownloadRequest out;
  ATOLL_ASSIGN_OR_RETURN(out.key, ReadKey(proto));
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.offset_bytes(), "offset_bytes"));
  out.offset_bytes = proto.offset_bytes();
  ATOLL_ASSIGN_OR_RETURN(out.worker, WorkerField(proto.worker(), Emptiness::kAllowed, "worker"));
  ATOLL_RETURN_IF_ERROR(CheckCount(proto.limit_bytes_per_second(), "limit_bytes_per_second"));
  out.limit_bytes_per_second = proto.limit_bytes_per_second();
  if (out.limit_bytes_per_second != 0 && out.limit_bytes_per_second < kLeastDownloadCap) {
    return FieldError("limit_bytes_per_second",
                      absl::StrCat("must be at least ", kLeastDownloadCap,
                                   ", or 0 for no limit: a slower download would occupy its slot forever"));
  }
  return out;
}

}  // namespace atl
