#include "coordinator/backup/copy.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl::backup {
namespace {

absl::Status CopyOne(Files& files, const std::string& from, const Sha256& hash, const std::string& to) {
  ATOLL_RETURN_IF_ERROR(files.Remove(to));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, files.OpenForRead(from));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, source->Size());
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files.OpenForAppend(to));
  Sha256Hasher hasher;
  std::vector<std::byte> buffer(std::min<uint64_t>(kBufferBytes, size));
  for (uint64_t at = 0; at < size; at += buffer.size()) {
    const std::span<std::byte> part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size - at));
    ATOLL_RETURN_IF_ERROR(source->ReadAt(at, part));
    ATOLL_RETURN_IF_ERROR(copy->Append(part));
    hasher.Update(part);
  }
  if (hasher.Finish() != hash) {
    return absl::DataLossError(absl::StrCat(from, " does not have the SHA-256 that ", kManifestName,
                                            " names: it was changed or is damaged; take another backup"));
  }
  return copy->Sync();
}

// True when `path` is there with this content; then it is durable. A break may have come before its flush.
absl::StatusOr<bool> IsThere(Files& files, const std::string& path, const Sha256& hash) {
  if (!files.Exists(path)) return false;
  ATOLL_ASSIGN_OR_RETURN(const Sha256 held, HashFile(files, path));
  if (held != hash) return false;
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForAppend(path));
  ATOLL_RETURN_IF_ERROR(file->Sync());
  return true;
}

}  // namespace

absl::Status CopyFiles(Files& files, const Manifest& manifest, const std::string& from, const std::string& to) {
  std::map<Sha256, std::string> snapshots;  // what is copied, by content
  std::set<std::string> directories = {to};
  for (const auto& [path, hash] : manifest.files) {
    const std::string target = JoinPath(to, path);
    for (std::string at = DirectoryOf(target); at.size() > to.size(); at = DirectoryOf(at)) directories.insert(at);
    ATOLL_RETURN_IF_ERROR(files.MakeDirectory(DirectoryOf(target)));
    ATOLL_ASSIGN_OR_RETURN(const bool there, IsThere(files, target, hash));
    const auto same = snapshots.find(hash);
    if (there) {
      // It stays as it is.
    } else if (MayBeLinked(path) && same != snapshots.end()) {
      ATOLL_RETURN_IF_ERROR(files.Remove(target));
      ATOLL_RETURN_IF_ERROR(files.HardLink(same->second, target));
    } else {
      ATOLL_RETURN_IF_ERROR(CopyOne(files, JoinPath(from, path), hash, target));
    }
    if (MayBeLinked(path)) snapshots.emplace(hash, target);
  }
  for (const std::string& directory : directories) ATOLL_RETURN_IF_ERROR(files.SyncDirectory(directory));
  return absl::OkStatus();
}

absl::Status RemoveOthers(Files& files, const Manifest& earlier, const Manifest& manifest, const std::string& to) {
  for (const auto& [path, hash] : earlier.files) {
    const auto wanted = manifest.files.find(path);
    if (wanted == manifest.files.end() || wanted->second != hash)
      ATOLL_RETURN_IF_ERROR(files.Remove(JoinPath(to, path)));
  }
  for (const char* name : {"ledger.sqlite-wal", "ledger.sqlite-shm"})
    ATOLL_RETURN_IF_ERROR(files.Remove(JoinPath(to, name)));
  return absl::OkStatus();
}

}  // namespace atl::backup
