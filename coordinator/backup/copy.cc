// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/copy.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/store/pieces.h"

namespace atl::backup {
namespace {

absl::Status CopyOne(Files& files, const std::string& from, const Sha256& hash, const std::string& to) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, files.OpenForRead(from));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, source->Size());
  ATOLL_ASSIGN_OR_RETURN(const Sha256 copied, CopyBytes(files, *source, size, to));
  if (copied == hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(from, " does not have the SHA-256 that ", kManifestName,
                                          " names: it was changed or is damaged; use another backup"));
}

// Makes `to` a hard link to `from`, in place of an existing file. False: not possible, as on another file system.
absl::StatusOr<bool> LinkWherePossible(Files& files, const std::string& from, const std::string& to) {
  ATOLL_RETURN_IF_ERROR(files.Remove(to));
  absl::Status linked = files.HardLink(from, to);
  if (absl::IsResourceExhausted(linked)) return linked;
  return linked.ok();
}

// True if `path` has this content; it is then durable, even if an earlier copy stopped before its flush.
absl::StatusOr<bool> IsThere(Files& files, const std::string& path, const Sha256& hash) {
  if (!files.Exists(path)) return false;
  ATOLL_ASSIGN_OR_RETURN(const Sha256 held, HashFile(files, path));
  if (held != hash) return false;
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForAppend(path));
  ATOLL_RETURN_IF_ERROR(file->Sync());
  return true;
}

// The SHA-256 of the first `bytes` bytes of `from` if `path` has exactly these; they are then durable.
absl::StatusOr<std::optional<Sha256>> FindSame(Files& files, const File& from, uint64_t bytes,
                                               const std::string& path) {
  if (!files.Exists(path)) return std::nullopt;
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> held, files.OpenForAppend(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, held->Size());
  if (size != bytes) return std::nullopt;
  Sha256Hasher hasher;
  std::vector<std::byte> ours(std::min<uint64_t>(kBufferBytes, size)), theirs(ours.size());
  for (uint64_t at = 0; at < size; at += ours.size()) {
    const size_t part = std::min<uint64_t>(ours.size(), size - at);
    ATOLL_RETURN_IF_ERROR(from.ReadAt(at, std::span(ours).first(part)));
    ATOLL_RETURN_IF_ERROR(held->ReadAt(at, std::span(theirs).first(part)));
    if (std::memcmp(ours.data(), theirs.data(), part) != 0) return std::nullopt;
    hasher.Update(std::span(ours).first(part));
  }
  ATOLL_RETURN_IF_ERROR(held->Sync());
  return hasher.Finish();
}

absl::Status SyncDirectoriesOf(Files& files, const Manifest& manifest, const std::string& to) {
  std::set<std::string> directories = {to};
  for (const auto& [path, hash] : manifest.files) {
    for (std::string at = DirectoryOf(JoinPath(to, path)); at.size() > to.size(); at = DirectoryOf(at))
      directories.insert(at);
  }
  for (const std::string& directory : directories) ATOLL_RETURN_IF_ERROR(files.SyncDirectory(directory));
  return absl::OkStatus();
}

class CutCopier {
 public:
  CutCopier(Files& files, const std::string& from, const std::string& to, const Room& room, Manifest& manifest)
      : files_(files), from_(from), to_(to), room_(room), manifest_(manifest) {}

  absl::Status Copy(CutFile& cut) {
    const std::string target = JoinPath(to_, cut.path);
    ATOLL_RETURN_IF_ERROR(files_.MakeDirectory(DirectoryOf(target)));
    const auto copied = MayBeLinked(cut.path) ? by_inode_.find(cut.inode) : by_inode_.end();
    if (copied != by_inode_.end()) {
      manifest_.files[cut.path] = manifest_.files.at(copied->second);
      return Link(copied->second, target, cut.bytes);
    }
    ATOLL_RETURN_IF_ERROR(room_.Allows(cut.bytes));
    ATOLL_ASSIGN_OR_RETURN(const Sha256 hash, CopyContent(cut, target));
    manifest_.files[cut.path] = hash;
    if (MayBeLinked(cut.path)) {
      by_inode_.emplace(cut.inode, cut.path);
      const auto [same, first] = by_content_.emplace(hash, cut.path);
      if (!first) return Link(same->second, target, cut.bytes);
    }
    manifest_.bytes += cut.bytes;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Sha256> CopyContent(CutFile& cut, const std::string& target) {
    std::unique_ptr<File> source = std::move(cut.file);
    if (source == nullptr) {
      auto opened = files_.OpenForRead(JoinPath(from_, cut.path));
      if (absl::IsNotFound(opened.status()))
        return absl::FailedPreconditionError(
            absl::StrCat(JoinPath(from_, cut.path),
                         " was dropped before it was copied, because the copy needs more open files than the limit of "
                         "this process; raise the limit (ulimit -n, LimitNOFILE)"));
      if (!opened.ok()) return opened.status();
      source = *std::move(opened);
    }
    ATOLL_ASSIGN_OR_RETURN(const std::optional<Sha256> same, FindSame(files_, *source, cut.bytes, target));
    if (same) return *same;
    return CopyBytes(files_, *source, cut.bytes, target);
  }

  absl::Status Link(const std::string& copied, const std::string& target, uint64_t bytes) {
    ATOLL_ASSIGN_OR_RETURN(const bool linked, LinkWherePossible(files_, JoinPath(to_, copied), target));
    if (linked) return absl::OkStatus();
    ATOLL_RETURN_IF_ERROR(room_.Allows(bytes));
    manifest_.bytes += bytes;
    return CopyOne(files_, JoinPath(to_, copied), manifest_.files.at(copied), target);
  }

  Files& files_;
  const std::string from_, to_;
  const Room& room_;
  Manifest& manifest_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> by_inode_;  // copied files that may be linked
  std::map<Sha256, std::string> by_content_;                       // copied files that may be linked
};

}  // namespace

