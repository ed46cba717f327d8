// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/flush_watch.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/forwarded_files.h"
#include "common/base/stop_wait.h"
#include "common/base/upper_median.h"

namespace atl {
namespace {

void Remember(std::vector<double>& values, double value) {
  if (values.size() == FlushWatch::kRemembered) values.erase(values.begin());
  values.push_back(value);
}

std::string Spoken(Duration d) { return absl::StrFormat("%.3g s", ToSeconds(d)); }

class WatchedFile final : public File {
 public:
  WatchedFile(std::unique_ptr<File> file, std::string path, FlushWatch& watch)
      : file_(std::move(file)), path_(std::move(path)), watch_(watch) {}

  absl::Status Append(Bytes data) override {
    appended_ += data.size();
    return file_->Append(data);
  }
  absl::Status AppendPieces(std::span<const Bytes> pieces) override {
    for (const Bytes& piece : pieces) appended_ += piece.size();
    return file_->AppendPieces(pieces);
  }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override { return file_->ReadAt(offset, out); }
  absl::Status Sync() override {
    const FlushWatch::Flush flush(watch_, FlushKind::kSync, path_, std::exchange(appended_, 0));
    return file_->Sync();
  }
  absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

 private:
  const std::unique_ptr<File> file_;
  const std::string path_;
  FlushWatch& watch_;
  uint64_t appended_ = 0;  // since the last flush
};

class WatchedFiles final : public ForwardedFiles {
 public:
  WatchedFiles(std::unique_ptr<Files> files, FlushWatch& watch) : ForwardedFiles(std::move(files)), watch_(watch) {}

  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, inner().OpenForAppend(path));
    return std::make_unique<WatchedFile>(std::move(file), path, watch_);
  }
  absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kWholeFile, path, file.filled);
    return inner().WriteNewFile(path, file, fill);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kSync, path, 0);
    return inner().SyncDirectory(path);
  }

 private:
  FlushWatch& watch_;
};

class WatchedLedger final : public Ledger {
 public:
  WatchedLedger(std::unique_ptr<Ledger> ledger, std::string path, FlushWatch& watch)
      : ledger_(std::move(ledger)), path_(std::move(path)), watch_(watch) {}

  absl::Status Commit(const std::vector<LedgerRecord>& records) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kTransaction, path_, records.size() * kPageBytes);
    return ledger_->Commit(records);
  }
  absl::StatusOr<RecoveredState> Recover() override { return ledger_->Recover(); }
  absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                  Version after, size_t limit) const override {
    return ledger_->Rounds(job, epoch, fragment, after, limit);
  }
  absl::Status PutToken(const TokenRecord& token) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kTransaction, path_, kPageBytes);
    return ledger_->PutToken(token);
  }
  absl::Status DropToken(const std::string& id) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kTransaction, path_, kPageBytes);
    return ledger_->DropToken(id);
  }
  absl::StatusOr<std::vector<TokenRecord>> Tokens() const override { return ledger_->Tokens(); }
  absl::Status PutRevocation(const RevocationRecord& revocation) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kTransaction, path_, kPageBytes);
    return ledger_->PutRevocation(revocation);
  }
  absl::Status DropRevocation(const std::string& name) override {
    const FlushWatch::Flush flush(watch_, FlushKind::kTransaction, path_, kPageBytes);
    return ledger_->DropRevocation(name);
  }
  absl::StatusOr<std::vector<RevocationRecord>> Revocations() const override { return ledger_->Revocations(); }

 private:
  static constexpr uint64_t kPageBytes = 4096;  // changed by one record, approximately

  const std::unique_ptr<Ledger> ledger_;
  const std::string path_;
  FlushWatch& watch_;
};

}  // namespace

FlushWatch::Flush::Flush(FlushWatch& watch, FlushKind kind, std::string file, uint64_t bytes)
    : watch_(watch), kind_(kind), file_(std::move(file)), bytes_(bytes), began_(watch.clock_.Now()) {
  const MutexLock lock(watch_.mutex_);
  told_next_ = began_ + kFloor + watch_.Usually(kind_, bytes_) * kTimesUsual;
  place_ = watch_.under_way_.insert(watch_.under_way_.end(), this);
}

FlushWatch::Flush::~Flush() { watch_.End(*this); }

Duration FlushWatch::Usually(FlushKind kind, uint64_t bytes) const {
  const Shown& shown = shown_[static_cast<size_t>(kind)];
  const double rate = shown.bytes_per_second.empty() ? kUnmeasuredBytesPerSecond : UpperMedian(shown.bytes_per_second);
  const double small = shown.small_seconds.empty() ? 0 : UpperMedian(shown.small_seconds);
  return Nanoseconds(std::llround((small + static_cast<double>(bytes) / rate) * 1e9));
}

void FlushWatch::Tell(const Flush& flush, Duration taken) {
  const bool measured = !shown_[static_cast<size_t>(flush.kind_)].bytes_per_second.empty();
  const Duration usually = Usually(flush.kind_, flush.bytes_);
  log_.Warn("flush takes long", {{"file", flush.file_},
                                 {"bytes", flush.bytes_},
                                 {"for", Spoken(taken)},
                                 {"usually", Spoken(usually)},
                                 {"why", absl::StrFormat("%s is too long for a flush that took %s at the speed of the "
                                                         "newest flushes%s; its callers are blocked: check the disk",
                                                         Spoken(kFloor + usually * kTimesUsual), Spoken(usually),
                                                         measured ? "" : " (no rate was measured yet: 10 MB/s)")}});
}

void FlushWatch::Look() {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  for (Flush* flush : under_way_) {
    if (now < flush->told_next_) continue;
    Tell(*flush, now - flush->began_);
    flush->told_ = true;
    flush->told_next_ = now + kAgainEvery;
  }
}

void FlushWatch::End(Flush& flush) {
  const MutexLock lock(mutex_);
  under_way_.erase(flush.place_);
  const Duration taken = clock_.Now() - flush.began_;
  Shown& shown = shown_[static_cast<size_t>(flush.kind_)];
  if (flush.bytes_ < kMeasuredBytes) {
    Remember(shown.small_seconds, ToSeconds(taken));
  } else if (taken.ns > 0) {
    Remember(shown.bytes_per_second, static_cast<double>(flush.bytes_) / ToSeconds(taken));
  }
  if (flush.told_) log_.Info("flush ended", {{"file", flush.file_}, {"bytes", flush.bytes_}, {"took", Spoken(taken)}});
}

void FlushWatch::Run(const std::stop_token& stop) {
  for (; !stop.stop_requested(); WaitForStop(stop, kLookEvery)) Look();
}

Duration FlushWatch::Oldest() const {
  const MutexLock lock(mutex_);
  return under_way_.empty() ? Duration{} : clock_.Now() - under_way_.front()->began_;
}

std::unique_ptr<Files> WithFlushWatch(std::unique_ptr<Files> files, FlushWatch& watch) {
  return std::make_unique<WatchedFiles>(std::move(files), watch);
}

std::unique_ptr<Ledger> WithFlushWatch(std::unique_ptr<Ledger> ledger, std::string path, FlushWatch& watch) {
  return std::make_unique<WatchedLedger>(std::move(ledger), std::move(path), watch);
}

}  // namespace atl
