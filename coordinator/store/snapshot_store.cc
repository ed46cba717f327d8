// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/snapshot_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "coordinator/store/epochs_on_disk.h"
#include "coordinator/store/pieces.h"
#include "coordinator/store/snapshot_file.h"
#include "coordinator/store/snapshots_on_disk.h"

namespace atl {
namespace {

// File: magic, header length, CRC-32C of the header, header, zeros up to kDataOffset, public copy, momentum, residual.
constexpr std::array<char, 8> kMagic = {'A', 'T', 'L', 'S', 'N', 'A', 'P', '1'};
constexpr uint64_t kDataOffset = 4096;
constexpr uint64_t kPrologueBytes = 16;
constexpr char kCheckpointManifestName[] = "manifest";
constexpr char kUnfinished[] = ".tmp";
constexpr size_t kManifestLimit = size_t{16} << 20;
constexpr uint64_t kZerosBytes = uint64_t{256} << 10;  // per read while a digest is computed
static_assert(std::endian::native == std::endian::little, "snapshots are little-endian");

constexpr char kDamageOffset[] = "atoll/damage-offset";  // payload of a status

// DataLoss for damage at `offset`, without the path, which the callers add.
absl::Status Damaged(uint64_t offset, absl::string_view what) {
  absl::Status status = absl::DataLossError(what);
  status.SetPayload(kDamageOffset, absl::Cord(absl::StrCat(offset)));
  return status;
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  if (absl::IsFailedPrecondition(status))
    return absl::FailedPreconditionError(
        absl::StrCat("snapshot ", path, ": ", status.message(), "; use the newer program"));
  if (!absl::IsDataLoss(status)) return status;
  return absl::DataLossError(absl::StrCat("snapshot ", path, " is damaged: ", status.message(),
                                          "; restore it from a backup or roll back to a checkpoint"));
}

std::string Prologue(const std::string& header) {
  std::string out(kMagic.data(), kMagic.size());
  const std::array<uint32_t, 2> numbers = {static_cast<uint32_t>(header.size()), Crc32c(0, AsBytes(header))};
  out.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  out += header;
  out.resize(kDataOffset, '\0');
  return out;
}

Digest DigestOfZeros(uint64_t bytes) {
  const std::vector<std::byte> zeros(std::min(bytes, kZerosBytes));
  DigestHasher hasher;
  for (uint64_t left = bytes; left > 0; left -= std::min<uint64_t>(left, zeros.size()))
    hasher.Update(std::span(zeros).first(std::min<uint64_t>(left, zeros.size())));
  return hasher.Finish();
}

// Computes the digest of one of the three arrays from the bytes of the state, in the order in which
// they are written.
class ArrayDigest {
 public:
  ArrayDigest(const StateShot& state, uint64_t array)
      : bytes_(state.elements() * sizeof(float)), begin_(array * bytes_), written_(begin_ < state.filled_bytes()) {}

  void Take(uint64_t at, Bytes bytes) {
    const uint64_t from = std::max(at, begin_), to = std::min(at + bytes.size(), begin_ + bytes_);
    if (from < to) hasher_.Update(bytes.subspan(from - at, to - from));
  }
  Digest Finish() const { return written_ ? hasher_.Finish() : DigestOfZeros(bytes_); }

