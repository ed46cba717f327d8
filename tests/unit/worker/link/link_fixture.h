// SPDX-License-Identifier: Apache-2.0
// Both connections of a worker in memory, under a manual clock.
#ifndef ATOLL_TESTS_UNIT_WORKER_LINK_LINK_FIXTURE_H_
#define ATOLL_TESTS_UNIT_WORKER_LINK_LINK_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/plan/limits.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_bulk.h"
#include "tests/support/memory_stream.h"
#include "worker/link/network_link.h"

namespace atl {

// The coordinator's end of the bulk connection: keeps uploads and serves one blob.
class Bulk final : public BulkHandler {
 public:
  class OneUpload final : public UploadHandler {
   public:
    explicit OneUpload(Bulk& bulk) : bulk_(bulk) {}
    void OnBegin(UploadHeader begun, UploadReply reply) override {
      ++bulk_.uploads;
      const ContributionHeader& sent = std::get<ContributionUpload>(begun).header;
      const uint32_t fragment = sent.target.fragment.value;
      if (!bulk_.order.empty() && bulk_.order.back() != fragment) {
        bulk_.left_at_begin.push_back(bulk_.announced - bulk_.received.size());
        bulk_.received.clear();
      }
      bulk_.order.push_back(fragment);
      bulk_.announced = sent.encoded_bytes;
      if (!bulk_.refusal.ok()) {
        reply(bulk_.refusal);
        return;
      }
      reply(UploadStatus{bulk_.received.size(), false});
    }
    void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
      EXPECT_EQ(offset, bulk_.received.size());
      for (const Bytes& piece : bytes.pieces) bulk_.received.insert(bulk_.received.end(), piece.begin(), piece.end());
      if (bulk_.received.size() < bulk_.takes_bytes) return reply(absl::OkStatus());
      bulk_.ends.push_back(std::move(reply));
    }
    void OnEnd(StatusReply reply) override {
      if (!bulk_.holds_ends) return reply(absl::OkStatus());
      bulk_.ends.push_back(std::move(reply));
    }
    void OnBroken(absl::Status) override {}

   private:
    Bulk& bulk_;
  };
  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return std::make_shared<OneUpload>(*this); }
  void OnDownload(DownloadRequest request, DownloadReply reply) override {
    offsets.push_back(request.offset_bytes);
    if (holds_downloads) return downloads.push_back(std::move(reply));
    if (!refusal.ok()) {
      reply(refusal);
      return;
    }
    const auto* whole = std::get_if<FragmentKey>(&request.key);
    auto asked = std::pair(header, content);
    if (whole != nullptr && !whole->newest) {
      const auto kept = older.find(whole->at.version);
      if (kept != older.end()) {
        asked = kept->second;
      } else if (whole->at.version != header.version) {
        return reply(absl::NotFoundError("no longer kept"));
      }
    }
    versions.push_back(whole != nullptr && whole->newest ? 0 : asked.first.version.value);
    int& now = whole != nullptr ? running_whole : running_updates;
    most_running = std::max(most_running, ++now);
    reply(DownloadContent{asked.first, MakeMemorySource(asked.second), [&now](const BulkResult&) { --now; }});
  }
  void OnMissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override {
    reply(std::vector<Sha256>{});
  }
  // Makes this the newest version; with `keep` the previous one stays available by its version.
  void Serve(std::shared_ptr<const std::vector<std::byte>> bytes, uint64_t version, bool keep = false) {
    if (keep) older[header.version] = {header, content};
    content = std::move(bytes);
    header =
        DownloadHeader{content->size(), Version{version}, Digest{5, 6}, CodecKind::kFp32, DigestOf(Bytes(*content))};
  }

  absl::Status refusal;
  int uploads = 0;
  std::vector<std::byte> received;      // of the newest upload
  std::vector<uint32_t> order;          // fragments of uploads
  std::vector<uint64_t> left_at_begin;  // remaining bytes of the previous fragment when another began
  uint64_t announced = 0;
  bool holds_ends = false;
  uint64_t takes_bytes = std::numeric_limits<uint64_t>::max();  // of an upload, before it stalls
  std::vector<StatusReply> ends;
  bool holds_downloads = false;
  std::vector<DownloadReply> downloads;
  int running_whole = 0, running_updates = 0, most_running = 0;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> versions;  // requested versions that were served, 0: the newest fragment
  DownloadHeader header;
  std::shared_ptr<const std::vector<std::byte>> content;
  std::map<Version, std::pair<DownloadHeader, std::shared_ptr<const std::vector<std::byte>>>> older;
};

