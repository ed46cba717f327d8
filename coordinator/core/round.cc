// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/lateness.h"

namespace atl {
namespace {

uint32_t MinimumOf(const RoundRule& rule) {
  return std::max(1u, rule.minimum > rule.finished ? rule.minimum - rule.finished : 0u);
}

absl::Status Late(Version version) {
  return LateError(absl::StrCat("version ", version.value + 1,
                                " is committed or being made; contribute against the newest version"));
}

}  // namespace

std::optional<UploadVerdict> Round::Judge(const ContributionHeader& header) const {
  const auto refuse = [](absl::Status status) { return UploadVerdict{.status = std::move(status)}; };
  const auto accepted = accepted_.find(header.worker);
  if (header.target.version == version_ && accepted != accepted_.end()) {
    const Digest first = accepted->second.header.digest;
    if (first == header.digest) return UploadVerdict{.decision = UploadDecision::kAccepted};
    return refuse(absl::AlreadyExistsError(absl::StrCat("this worker's contribution with digest ", first.Hex(),
                                                        " is accepted; the work goes into the next version")));
  }
  const auto committed = committed_.find(header.worker);
  if (committed != committed_.end() && committed->second.header.target == header.target &&
      committed->second.header.digest == header.digest) {
    return UploadVerdict{.decision = UploadDecision::kAccepted};
  }
  if (header.target.version < version_) return refuse(Late(header.target.version));
  if (header.target.version > version_) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat("version ", header.target.version.value, " does not exist; the newest is ", version_.value)));
  }
  if (closing_) return refuse(Late(version_));
  if (HasRefused(header.worker, header.digest)) {
    return refuse(absl::FailedPreconditionError("the screens have refused this contribution; form another one"));
  }
  if (const auto it = uploads_.find(header.worker); it == uploads_.end() || !it->second.flushing) return std::nullopt;
  return refuse(absl::UnavailableError("a contribution of this worker is being written; ask again"));
}

Round::Offered Round::Offer(UploadId upload, const ContributionHeader& header) {
  Offered offered;
  if (const auto it = uploads_.find(header.worker); it != uploads_.end()) offered.superseded = it->second.upload;
  uploads_.insert_or_assign(header.worker, Contribution{.header = header, .upload = upload});
  if (const auto it = screened_.find(header.worker); it != screened_.end()) offered.replaces = it->second;
  return offered;
}

bool Round::Durable(UploadId upload, Instant now) {
  const Contribution* const sent = Sent(upload);
  if (sent == nullptr || !sent->flushing) return false;
  auto durable = uploads_.extract(sent->header.worker);
  durable.mapped().flushing = false;
  durable.mapped().at = now;
  accepted_.insert_or_assign(durable.key(), std::move(durable.mapped()));
  return true;
}

void Round::Break(UploadId upload) {
  const Contribution* const sent = Sent(upload);
  if (sent != nullptr && !sent->flushing) uploads_.erase(WorkerId{sent->header.worker});
}

std::vector<UploadId> Round::DropUploads(const WorkerId* worker) {
  std::vector<UploadId> dropped;
  std::erase_if(uploads_, [&](const auto& entry) {
    const bool drops = !entry.second.flushing && (worker == nullptr || entry.first == *worker);
    if (drops) dropped.push_back(entry.second.upload);
    return drops;
  });
  return dropped;
}

bool Round::DropSync(Version version, const WorkerId& worker, uint64_t send_step, Instant now) {
  if (closing_ || version != version_ || accepted_.contains(worker)) return false;
  dropped_.try_emplace(worker, Drop{send_step, now});
  return true;
}

std::optional<Digest> Round::Refuse(const WorkerId& worker) {
  const auto it = accepted_.find(worker);
  if (it == accepted_.end()) return std::nullopt;
  const Digest digest = it->second.header.digest;
  accepted_.erase(it);
  screened_[worker] = digest;
  expected_.erase(worker);
  return digest;
}

void Round::Open(std::set<WorkerId> expected, bool past_finished, Instant now, Instant deadline) {
  Begin(now, deadline);
  closing_ = wait_reported_ = false;
  held_over_ = held_over_ && !accepted_.empty();
  past_finished_ = past_finished;
  expected_ = std::move(expected);
  dropped_.clear();
}

void Round::ExpectJoiner(const WorkerId& worker) {
  const bool start = accepted_.empty() && (version_.value == 0 || expected_.empty());
  if (!closing_ && start) expected_.insert(worker);
}

void Round::ExpectOnly(std::set<WorkerId> expected, bool past_finished) {
  expected_ = std::move(expected);
  past_finished_ = past_finished_ || past_finished;
}

void Round::PassFinished(const WorkerId& worker) {
  if (closing_ || IsUploading(worker) || expected_.erase(worker) == 0) return;
  past_finished_ = past_finished_ || !HasArrived(worker);
}

void Round::Leave(const WorkerId& worker) {
  expected_.erase(worker);
  if (!closing_) dropped_.erase(worker);
}

void Round::Begin(Instant now, Instant deadline) {
  opened_ = now;
  deadline_ = deadline;
}

void Round::Excuse(Duration time, Instant now) {
  const auto later = [&](Instant& at) { at = std::min(at + time, now); };
  later(opened_);
  deadline_ = deadline_ + time;
  for (auto& [worker, arrival] : accepted_) later(arrival.at);
  for (auto& [worker, drop] : dropped_) later(drop.at);
}

