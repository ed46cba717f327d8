// SPDX-License-Identifier: Apache-2.0
#include "worker/data/sample_reader.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/format/corpus_shapes.h"
#include "worker/data/blocks_ahead.h"

namespace atl {
namespace {

constexpr size_t kSampleBlocks = 256;
constexpr Duration kSourcePause = Milliseconds(500);  // after an Unavailable source

size_t MemoryBlocks(const DataSpec& data, const SampleReaderOptions& options) {
  if (options.memory_blocks != 0) return options.memory_blocks;
  return std::min(kSampleBlocks, data.corpora.size() * (size_t{data.window_blocks} + 2));
}

}  // namespace

struct SampleReader::State {
  struct Lease {
    LeaseId id;
    SampleRange range;
    uint64_t cursor = 0;  // samples before it were returned by Next
    uint64_t ahead = 0;   // samples before it are in the queue, or were returned by Next
  };
  struct Sample {
    LeaseId lease;
    uint64_t position = 0;
    std::vector<int32_t> tokens;
  };

  State(DataOrder o, CorpusManifests m, BlockSource& source, const Clock& c, size_t memory_blocks,
        size_t prefetch_samples)
      : order(std::move(o)),
        training_files(TrainingFiles(*m)),
        memory(source, m, memory_blocks),
        clock(c),
        prefetch(std::max<size_t>(1, prefetch_samples)) {}

  void Run() ATOLL_EXCLUDES(mutex);
  bool MayRead() const ATOLL_REQUIRES(mutex);
  // The lease to read next; nullptr if all are read.
  Lease* NextLease() ATOLL_REQUIRES(mutex);
  Lease* Find(LeaseId id) ATOLL_REQUIRES(mutex);
  absl::StatusOr<std::vector<int32_t>> Read(uint64_t position);
  void Deliver(LeaseId lease, uint64_t position, absl::StatusOr<std::vector<int32_t>> tokens) ATOLL_REQUIRES(mutex);
  uint64_t Remaining() const ATOLL_REQUIRES(mutex);
  std::vector<LeaseCursor> Cursors() const ATOLL_REQUIRES(mutex);
  // Waits until the queue has `samples` samples, too few are leased, the source fails, or `limit` has passed.
  absl::Status WaitFor(uint32_t samples, Duration limit) ATOLL_REQUIRES(mutex);
  SampleBatch Take(uint32_t samples) ATOLL_REQUIRES(mutex);
  // Asks blocks_ahead, if set, to prefetch the blocks of all leased samples that are not read yet.
  void KeepAhead() ATOLL_REQUIRES(mutex);

  const DataOrder order;
  const std::vector<std::vector<uint32_t>> training_files;
  BlockMemory memory;  // used by the reading thread
  const Clock& clock;
  const size_t prefetch;
  std::unique_ptr<BlocksAhead> blocks_ahead;  // null: no prefetching of blocks