 private:
  const uint64_t bytes_, begin_;
  const bool written_;
  DigestHasher hasher_;
};

// Writes the snapshot to the file `path`. Its header gets the digests of momentum and residual as written.
absl::Status WriteTemporary(Files& files, const std::string& path, SnapshotHeader header, StateShot& state) {
  static_assert(kDataOffset == kNewFileHead, "the header is written when its digests are known");
  ATOLL_RETURN_IF_ERROR(files.Remove(path));
  ArrayDigest momentum(state, 1), residual(state, 2);
  const NewFile file{.bytes = kDataOffset + 3 * state.elements() * sizeof(float),
                     .filled = kDataOffset + state.filled_bytes()};
  return files.WriteNewFile(path, file, [&](uint64_t offset, std::span<std::byte> out) {
    if (offset < kDataOffset) {
      header.momentum_digest = momentum.Finish();
      header.residual_digest = residual.Finish();
      std::memcpy(out.data(), Prologue(SerializeSnapshotHeader(header)).data(), out.size());
      return;
    }
    const uint64_t at = offset - kDataOffset;
    state.Read(at, out);
    state.Passed(at + out.size());
    momentum.Take(at, out);
    residual.Take(at, out);
  });
}

// `page` has the first kDataOffset bytes of the file.
absl::StatusOr<SnapshotHeader> ParseHeader(const std::string& page) {
  if (std::memcmp(page.data(), kMagic.data(), kMagic.size()) != 0) return Damaged(0, "it does not begin with ATLSNAP1");
  std::array<uint32_t, 2> numbers{};
  std::memcpy(numbers.data(), page.data() + kMagic.size(), sizeof numbers);
  if (numbers[0] > kDataOffset - kPrologueBytes) return Damaged(kMagic.size(), "its header is longer than a page");
  const std::string bytes = page.substr(kPrologueBytes, numbers[0]);
  if (Crc32c(0, AsBytes(bytes)) != numbers[1]) return Damaged(kPrologueBytes, "its header does not have its checksum");
  const size_t stray = page.find_first_not_of('\0', kPrologueBytes + numbers[0]);
  if (stray != std::string::npos) return Damaged(stray, "a byte after its header is not zero");
  absl::StatusOr<SnapshotHeader> parsed = ParseSnapshotHeader(bytes);
  if (!parsed.ok()) return Damaged(kPrologueBytes, parsed.status().message());
  if (parsed->format_revision > kSnapshotRevision) {
    return absl::FailedPreconditionError(absl::StrCat("format revision ", parsed->format_revision, " is newer than ",
                                                      kSnapshotRevision, ", which this program reads"));
  }
  return parsed;
}

absl::StatusOr<SnapshotHeader> ReadHeader(const File& file) {
  std::string page(kDataOffset, '\0');
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  if (size < kDataOffset) return Damaged(size, "it ends inside its header");
  ATOLL_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(page))));
  absl::StatusOr<SnapshotHeader> parsed = ParseHeader(page);
  if (!parsed.ok()) return parsed;
  const SnapshotHeader& header = *parsed;
  const uint64_t expected = kDataOffset + 3 * header.elements * sizeof(float);
  if (size == expected) return parsed;
  return Damaged(std::min(size, expected),
                 absl::StrCat("it has ", size, " bytes, and ", header.elements, " elements take ", expected));
}

// Whether the checkpoint is newer than a ledger with this boot number and these heads of `epoch`.
bool IsNewer(const CheckpointManifest& manifest, BootNumber boot, uint64_t epoch, const VersionVector& heads) {
  if (manifest.boot.value >= boot.value || manifest.epoch != epoch)
    return manifest.boot.value >= boot.value || manifest.epoch > epoch;
  const VersionVector& versions = manifest.record.versions;
  for (size_t i = 0; i < versions.size(); ++i) {
    if (i >= heads.size() || heads[i] < versions[i]) return true;
  }
  return false;
}

absl::StatusOr<SnapshotHeader> ReadHeaderOf(Digest layout, const File& file, const std::string& path) {
  absl::StatusOr<SnapshotHeader> header = ReadHeader(file);
  if (!header.ok()) return WithPath(header.status(), path);
  if (header->layout == layout) return header;
  return absl::FailedPreconditionError(
      absl::StrCat("snapshot ", path, " belongs to a model or fragment plan with another layout"));
}

absl::StatusOr<SnapshotHeader> ReadSnapshotOf(Digest layout, const File& file, const std::string& path,
                                              LoadedSnapshot* loaded) {
  ATOLL_RETURN_IF_ERROR(ReadHeaderOf(layout, file, path).status());
  const absl::StatusOr<SnapshotHeader> header = ReadSnapshot(file, loaded);
  return header.ok() ? header : WithPath(header.status(), path);
}

}  // namespace

