// SPDX-License-Identifier: Apache-2.0
// Updates that are kept when their segments are dropped, for workers that catch up from an older
// snapshot. Each is a segment of its own with only the header and the update.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/segment_format.h"

namespace atl {
namespace {

constexpr uint64_t kCopyPieceBytes = uint64_t{256} << 10;
constexpr char kUnfinished[] = ".new";

// The records to be copied.
struct Found {
  std::optional<ScannedRecord> header, update;
};

absl::Status CopyRecord(const File& from, const ScannedRecord& record, const RecordHeaderBytes& header, File& to) {
  ATOLL_RETURN_IF_ERROR(to.Append(header));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < record.header.payload_bytes; at += piece.size()) {
    piece.resize(std::min(kCopyPieceBytes, record.header.payload_bytes - at));
    ATOLL_RETURN_IF_ERROR(from.ReadAt(record.payload_offset + at, piece));
    ATOLL_RETURN_IF_ERROR(to.Append(piece));
  }
  return absl::OkStatus();
}

// No flush is needed: the digest detects the damage of a power failure, and no state is built from
// this file.
absl::Status Copy(const File& from, const Found& found, File& to) {
  RecordHeader first = found.header->header, second = found.update->header;
  first.previous = first.flushed_bytes = 0;
  const RecordHeaderBytes first_bytes = EncodeRecordHeader(first);
  second.sequence = first.sequence + 1;
  second.previous = ChainOf(first_bytes);
  second.flushed_bytes = 0;
  ATOLL_RETURN_IF_ERROR(CopyRecord(from, *found.header, first_bytes, to));
  return CopyRecord(from, *found.update, EncodeRecordHeader(second), to);
}

}  // namespace

absl::Status RoundLog::KeepUpdate(const RoundKey& key) {
  const std::string path = directory_.KeptUpdatePath(key), unfinished = path + kUnfinished;
  if (files_.Exists(path)) return absl::OkStatus();
  const std::string segment = directory_.SegmentPath(key);
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> from, files_.OpenForRead(segment));
  Found found;
  const auto visit = [&found](const ScannedRecord& record, Bytes) {
    (record.header.type == RecordType::kSegmentHeader ? found.header : found.update) = record;
    return absl::OkStatus();
  };
  ATOLL_RETURN_IF_ERROR(ScanSegment(*from, segment, visit, ScanOf::kUpdate).status());
  if (!found.header || !found.update) return absl::NotFoundError(absl::StrCat("no update in ", segment));
  ATOLL_RETURN_IF_ERROR(files_.MakeDirectory(DirectoryOf(path)));
  ATOLL_RETURN_IF_ERROR(files_.Remove(unfinished));  // left by a process that died
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, files_.OpenForAppend(unfinished));
  absl::Status copied = Copy(*from, found, *to);
  if (copied.ok()) copied = files_.Rename(unfinished, path);
  if (!copied.ok()) (void)files_.Remove(unfinished);
  return copied;
}

bool RoundLog::HasUpdate(const RoundKey& key) const {
  return files_.Exists(directory_.SegmentPath(key)) || files_.Exists(directory_.KeptUpdatePath(key));
}

absl::Status RoundLog::DropKeptUpdates(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from) {
  const std::string directory = DirectoryOf(directory_.KeptUpdatePath({job, epoch, {fragment, {}}}));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory));
  for (const std::string& name : names) {
    uint64_t version = 0;
    const size_t dot = name.find('.');
    const bool known = name.starts_with('v') && absl::SimpleAtoi(name.substr(1, dot - 1), &version);
    if (!known || version >= keep_from.value) continue;
    ForgetUpdate({job, epoch, {fragment, Version{version}}});
    ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(directory, name)));
  }
  return absl::OkStatus();
}

}  // namespace atl