inline SharedBytes SomeBytes(size_t size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  for (size_t i = 0; i < size; ++i) (*bytes)[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

class LinkTest : public testing::Test {
 protected:
  LinkTest()
      : bulk_client_(MakeMemoryBulkClient(bulk_, executor_, {.frame_bytes = 100, .cut = [this] { return Cut(); }})),
        link_(
            {WorkerId{"w1"}, 1, {}, "test", [this](const absl::Status&) { return advice_; }}, [this] { return Open(); },
            *bulk_client_, clock_, log_, [this](LinkEvent event) { events_.push_back(std::move(event)); }, nullptr) {}

  std::unique_ptr<WorkerEnd> Open() {
    ++opened_;
    pair_ = MakeControlStreamPair(executor_);
    pair_.coordinator->Start({[this](WorkerMessage m) { heard_.push_back(std::move(m)); }, [](absl::Status) {}});
    return std::move(pair_.worker);
  }
  bool Cut() {
    if (cut_in_ < 0) return false;
    return cut_in_-- == 0;
  }
  // Runs everything that can happen now.
  void Settle() {
    for (int i = 0; i < 400; ++i) {
      const Instant next = link_.Turn();
      if (executor_.RunAll() == 0 && next > clock_.Now()) return;
    }
    FAIL() << "it never comes to rest";
  }
  void Pass(Duration d) {
    clock_.Advance(d);
    Settle();
  }
  // As the core does when it is notified of a stream; repeated on the same stream it changes
  // nothing.
  void SayHello() {
    link_.Say(Hello{});
    Settle();
  }
  void Welcome() {
    SayHello();
    ASSERT_TRUE(
        pair_.coordinator->Send(atl::Welcome{BootNumber{1}, Incarnation{1}, true, Seconds(2), Seconds(20), {}}).ok());
    Settle();
  }
  template <typename E>
  std::vector<E> Events() const {
    std::vector<E> out;
    for (const LinkEvent& event : events_) {
      if constexpr (std::is_same_v<E, FetchedBytes>) {
        if (const auto* e = std::get_if<FetchedBytes>(&event)) out.push_back(*e);
      } else {
        const auto* core = std::get_if<worker::Event>(&event);
        if (core != nullptr && std::holds_alternative<E>(*core)) out.push_back(std::get<E>(*core));
      }
    }
    return out;
  }
  // The reason in the newest log line about a broken transfer.
  std::string WhyBroken() const {
    std::string why;
    for (const LogLine& line : log_.Recent(100)) {
      if (line.event != "transfer interrupted") continue;
      for (const LogField& field : line.fields) {
        if (field.key == "why") why = field.value;
      }
    }
    return why;
  }
  std::vector<Heartbeat> Beats() const {
    std::vector<Heartbeat> out;
    for (const WorkerMessage& m : heard_) {
      if (const auto* beat = std::get_if<Heartbeat>(&m)) out.push_back(*beat);
    }
    return out;
  }
  ContributionHeader HeaderFor(const SharedBytes& bytes) {
    ContributionHeader header;
    header.job = JobId{"toy"};
    header.worker = WorkerId{"w1"};
    header.incarnation = Incarnation{1};
    header.target = {FragmentIndex{2}, Version{4}};
    header.digest = DigestOf(Bytes(*bytes));
    header.encoded_bytes = bytes->size();
    return header;
  }

  ManualClock clock_;
  ManualExecutor executor_;
  Log log_{[] {
    LogOptions options;
    options.to_stderr = false;
    return options;
  }()};
  Bulk bulk_;
  std::unique_ptr<BulkClient> bulk_client_;
  ControlStreamPair pair_;
  int opened_ = 0;
  std::string advice_;
  int cut_in_ = -1;  // frames until one transfer breaks
  std::vector<WorkerMessage> heard_;
  std::vector<LinkEvent> events_;
  NetworkLink link_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_LINK_LINK_FIXTURE_H_