absl::StatusOr<SnapshotHeader> ReadSnapshot(const File& file, LoadedSnapshot* loaded) {
  ATOLL_ASSIGN_OR_RETURN(SnapshotHeader header, ReadHeader(file));
  const uint64_t bytes = header.elements * sizeof(float);
  const auto read = [&](uint64_t array, std::vector<float>* values, auto& hasher) {
    uint64_t at = 0;
    if (values != nullptr) values->resize(header.elements);
    return ReadInPieces(file, kDataOffset + array * bytes, bytes, [&](Bytes piece) {
      hasher.Update(piece);
      if (values != nullptr) std::memcpy(values->data() + at / sizeof(float), piece.data(), piece.size());
      at += piece.size();
    });
  };
  ContentHasher parameters;
  DigestHasher momentum, residual;
  ATOLL_RETURN_IF_ERROR(read(0, loaded ? &loaded->public_copy : nullptr, parameters));
  ATOLL_RETURN_IF_ERROR(read(1, loaded ? &loaded->momentum : nullptr, momentum));
  ATOLL_RETURN_IF_ERROR(read(2, loaded ? &loaded->residual : nullptr, residual));
  if (parameters.Finish(header.at.version.value, header.layout) != header.hash)
    return Damaged(kDataOffset, "the parameters do not have their hash");
  if (momentum.Finish() != header.momentum_digest)
    return Damaged(kDataOffset + bytes, "the momentum does not have its digest");
  if (residual.Finish() != header.residual_digest)
    return Damaged(kDataOffset + 2 * bytes, "the residual does not have its digest");
  if (loaded != nullptr) loaded->header = header;
  return header;
}

std::optional<uint64_t> DamageOffset(const absl::Status& status) {
  uint64_t offset = 0;
  const auto payload = status.GetPayload(kDamageOffset);
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &offset)) return std::nullopt;
  return offset;
}

SnapshotReader::SnapshotReader(FileByPath file, SnapshotHeader header, uint64_t public_offset)
    : file_(std::move(file)), header_(std::move(header)), public_offset_(public_offset) {}

absl::Status SnapshotReader::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_bytes() || out.size() > size_bytes() - offset)
    return absl::OutOfRangeError("read beyond the public copy of a snapshot");
  ATOLL_RETURN_IF_ERROR(file_.ReadAt(public_offset_ + offset, out));
  // The header is read after the bytes: if the bytes are from a file that replaced this one, so is the header.
  std::string page(kDataOffset, '\0');
  ATOLL_RETURN_IF_ERROR(file_.ReadAt(0, std::as_writable_bytes(std::span(page))));
  const absl::StatusOr<SnapshotHeader> now = ParseHeader(page);
  if (!now.ok()) return now.status();
  if (now->hash == header_.hash) return absl::OkStatus();
  return absl::AbortedError("the snapshot was written again since the download began");
}

SnapshotStore::SnapshotStore(Files& files, DataDirectory directory, BootNumber boot)
    : files_(files), directory_(std::move(directory)), boot_(boot) {}

absl::Status SnapshotStore::Write(const SnapshotKey& key, StateShot& state, Digest hash, Digest layout) {
  const std::string path = directory_.SnapshotPath(key);
  if (files_.Exists(path)) {
    const auto there = OpenFile(path);
    if (there.ok() && (*there)->header().hash == hash && (*there)->header().layout == layout) return absl::OkStatus();
  }
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files_, directory_.root(), DirectoryOf(path)));
  const SnapshotHeader header{.format_revision = kSnapshotRevision,
                              .job = key.job,
                              .epoch = key.epoch,
                              .at = key.at,
                              .elements = state.elements(),
                              .hash = hash,
                              .layout = layout,
                              .boot = boot_};
  const std::string temporary = path + kUnfinished;
  absl::Status written = WriteTemporary(files_, temporary, header, state);
  if (written.ok()) written = files_.Rename(temporary, path);
  if (!written.ok()) {
    (void)files_.Remove(temporary);  // on a full disk an incomplete file blocks all other writes
    return written;
  }
  written = files_.SyncDirectory(DirectoryOf(path));
  if (!written.ok()) (void)files_.Remove(path);  // otherwise the next attempt would consider it durable
  return written;
}

