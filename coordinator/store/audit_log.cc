// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/audit_log.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atl {
namespace {

constexpr char kSuffix[] = ".jsonl";
constexpr size_t kDigits = 10;
constexpr uint64_t kTailPieceBytes = 64 << 10;  // bytes per read at the end of a file; a line has a few hundred bytes

// The numbers of the log's files, ascending. Other names are ignored.
std::vector<uint64_t> NumbersOf(const std::vector<std::string>& names) {
  std::vector<uint64_t> out;
  for (const std::string& name : names) {
    if (name.size() != kDigits + sizeof kSuffix - 1 || !name.ends_with(kSuffix)) continue;
    if (name.find_first_not_of("0123456789") != kDigits) continue;
    out.push_back(std::stoull(name.substr(0, kDigits)));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Files& files, const DataDirectory& directory,
                                                         uint64_t file_bytes) {
  const std::string audit = JoinPath(directory.EventsDirectory(), "audit");
  std::unique_ptr<AuditLog> log(new AuditLog(files, directory.root(), audit, file_bytes));
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files, directory.root(), audit));
  ATOLL_RETURN_IF_ERROR(log->FindEnd());
  return log;
}

std::string AuditLog::PathOf(uint64_t number) const { return absl::StrFormat("%s/%010d.jsonl", directory_, number); }

// The newest file may be empty, because the process died after its creation. Then the last line is
// in the previous file.
absl::Status AuditLog::FindEnd() {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory_));
  const std::vector<uint64_t> numbers = NumbersOf(names);
  if (numbers.empty()) return absl::OkStatus();
  number_ = numbers.back();
  for (size_t i = numbers.size(); i-- > 0;) {
    ATOLL_ASSIGN_OR_RETURN(const bool found, TakeUp(numbers[i]));
    if (found) return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Cuts the file after its last complete line and sets previous_ to the hash of that line. False if no
// line is complete: the file is then empty. Reads the file from its end, only as far as that line needs.
absl::StatusOr<bool> AuditLog::TakeUp(uint64_t number) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> read, files_.OpenForRead(PathOf(number)));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, read->Size());
  std::string text;  // the file from `from` on
  uint64_t from = size;
  size_t whole = 0;                   // bytes of `text` up to the end of the last complete line; 0: none in `text`
  size_t before = std::string::npos;  // position of the line feed before that line
  while (from > 0 && before == std::string::npos) {
    const uint64_t piece = std::min(from, kTailPieceBytes);
    std::string head(piece, '\0');
    ATOLL_RETURN_IF_ERROR(read->ReadAt(from - piece, std::as_writable_bytes(std::span(head))));
    from -= piece;
    text.insert(0, head);
    if (whole > 0) {
      whole += piece;
    } else if (const size_t end = text.rfind("}\n"); end != std::string::npos) {  // a crash may leave zeros after it
      whole = end + 2;
    }
    if (whole > 0) before = text.rfind('\n', whole - 2);
  }
  if (from + whole < size) {
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_.OpenForAppend(PathOf(number)));
    ATOLL_RETURN_IF_ERROR(file->Truncate(whole == 0 ? 0 : from + whole));
    ATOLL_RETURN_IF_ERROR(file->Sync());
  }
  if (whole == 0) return false;
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  previous_ = Sha256Of(AsBytes(text.substr(begin, whole - 1 - begin)));
  return true;
}

absl::Status AuditLog::Append(std::span<const std::string> records) {
  std::string text;
  Sha256 previous = previous_;
  uint64_t lost = lost_;
  for (const std::string& record : records) {
    std::string line = absl::StrCat("{\"previous\":\"", previous.Hex(), "\",");
    if (lost > 0) absl::StrAppend(&line, "\"lost\":\"", std::exchange(lost, 0), "\",");
    line += record.substr(1);
    previous = Sha256Of(AsBytes(line));
    text += line + "\n";
  }
  absl::Status written = Write(text);
  if (!written.ok()) {
    lost_ += records.size();
    return written;
  }
  previous_ = previous;
  lost_ = 0;
  absl::Status flushed = file_->Sync();
  if (!flushed.ok()) {
    file_.reset();
    ++number_;
  }
  return flushed;
}

absl::Status AuditLog::Write(const std::string& text) {
  if (file_ == nullptr) ATOLL_RETURN_IF_ERROR(OpenFile());
  ATOLL_ASSIGN_OR_RETURN(uint64_t size, file_->Size());
  if (size >= file_bytes_) {
    file_.reset();
    ++number_;
    ATOLL_RETURN_IF_ERROR(OpenFile());
    ATOLL_RETURN_IF_ERROR(DropOld());
    size = 0;
  }
  absl::Status appended = file_->Append(AsBytes(text));
  if (!appended.ok() && !file_->Truncate(size).ok()) {  // the file ends with half a line: nothing may be appended
    file_.reset();
    ++number_;
  }
  return appended;
}

absl::Status AuditLog::OpenFile() {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_.OpenForAppend(PathOf(number_)));
  ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(directory_));
  file_ = std::move(file);
  return absl::OkStatus();
}

absl::Status AuditLog::DropOld() const {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory_));
  for (const uint64_t number : NumbersOf(names)) {
    if (number + kKeptFiles <= number_) ATOLL_RETURN_IF_ERROR(files_.Remove(PathOf(number)));
  }
  return absl::OkStatus();
}

}  // namespace atl