RoundVerdict Round::Decide(const RoundRule& rule, Instant now) const {
  RoundVerdict verdict;
  if (closing_) return verdict;
  const uint32_t have = Arrived();
  const uint32_t quorum = Quorum(rule);
  const bool all_there = NobodyMissing();
  if (all_there && rule.on_their_way == 0 && have >= MinimumOf(rule)) {
    verdict.stage = RoundStage::kComplete;
    verdict.close = true;
  } else if (have >= quorum && !accepted_.empty()) {
    verdict.wake = ArrivalNumber(quorum - 1) + rule.grace;
    verdict.close = now >= verdict.wake;
    verdict.stage = verdict.close ? RoundStage::kLate : RoundStage::kGrace;
  } else {
    verdict.stage = RoundStage::kShort;
    verdict.wake = deadline_;
    verdict.overdue = now >= deadline_;
    verdict.nobody = all_there;
  }
  if (!verdict.close) return verdict;
  verdict.wake = kNever;
  if (Flushing() > 0) {  // an event ends it
    verdict.close = false;
    verdict.stage = RoundStage::kFlushing;
  }
  return verdict;
}

std::vector<UploadId> Round::Close() {
  closing_ = true;
  std::vector<UploadId> late;
  for (const auto& [worker, sent] : std::exchange(uploads_, {})) late.push_back(sent.upload);
  std::sort(late.begin(), late.end());
  return late;
}

void Round::Commit(Version version, const Digest& hash) {
  if (!past_finished_) tails_.clear();
  for (auto& [worker, arrival] : accepted_) {
    if (past_finished_) ++tails_[worker];
    committed_.insert_or_assign(worker, std::move(arrival));
  }
  accepted_.clear();
  screened_.clear();
  version_ = version;
  hash_ = hash;
}

std::vector<UploadId> Round::End() {
  std::vector<UploadId> ended = Close();
  closing_ = false;
  accepted_.clear();
  expected_.clear();
  dropped_.clear();
  committed_.clear();
  return ended;
}

void Round::ForgetOlder(const std::function<bool(const WorkerId&)>& known) {
  std::erase_if(committed_, [&](const auto& entry) {
    return entry.second.header.target.version.value + 1 < version_.value && !known(entry.first);
  });
}

void Round::RestoreAccepted(ContributionHeader header, Instant now) {
  const WorkerId worker = header.worker;
  accepted_.insert_or_assign(worker, Contribution{.header = std::move(header), .at = now});
}

void Round::RestoreRefused(const WorkerId& worker, const Digest& digest) {
  screened_[worker] = digest;
  const auto it = accepted_.find(worker);
  if (it != accepted_.end() && it->second.header.digest == digest) accepted_.erase(it);
}

void Round::RestoreCommitted(ContributionHeader header) {
  const WorkerId worker = header.worker;
  committed_.insert_or_assign(worker, Contribution{.header = std::move(header)});
}

bool Round::HasRefused(const WorkerId& worker, const Digest& digest) const {
  const auto it = screened_.find(worker);
  return it != screened_.end() && it->second == digest;
}

bool Round::IsMerged(const WorkerId& worker) const {
  const auto it = committed_.find(worker);
  return it != committed_.end() && it->second.header.target.version.value + 1 == version_.value;
}

const Contribution* Round::Sent(UploadId upload) const {
  const auto brings = [upload](const auto& entry) { return entry.second.upload == upload; };
  const auto it = std::find_if(uploads_.begin(), uploads_.end(), brings);
  return it == uploads_.end() ? nullptr : &it->second;
}

uint32_t Round::Flushing() const {
  return static_cast<uint32_t>(
      std::count_if(uploads_.begin(), uploads_.end(), [](const auto& entry) { return entry.second.flushing; }));
}

bool Round::NobodyMissing() const {
  return std::all_of(expected_.begin(), expected_.end(), [this](const WorkerId& w) { return HasArrived(w); });
}

std::vector<WorkerId> Round::Missing() const {
  std::vector<WorkerId> missing;
  for (const WorkerId& w : expected_) {
    if (!HasArrived(w)) missing.push_back(w);
  }
  return missing;
}

uint32_t Round::Quorum(const RoundRule& rule) const {
  // Contributors that are not expected: they left, were lost, or joined during this round.
  const auto unexpected = [&](const auto& entry) { return !expected_.contains(entry.first); };
  const auto others = std::count_if(accepted_.begin(), accepted_.end(), unexpected) +
                      std::count_if(dropped_.begin(), dropped_.end(), unexpected);
  const auto voters = static_cast<uint32_t>(expected_.size()) + static_cast<uint32_t>(others) + rule.on_their_way;
  const uint32_t wanted = rule.quorum != 0 ? rule.quorum : voters / 2 + 1;
  return std::max(wanted, MinimumOf(rule));
}

Duration Round::Spread() const {
  const uint32_t arrived = Arrived();
  return arrived < 2 ? Duration{} : ArrivalNumber(arrived - 1) - ArrivalNumber(0);
}

uint32_t Round::TailOf(const WorkerId& worker) const {
  const auto it = tails_.find(worker);
  return it == tails_.end() ? 0 : it->second;
}

Instant Round::ArrivalNumber(size_t index) const {
  std::vector<Instant> at;
  at.reserve(Arrived());
  for (const auto& [worker, arrival] : accepted_) at.push_back(arrival.at);
  for (const auto& [worker, drop] : dropped_) at.push_back(drop.at);
  std::sort(at.begin(), at.end());
  return at[index];
}

}  // namespace atl