absl::Status SnapshotStore::Write(const SnapshotKey& key, const FragmentArrays& arrays, Digest hash, Digest layout) {
  StateShot state(arrays);
  return Write(key, state, hash, layout);
}

absl::StatusOr<LoadedSnapshot> SnapshotStore::LoadFile(const std::string& path, Digest layout) const {
  ATOLL_ASSIGN_OR_RETURN(const auto file, files_.OpenForRead(path));
  LoadedSnapshot loaded;
  ATOLL_RETURN_IF_ERROR(ReadSnapshotOf(layout, *file, path, &loaded).status());
  return loaded;
}

absl::StatusOr<LoadedSnapshot> SnapshotStore::Load(const SnapshotKey& key, Digest layout) const {
  return LoadFile(directory_.SnapshotPath(key), layout);
}

absl::StatusOr<std::shared_ptr<SnapshotReader>> SnapshotStore::OpenFile(const std::string& path) const {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_.OpenForRead(path));
  absl::StatusOr<SnapshotHeader> header = ReadHeader(*file);
  if (!header.ok()) return WithPath(header.status(), path);
  return std::make_shared<SnapshotReader>(FileByPath(files_, path), *std::move(header), kDataOffset);
}

absl::StatusOr<std::shared_ptr<SnapshotReader>> SnapshotStore::OpenReader(const SnapshotKey& key) const {
  return OpenFile(directory_.SnapshotPath(key));
}

absl::StatusOr<std::vector<Version>> SnapshotsOnDisk(const Files& files, const DataDirectory& directory,
                                                     const JobId& job, uint64_t epoch, FragmentIndex fragment) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         files.List(directory.SnapshotDirectory(job, epoch, fragment)));
  std::vector<Version> versions;
  for (const std::string& name : names) {
    uint64_t version = 0;
    const bool whole = name.size() > 6 && name[0] == 'v' && name.substr(name.size() - 5) == ".snap";
    if (whole && absl::SimpleAtoi(name.substr(1, name.size() - 6), &version)) versions.push_back(Version{version});
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<std::vector<Version>> SnapshotStore::List(const JobId& job, uint64_t epoch,
                                                         FragmentIndex fragment) const {
  return SnapshotsOnDisk(files_, directory_, job, epoch, fragment);
}

absl::StatusOr<std::optional<Version>> SnapshotStore::NewestUpTo(const JobId& job, uint64_t epoch,
                                                                 FragmentIndex fragment, Version at_most) const {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, List(job, epoch, fragment));
  std::optional<Version> newest;
  for (const Version version : versions) {
    if (version <= at_most) newest = version;
  }
  return newest;
}

absl::Status SnapshotStore::DropUnfinished(const JobId& job, uint64_t epoch, FragmentIndex fragment) {
  const std::string directory = directory_.SnapshotDirectory(job, epoch, fragment);
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory));
  for (const std::string& name : names) {
    if (name.ends_with(kUnfinished)) ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(directory, name)));
  }
  return absl::OkStatus();
}

absl::Status SnapshotStore::DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from,
                                       bool keep_first, std::optional<Version> pinned) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<Version> versions, List(job, epoch, fragment));
  for (const Version version : versions) {
    if (version < keep_from && !(keep_first && version == versions.front()) && version != pinned)
      ATOLL_RETURN_IF_ERROR(files_.Remove(directory_.SnapshotPath({job, epoch, {fragment, version}})));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SnapshotStore::DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most) {
  return RemoveEpochsBefore(files_, directory_.SnapshotsDirectory(job), epoch, most);
}

