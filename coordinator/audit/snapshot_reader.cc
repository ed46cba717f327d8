// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/snapshot_reader.h"

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"

namespace atl::audit {
namespace {

constexpr uint64_t kManifestLimit = uint64_t{64} << 20;

// FailedPrecondition means a newer revision, and nothing else.
absl::StatusOr<SnapshotHeader> Read(const Files& files, const std::string& path, LoadedSnapshot* loaded) {
  const absl::StatusOr<std::unique_ptr<File>> file = files.OpenForRead(path);
  if (!file.ok()) return absl::InternalError(file.status().message());
  return atl::ReadSnapshot(**file, loaded);
}

// A manifest has one form: other bytes of the same meaning are damage.
absl::StatusOr<CheckpointManifest> Read(const Files& files, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(files, path, kManifestLimit);
  if (!text.ok()) return absl::InternalError(text.status().message());
  absl::StatusOr<CheckpointManifest> manifest = ParseCheckpointManifest(*text);
  if (!manifest.ok() || SerializeCheckpointManifest(*manifest) == *text) return manifest;
  return absl::DataLossError("it is no checkpoint manifest");
}

template <typename Content>
std::optional<Content> Reported(absl::StatusOr<Content> read, std::optional<uint64_t> offset, const std::string& path,
                                const std::string& job, Report& report) {
  if (read.ok()) return *std::move(read);
  report.Damage({path, offset, job, std::string(read.status().message()),
                 absl::IsFailedPrecondition(read.status()) ? kNewerProgram : kRestoreFile});
  return std::nullopt;
}

}  // namespace

std::optional<SnapshotHeader> ReadSnapshot(const Files& files, const std::string& path, const std::string& job,
                                           Report& report, LoadedSnapshot* loaded) {
  const absl::StatusOr<SnapshotHeader> read = Read(files, path, loaded);
  return Reported(read, DamageOffset(read.status()), path, job, report);
}

std::optional<CheckpointManifest> ReadManifest(const Files& files, const std::string& path, const std::string& job,
                                               Report& report) {
  return Reported(Read(files, path), 0, path, job, report);
}

}  // namespace atl::audit