absl::StatusOr<Sha256> CopyBytes(Files& files, const File& from, uint64_t bytes, const std::string& to) {
  ATOLL_RETURN_IF_ERROR(files.Remove(to));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files.OpenForAppend(to));
  Sha256Hasher hasher;
  std::vector<std::byte> buffer(std::min<uint64_t>(kBufferBytes, bytes));
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const std::span<std::byte> part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), bytes - at));
    ATOLL_RETURN_IF_ERROR(from.ReadAt(at, part));
    ATOLL_RETURN_IF_ERROR(copy->Append(part));
    hasher.Update(part);
  }
  ATOLL_RETURN_IF_ERROR(copy->Sync());
  return hasher.Finish();
}

absl::Status CopyFiles(Files& files, const Manifest& manifest, const std::string& from, const std::string& to) {
  std::map<Sha256, std::string> snapshots;  // copied ones, by content
  for (const auto& [path, hash] : manifest.files) {
    const std::string target = JoinPath(to, path);
    ATOLL_RETURN_IF_ERROR(files.MakeDirectory(DirectoryOf(target)));
    ATOLL_ASSIGN_OR_RETURN(const bool there, IsThere(files, target, hash));
    const auto same = snapshots.find(hash);
    if (there) {
      // Keep the existing file.
    } else if (MayBeLinked(path) && same != snapshots.end()) {
      ATOLL_ASSIGN_OR_RETURN(const bool linked, LinkWherePossible(files, same->second, target));
      if (!linked) ATOLL_RETURN_IF_ERROR(CopyOne(files, JoinPath(from, path), hash, target));
    } else {
      ATOLL_RETURN_IF_ERROR(CopyOne(files, JoinPath(from, path), hash, target));
    }
    if (MayBeLinked(path)) snapshots.emplace(hash, target);
  }
  return SyncDirectoriesOf(files, manifest, to);
}

absl::Status CopyCut(Files& files, Cut& cut, const std::string& from, const std::string& to, const Room& room,
                     Manifest& manifest) {
  manifest.files = cut.manifest.files;
  manifest.bytes = cut.manifest.bytes;
  CutCopier copier(files, from, to, room, manifest);
  for (size_t i = 0; i < cut.files.size(); ++i) {
    const absl::Status copied = copier.Copy(cut.files[i]);
    const bool appended_to = IsAppendedTo(cut.files[i].path);
    const bool last = appended_to && (i + 1 == cut.files.size() || !IsAppendedTo(cut.files[i + 1].path));
    if (appended_to && absl::IsOutOfRange(copied))
      return absl::AbortedError(
          absl::StrCat(JoinPath(from, cut.files[i].path), " was truncated while it was copied; try again"));
    if (last && StartOf(files, from) != cut.start)
      return absl::AbortedError(absl::StrCat("a coordinator was started on ", from, " while it was copied; try again"));
    ATOLL_RETURN_IF_ERROR(copied);
  }
  return SyncDirectoriesOf(files, manifest, to);
}

absl::Status RemoveStrays(Files& files, const Manifest& manifest, const std::string& to) {
  ATOLL_ASSIGN_OR_RETURN(std::vector<std::string> paths, ListStateFiles(to));
  for (const char* name : {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"}) paths.emplace_back(name);
  for (const std::string& path : paths) {
    if (!manifest.files.contains(path)) ATOLL_RETURN_IF_ERROR(files.Remove(JoinPath(to, path)));
  }
  return absl::OkStatus();
}

}  // namespace atl::backup