absl::Status SnapshotStore::WriteCheckpoint(const CheckpointRecord& record, uint64_t epoch) {
  const std::string directory = directory_.CheckpointDirectory(record.job, record.step);
  ATOLL_RETURN_IF_ERROR(MakeDurableDirectory(files_, directory_.root(), directory));
  for (uint32_t i = 0; i < record.versions.size(); ++i) {
    const std::string link = directory_.CheckpointFragmentPath(record.job, record.step, FragmentIndex{i});
    ATOLL_RETURN_IF_ERROR(files_.Remove(link));
    ATOLL_RETURN_IF_ERROR(
        files_.HardLink(directory_.SnapshotPath({record.job, epoch, {FragmentIndex{i}, record.versions[i]}}), link));
  }
  ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(directory));
  const std::string manifest = SerializeCheckpointManifest({record, epoch, boot_});
  ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files_, JoinPath(directory, kCheckpointManifestName), AsBytes(manifest)));
  return files_.SyncDirectory(DirectoryOf(directory));
}

absl::StatusOr<CheckpointManifest> SnapshotStore::ReadManifest(const JobId& job, uint64_t step) const {
  const std::string path = JoinPath(directory_.CheckpointDirectory(job, step), kCheckpointManifestName);
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files_, path, kManifestLimit));
  auto manifest = ParseCheckpointManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  if (manifest->record.job != job || manifest->record.step != step)
    return absl::DataLossError(absl::StrCat(path, " is the manifest of another checkpoint"));
  return manifest;
}

absl::StatusOr<CheckpointRecord> SnapshotStore::ReadCheckpoint(const JobId& job, uint64_t step) const {
  ATOLL_ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(job, step));
  return std::move(manifest.record);
}

absl::StatusOr<LoadedSnapshot> SnapshotStore::LoadCheckpointFragment(const JobId& job, uint64_t step,
                                                                     FragmentIndex fragment, Digest layout) const {
  return LoadFile(directory_.CheckpointFragmentPath(job, step, fragment), layout);
}

absl::StatusOr<SnapshotHeader> SnapshotStore::CheckCheckpointFragment(const JobId& job, uint64_t step,
                                                                      FragmentIndex fragment, Digest layout) const {
  const std::string path = directory_.CheckpointFragmentPath(job, step, fragment);
  ATOLL_ASSIGN_OR_RETURN(const auto file, files_.OpenForRead(path));
  return ReadSnapshotOf(layout, *file, path, nullptr);
}

absl::StatusOr<std::shared_ptr<SnapshotReader>> SnapshotStore::OpenCheckpointReader(const JobId& job, uint64_t step,
                                                                                    FragmentIndex fragment) const {
  return OpenFile(directory_.CheckpointFragmentPath(job, step, fragment));
}

absl::Status SnapshotStore::DropCheckpoint(const JobId& job, uint64_t step) {
  const std::string directory = directory_.CheckpointDirectory(job, step);
  ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(directory, kCheckpointManifestName)));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory));
  for (const std::string& name : names) ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(directory, name)));
  return files_.Remove(directory);
}

absl::StatusOr<std::vector<uint64_t>> SnapshotStore::DropCheckpointsBut(const std::set<uint64_t>& known,
                                                                        const JobId& job, uint64_t epoch,
                                                                        const VersionVector& heads) {
  std::vector<uint64_t> kept;
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory_.CheckpointsDirectory(job)));
  for (const std::string& name : names) {
    uint64_t step = 0;
    const bool named = absl::SimpleAtoi(name, &step) && JoinPath(directory_.CheckpointsDirectory(job), name) ==
                                                            directory_.CheckpointDirectory(job, step);
    if (!named || known.contains(step)) continue;
    const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(job, step);
    if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
    if (manifest.ok() && IsNewer(*manifest, boot_, epoch, heads)) {
      kept.push_back(step);
    } else {
      ATOLL_RETURN_IF_ERROR(DropCheckpoint(job, step));
    }
  }
  return kept;
}

}  // namespace atl