  Mutex mutex;
  CondVar changed;
  std::vector<Lease> leases ATOLL_GUARDED_BY(mutex);  // in the order of reading
  std::deque<Sample> queue ATOLL_GUARDED_BY(mutex);   // at most max(prefetch, wanted)
  size_t wanted ATOLL_GUARDED_BY(mutex) = 0;
  absl::Status error ATOLL_GUARDED_BY(mutex);    // for the next caller; reading pauses until it is returned
  absl::Status trouble ATOLL_GUARDED_BY(mutex);  // the last retryable error; OK after a success
  Duration waited ATOLL_GUARDED_BY(mutex){};
  bool stopping ATOLL_GUARDED_BY(mutex) = false;
  std::jthread thread;
};

bool SampleReader::State::MayRead() const {
  if (!error.ok() || queue.size() >= std::max(prefetch, wanted)) return false;
  return std::any_of(leases.begin(), leases.end(), [](const Lease& l) { return l.ahead < l.range.end; });
}

SampleReader::State::Lease* SampleReader::State::NextLease() {
  const auto found = std::find_if(leases.begin(), leases.end(), [](const Lease& l) { return l.ahead < l.range.end; });
  return found == leases.end() ? nullptr : &*found;
}

SampleReader::State::Lease* SampleReader::State::Find(LeaseId id) {
  const auto found = std::find_if(leases.begin(), leases.end(), [id](const Lease& l) { return l.id == id; });
  return found == leases.end() ? nullptr : &*found;
}

absl::StatusOr<std::vector<int32_t>> SampleReader::State::Read(uint64_t position) {
  const SampleLocation at = order.At(position);
  std::vector<int32_t> tokens(size_t{order.sequence_length()} + 1);
  ATOLL_RETURN_IF_ERROR(memory.ReadTokens(at.corpus, training_files[at.corpus][at.shard], at.token, tokens));
  return tokens;
}

void SampleReader::State::Deliver(LeaseId lease, uint64_t position, absl::StatusOr<std::vector<int32_t>> tokens) {
  if (!tokens.ok()) {
    const absl::Status& why = tokens.status();
    if (absl::IsUnavailable(why)) {
      trouble = why;
    } else {
      // A source returns FailedPrecondition, for example, for a file without read permission. From Next, it would
      // mean that too few samples are leased.
      error = absl::IsFailedPrecondition(why) ? absl::InternalError(why.message()) : why;
    }
    return;
  }
  trouble = absl::OkStatus();
  Lease* held = Find(lease);
  if (held == nullptr || held->ahead != position) return;  // removed meanwhile
  held->ahead = position + 1;
  queue.push_back({.lease = lease, .position = position, .tokens = *std::move(tokens)});
}

void SampleReader::State::Run() {
  mutex.Lock();
  while (!stopping) {
    if (!MayRead()) {
      changed.Wait(mutex);
      continue;
    }
    const Lease next = *NextLease();
    mutex.Unlock();
    auto tokens = Read(next.ahead);
    mutex.Lock();
    const bool rest = absl::IsUnavailable(tokens.status());
    Deliver(next.id, next.ahead, std::move(tokens));
    changed.NotifyAll();
    if (rest && !stopping) changed.WaitFor(mutex, kSourcePause);
  }
  mutex.Unlock();
}

uint64_t SampleReader::State::Remaining() const {
  uint64_t out = 0;
  for (const Lease& l : leases) out += l.range.end - l.cursor;
  return out;
}

std::vector<LeaseCursor> SampleReader::State::Cursors() const {
  std::vector<LeaseCursor> out;
  for (const Lease& l : leases) out.push_back({.lease = l.id, .cursor = l.cursor});
  return out;
}

absl::Status SampleReader::State::WaitFor(uint32_t samples, Duration limit) {
  const Instant begin = clock.Now();
  const Instant end = begin + limit;
  wanted = samples;
  changed.NotifyAll();
  absl::Status result;
  while (queue.size() < samples) {
    if (Remaining() < samples) {
      result = absl::FailedPreconditionError(
          absl::StrCat(Remaining(), " samples are leased and not yet trained, but ", samples, " are needed"));
      break;
    }
    if (!error.ok()) {
      result = std::exchange(error, absl::OkStatus());
      break;
    }
    const Instant now = clock.Now();
    if (now >= end) {
      result = absl::DeadlineExceededError(absl::StrCat("no data within ", ToSeconds(limit), " s",
                                                        trouble.ok() ? "" : ": ", std::string(trouble.message())));
      break;
    }
    changed.WaitFor(mutex, end - now);
  }
  wanted = 0;
  waited = waited + (clock.Now() - begin);
  return result;
}

SampleBatch SampleReader::State::Take(uint32_t samples) {
  SampleBatch out;
  out.samples = samples;
  out.tokens.reserve(size_t{samples} * (order.sequence_length() + 1));
  for (uint32_t i = 0; i < samples; ++i) {
    const Sample& s = queue.front();
    out.tokens.insert(out.tokens.end(), s.tokens.begin(), s.tokens.end());
    Find(s.lease)->cursor = s.position + 1;
    queue.pop_front();
  }
  out.cursors = Cursors();
  return out;
}

void SampleReader::State::KeepAhead() {
  if (blocks_ahead == nullptr) return;
  std::vector<SampleRange> unread;
  for (const Lease& l : leases) unread.push_back({l.ahead, l.range.end});
  blocks_ahead->Want(std::move(unread));
}

SampleReader::SampleReader(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->thread = std::jthread([s = state_.get()] { s->Run(); });
}

SampleReader::~SampleReader() {
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.NotifyAll();
  state_->thread.join();
}

absl::StatusOr<std::unique_ptr<SampleReader>> SampleReader::Create(const DataSpec& data, CorpusManifests manifests,
                                                                   BlockSource& source, const Clock& clock,
                                                                   const SampleReaderOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(std::vector<CorpusShape> shapes, ShapesOf(data, *manifests, CorpusSplit::kTrain));
  ATOLL_ASSIGN_OR_RETURN(DataOrder order, DataOrder::Create(data, std::move(shapes)));
  auto state =
      std::make_unique<State>(order, manifests, source, clock, MemoryBlocks(data, options), options.prefetch_samples);
  if (options.ahead_blocks > 0) {
    state->blocks_ahead =
        std::make_unique<BlocksAhead>(source, std::move(order), std::move(manifests), clock, options.ahead_blocks);
  }
  return std::unique_ptr<SampleReader>(new SampleReader(std::move(state)));
}

absl::Status SampleReader::AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) {
  if (range.begin > range.end || cursor < range.begin || cursor > range.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease ", lease.value, ": cursor ", cursor, " is outside [", range.begin, ", ", range.end, "]"));
  }
  const MutexLock lock(state_->mutex);
  if (state_->Find(lease) != nullptr) return absl::OkStatus();
  state_->leases.push_back({.id = lease, .range = range, .cursor = cursor, .ahead = cursor});
  state_->KeepAhead();
  state_->changed.NotifyAll();
  return absl::OkStatus();
}

void SampleReader::RemoveLease(LeaseId lease) {
  const MutexLock lock(state_->mutex);
  std::erase_if(state_->leases, [lease](const State::Lease& l) { return l.id == lease; });
  std::erase_if(state_->queue, [lease](const State::Sample& s) { return s.lease == lease; });
  state_->KeepAhead();
  state_->changed.NotifyAll();
}

std::vector<LeaseCursor> SampleReader::Cursors() const {
  const MutexLock lock(state_->mutex);
  return state_->Cursors();
}

uint64_t SampleReader::Remaining() const {
  const MutexLock lock(state_->mutex);
  return state_->Remaining();
}

absl::StatusOr<SampleBatch> SampleReader::Next(uint32_t samples, Duration limit) {
  const MutexLock lock(state_->mutex);
  ATOLL_RETURN_IF_ERROR(state_->WaitFor(samples, limit));
  SampleBatch out = state_->Take(samples);
  state_->changed.NotifyAll();
  return out;
}

Duration SampleReader::waited() const {
  const MutexLock lock(state_->mutex);
  return state_->waited;
}

const DataOrder& SampleReader::order() const { return state_->order; }

}  // namespace atl
