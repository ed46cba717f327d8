// SPDX-License-Identifier: Apache-2.0
// One open segment of the round log: the file, its contents, and appending to it. Used by the .cc
// files of the round log, and by audits, which only read.
#ifndef ATOLL_COORDINATOR_STORE_ROUND_SEGMENT_H_
#define ATOLL_COORDINATOR_STORE_ROUND_SEGMENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/segment_format.h"

namespace atl {

// A contiguous range of a contribution's bytes in the file.
struct RoundChunk {
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
};

struct RoundContribution {
  uint32_t slot = 0;
  uint64_t length = 0;
  DigestHasher hasher;  // over the bytes so far
  std::vector<RoundChunk> chunks;
  bool accepted = false;
  AcceptedRecord record;  // its header; time and boot once accepted
};

// The bytes of a segment that one worker may use: kTakenFactor times the size of its contribution,
// plus kTakenSlack. A worker may restart an upload or send small pieces, but not without limit.
constexpr uint64_t kTakenFactor = 8, kTakenSlack = uint64_t{16} << 20;
constexpr uint64_t kChunkHeadBytes = 12;  // slot, offset

// The first bytes of a payload about a contribution: its slot.
std::string SlotHead(uint32_t slot);

// One open segment file and what is in it.
struct RoundSegment {
  RoundSegment(std::unique_ptr<File> f, std::string p, BootNumber b)
      : file(std::move(f)), path(std::move(p)), boot(b) {}

  absl::Status Scan(const RoundKey& key, Digest layout, ScanOf of = ScanOf::kAll) ATOLL_REQUIRES(mutex);
  absl::Status Visit(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitHeader(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitBegin(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitChunk(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitAccepted(Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status VisitUpdate(const ScannedRecord& record, Bytes head) ATOLL_REQUIRES(mutex);
  absl::Status CheckIdentity(const RoundKey& key, Digest layout) ATOLL_REQUIRES(mutex);

  // Appends one record whose payload is `head`, then `body`. After an error the file is restored to
  // its previous length. If that fails, all later appends and flushes fail.
  absl::Status AppendRecord(RecordType type, std::span<const Bytes> head, std::span<const Bytes> body = {})
      ATOLL_REQUIRES(mutex);
  absl::Status Flush() ATOLL_REQUIRES(mutex);
  // FailedPrecondition if `more` further bytes would exceed the share of a worker whose
  // contribution has `encoded_bytes` (kTakenFactor, kTakenSlack), counted over all its uploads of
  // this round.
  absl::Status CheckTaken(const WorkerId& worker, uint64_t encoded_bytes, uint64_t more) const ATOLL_REQUIRES(mutex);
  RoundContribution* FindSlot(uint32_t slot) ATOLL_REQUIRES(mutex);
  RoundContribution* FindWorker(const WorkerId& worker) ATOLL_REQUIRES(mutex);
  absl::Status Abandon(const WorkerId& worker) ATOLL_REQUIRES(mutex);
  absl::Status CheckComplete(const WorkerId& worker) ATOLL_REQUIRES(mutex);

  Mutex mutex;
  const std::unique_ptr<File> file;
  const std::string path;
  const BootNumber boot;
  bool has_header ATOLL_GUARDED_BY(mutex) = false;
  SegmentHeader header ATOLL_GUARDED_BY(mutex);
  std::map<WorkerId, RoundContribution> contributions ATOLL_GUARDED_BY(mutex);
  std::map<WorkerId, uint64_t> taken
      ATOLL_GUARDED_BY(mutex);  // bytes in the file, with replaced and abandoned contributions
  uint32_t next_slot ATOLL_GUARDED_BY(mutex) = 1;
  bool has_update ATOLL_GUARDED_BY(mutex) = false;
  UpdateInfo update ATOLL_GUARDED_BY(mutex);
  RoundChunk update_bytes ATOLL_GUARDED_BY(mutex);
  uint64_t file_bytes ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t flushed_bytes ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t cut_bytes ATOLL_GUARDED_BY(mutex) = 0;  // torn tail removed by the open
  uint64_t next_sequence ATOLL_GUARDED_BY(mutex) = 0;
  uint64_t chain ATOLL_GUARDED_BY(mutex) = 0;
  absl::Status broken ATOLL_GUARDED_BY(mutex);
  std::vector<Bytes> pieces
      ATOLL_GUARDED_BY(mutex);  // of the record being appended; a member so that its memory is reused
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_ROUND_SEGMENT_H_
