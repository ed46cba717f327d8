// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/rerouting_bulk.h"

#include <cstdint>
#include <map>
#include <utility>

namespace atl {
namespace {

absl::Status NoCoordinator() { return absl::UnavailableError("no coordinator"); }

class RefusedUpload final : public UploadHandler {
 public:
  explicit RefusedUpload(absl::Status why) : why_(std::move(why)) {}
  void OnBegin(UploadHeader, UploadReply reply) override { reply(why_); }
  void OnBytes(uint64_t, BulkBytes, StatusReply reply) override { reply(why_); }
  void OnEnd(StatusReply reply) override { reply(why_); }
  void OnBroken(absl::Status) override {}

 private:
  const absl::Status why_;
};

// The same bytes except for one.
BulkBytes Corrupted(const BulkBytes& bytes) {
  auto copy = std::make_shared<std::vector<std::byte>>();
  for (const Bytes& piece : bytes.pieces) copy->insert(copy->end(), piece.begin(), piece.end());
  if (!copy->empty()) copy->at(copy->size() / 2) ^= std::byte{0x10};
  BulkBytes out;
  out.pieces = {Bytes(*copy)};
  out.owner = copy;
  return out;
}

}  // namespace

struct ReroutingBulk::Wire {
  std::vector<ContributionHeader>& acknowledged;
  Refusal impossible;
  BulkHandler* to = nullptr;
  uint64_t life = 0;  // of the coordinator
  uint64_t next = 0;
  std::map<uint64_t, std::function<void()>> waiting;  // answers Unavailable; must not own this wire

  void Lead(BulkHandler* handler) {
    to = handler;
    ++life;
    for (const auto& [id, end] : std::exchange(waiting, {})) end();
  }
};

// Content served by a coordinator; serves nothing once the coordinator is dead.
class ReroutingBulk::Source final : public BulkSource {
 public:
  Source(std::shared_ptr<Wire> wire, std::shared_ptr<BulkSource> far_end, bool spoilt)
      : wire_(std::move(wire)),
        far_end_(std::move(far_end)),
        life_(wire_->life),
        bytes_(far_end_->size_bytes()),
        spoilt_(spoilt) {}
  uint64_t size_bytes() const override { return bytes_; }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (Dead()) return NoCoordinator();
    absl::StatusOr<BulkBytes> read = far_end_->Read(offset, bytes);
    if (spoilt_ && read.ok()) return Corrupted(*read);
    return read;
  }
  bool Dead() const { return wire_->life != life_; }

 private:
  const std::shared_ptr<Wire> wire_;
  const std::shared_ptr<BulkSource> far_end_;
  const uint64_t life_, bytes_;
  const bool spoilt_;
};

template <typename Result>
std::function<void(Result)> ReroutingBulk::Answered(const std::shared_ptr<Wire>& wire,
                                                    std::function<void(Result)> reply) {
  const uint64_t id = wire->next++;
  wire->waiting[id] = [reply] { reply(NoCoordinator()); };
  return [wire, id, reply = std::move(reply)](Result result) {
    if (wire->waiting.erase(id) > 0) reply(std::move(result));
  };
}

class ReroutingBulk::Upload final : public UploadHandler {
 public:
  Upload(std::shared_ptr<Wire> wire, std::shared_ptr<UploadHandler> far_end, bool corrupt)
      : wire_(std::move(wire)), far_end_(std::move(far_end)), life_(wire_->life), corrupt_(corrupt) {}
  void OnBegin(UploadHeader header, UploadReply reply) override {
    if (Dead()) return reply(NoCoordinator());
    if (const auto* contribution = std::get_if<ContributionUpload>(&header)) header_ = contribution->header;
    UploadReply noted = [&acknowledged = wire_->acknowledged, impossible = wire_->impossible, sent = header_,
                         reply = std::move(reply)](absl::StatusOr<UploadStatus> status) {
      if (impossible && absl::IsInvalidArgument(status.status())) impossible(sent, status.status());
      if (status.ok() && status->accepted) acknowledged.push_back(sent);
      reply(std::move(status));
    };
    far_end_->OnBegin(std::move(header), Answered(wire_, std::move(noted)));
  }
  void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
    if (Dead()) return reply(NoCoordinator());
    far_end_->OnBytes(offset, corrupt_ ? Corrupted(bytes) : std::move(bytes),
                      Answered<absl::Status>(wire_, std::move(reply)));
  }
  void OnEnd(StatusReply reply) override {
    if (Dead()) return reply(NoCoordinator());
    StatusReply noted = [&acknowledged = wire_->acknowledged, sent = header_,
                         reply = std::move(reply)](const absl::Status& status) {
      if (status.ok()) acknowledged.push_back(sent);
      reply(status);
    };
    far_end_->OnEnd(Answered<absl::Status>(wire_, std::move(noted)));
  }
  void OnBroken(absl::Status why) override {
    if (!Dead()) far_end_->OnBroken(std::move(why));
  }

 private:
  bool Dead() const { return wire_->life != life_; }
  const std::shared_ptr<Wire> wire_;
  const std::shared_ptr<UploadHandler> far_end_;
  const uint64_t life_;
  const bool corrupt_;
  ContributionHeader header_;
};

ReroutingBulk::ReroutingBulk(std::vector<ContributionHeader>& acknowledged, Refusal impossible)
    : wire_(new Wire{.acknowledged = acknowledged, .impossible = std::move(impossible)}) {}

// Pending calls own the wire that stores them, so the cycle is broken here.
ReroutingBulk::~ReroutingBulk() { const auto dropped = std::move(wire_->waiting); }

void ReroutingBulk::Lead(BulkHandler* handler) { wire_->Lead(handler); }

bool ReroutingBulk::cut() const { return dead || wire_->to == nullptr; }

std::shared_ptr<UploadHandler> ReroutingBulk::NewUpload(std::string peer) {
  if (refusals > 0) {
    --refusals;
    return std::make_shared<RefusedUpload>(absl::InvalidArgumentError("refused by the test"));
  }
  if (cut()) return std::make_shared<RefusedUpload>(NoCoordinator());
  const bool corrupt = corruptions > 0;
  corruptions -= corrupt ? 1 : 0;
  return std::make_shared<Upload>(wire_, wire_->to->NewUpload(std::move(peer)), corrupt);
}

void ReroutingBulk::OnDownload(DownloadRequest request, DownloadReply reply) {
  if (cut()) return reply(NoCoordinator());
  const bool spoilt = spoils > 0;
  spoils -= spoilt ? 1 : 0;
  DownloadReply guarded = [wire = wire_, spoilt, reply = std::move(reply)](absl::StatusOr<DownloadContent> content) {
    if (content.ok()) {
      const auto source = std::make_shared<Source>(wire, content->source, spoilt);
      if (spoilt) content->header.digest = {};  // sends no digest, so nothing is checked
      content->source = source;
      if (content->finished)
        content->finished = [source, finished = std::move(content->finished)](const BulkResult& result) {
          if (!source->Dead()) finished(result);
        };
    }
    reply(std::move(content));
  };
  wire_->to->OnDownload(std::move(request), Answered(wire_, std::move(guarded)));
}

void ReroutingBulk::OnMissingBlobs(std::vector<Sha256> blobs,
                                   std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) {
  if (cut()) return reply(NoCoordinator());
  wire_->to->OnMissingBlobs(std::move(blobs), Answered(wire_, std::move(reply)));
}

}  // namespace atl
