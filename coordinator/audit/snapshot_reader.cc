// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/snapshot_reader.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/file_bytes.h"
#include "coordinator/audit/segment_reader.h"

namespace atl::audit {
namespace {

constexpr char kMagic[] = "ATLSNAP1";
constexpr uint64_t kFixedBytes = 16, kPageBytes = 4096;
constexpr uint32_t kRevision = 1;
constexpr uint64_t kManifestLimit = uint64_t{64} << 20;
constexpr uint64_t kElementLimit = uint64_t{1} << 40;

void PutLittle64(uint64_t value, std::string& out) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

// The content hash, computed from a file or from memory: leaves of 4 KiB under one root.
class Tree {
 public:
  void Leaf(Bytes leaf) { PutDigest(DigestOf(leaf)); }
  Digest Root(uint64_t version, const Digest& layout) {
    PutLittle64(version, fed_);
    PutDigest(layout);
    root_.Update(AsBytes(fed_));
    return root_.Finish();
  }

 private:
  void PutDigest(const Digest& digest) {
    PutLittle64(digest.high, fed_);
    PutLittle64(digest.low, fed_);
    if (fed_.size() < kPageBytes) return;
    root_.Update(AsBytes(fed_));
    fed_.clear();
  }
  DigestHasher root_;
  std::string fed_;
};

// Why and where the file is unusable.
struct Fault {
  std::optional<uint64_t> offset;
  std::string problem;
  bool newer = false;
};

class Reader {
 public:
  Reader(const File& file, uint64_t file_bytes) : file_(file), file_bytes_(file_bytes) {}

  std::optional<Fault> Header(v1::SnapshotHeader& header) const {
    if (file_bytes_ < kPageBytes) return Fault{file_bytes_, "the file ends before its first 4,096 bytes", false};
    const absl::StatusOr<std::string> page = ReadText(file_, 0, kPageBytes);
    if (!page.ok()) return Fault{0, std::string(page.status().message()), false};
    if (page->compare(0, 8, kMagic) != 0) return Fault{0, "it does not begin with ATLSNAP1", false};
    const uint32_t bytes = Little32(*page, 8);
    if (bytes > kPageBytes - kFixedBytes) return Fault{8, "its header is longer than can be", false};
    const std::string text = page->substr(kFixedBytes, bytes);
    if (Crc32c(0, AsBytes(text)) != Little32(*page, 12))
      return Fault{kFixedBytes, "its header does not have its CRC", false};
    if (!header.ParseFromString(text)) return Fault{kFixedBytes, "its header cannot be read", false};
    const size_t stray = page->find_first_not_of('\0', kFixedBytes + bytes);
    if (stray != std::string::npos) return Fault{stray, "a byte that must be zero is not", false};
    if (header.format_revision() > kRevision)
      return Fault{kFixedBytes,
                   absl::StrCat("format revision ", header.format_revision(), " is newer than ", kRevision,
                                ", which this program knows"),
                   true};
    const bool fits = header.elements() <= kElementLimit && file_bytes_ == kPageBytes + 12 * header.elements();
    if (!fits)
      return Fault{
          std::min(file_bytes_, kPageBytes + 12 * std::min(header.elements(), kElementLimit)),
          absl::StrCat("it has ", file_bytes_, " bytes, which is not what ", header.elements(), " elements take"),
          false};
    return std::nullopt;
  }

  // Reads the n-th array into `out` (may be null) and checks it.
  std::optional<Fault> Array(const v1::SnapshotHeader& header, int n, std::vector<float>* out) const {
    const uint64_t begin = kPageBytes + static_cast<uint64_t>(n) * 4 * header.elements();
    Tree tree;
    DigestHasher whole;
    if (out != nullptr) out->reserve(header.elements());
    for (uint64_t at = 0; at < 4 * header.elements(); at += kPageBytes) {
      const absl::StatusOr<std::string> leaf =
          ReadText(file_, begin + at, std::min(kPageBytes, 4 * header.elements() - at));
      if (!leaf.ok()) return Fault{begin + at, std::string(leaf.status().message()), false};
      tree.Leaf(AsBytes(*leaf));
      whole.Update(AsBytes(*leaf));
      for (size_t i = 0; out != nullptr && i < leaf->size(); i += 4)
        out->push_back(std::bit_cast<float>(Little32(*leaf, i)));
    }
    if (n == 0) {
      const Digest hash = tree.Root(header.at().version(), FromProto(header.layout()));
      if (hash == FromProto(header.hash())) return std::nullopt;
      return Fault{begin, "the public copy does not have the content hash of the header", false};
    }
    const Digest wanted = FromProto(n == 1 ? header.momentum_digest() : header.residual_digest());
    if (whole.Finish() == wanted) return std::nullopt;
    return Fault{begin,
                 absl::StrCat("the ", n == 1 ? "momentum" : "residual", " does not have the digest of the header"),
                 false};
  }

 private:
  const File& file_;
  const uint64_t file_bytes_;
};

std::optional<Fault> ReadAll(const Files& files, const std::string& path, v1::SnapshotHeader& header,
                             FragmentState* state) {
  const absl::StatusOr<std::unique_ptr<File>> file = files.OpenForRead(path);
  if (!file.ok()) return Fault{std::nullopt, std::string(file.status().message()), false};
  const absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok()) return Fault{std::nullopt, std::string(size.status().message()), false};
  const Reader reader(**file, *size);
  if (std::optional<Fault> fault = reader.Header(header)) return fault;
  std::vector<float>* const arrays[3] = {state ? &state->public_copy : nullptr, state ? &state->momentum : nullptr,
                                         state ? &state->residual : nullptr};
  for (int n = 0; n < 3; ++n) {
    if (std::optional<Fault> fault = reader.Array(header, n, arrays[n])) return fault;
  }
  if (state != nullptr) state->version = header.at().version();
  return std::nullopt;
}

}  // namespace

Digest HashOfFragment(std::span<const float> public_copy, uint64_t version, const Digest& layout) {
  constexpr size_t kLeaf = kPageBytes / sizeof(float);
  Tree tree;
  for (size_t at = 0; at < public_copy.size(); at += kLeaf)
    tree.Leaf(std::as_bytes(public_copy.subspan(at, std::min(kLeaf, public_copy.size() - at))));
  return tree.Root(version, layout);
}

std::optional<v1::SnapshotHeader> ReadSnapshot(const Files& files, const std::string& path, const std::string& job,
                                               Report& report, FragmentState* state) {
  v1::SnapshotHeader header;
  const std::optional<Fault> fault = ReadAll(files, path, header, state);
  if (!fault) return header;
  report.Damage({path, fault->offset, job, fault->problem, fault->newer ? kNewerProgram : kRestoreFile});
  return std::nullopt;
}

std::optional<v1::CheckpointManifest> ReadManifest(const Files& files, const std::string& path, const std::string& job,
                                                   Report& report) {
  const absl::StatusOr<std::string> text = ReadWholeFile(files, path, kManifestLimit);
  v1::CheckpointManifest manifest;
  std::string problem;
  const char* way_out = kRestoreFile;
  if (!text.ok()) {
    problem = std::string(text.status().message());
  } else if (!manifest.ParseFromString(*text) || manifest.SerializeAsString() != *text) {
    problem = "it is no checkpoint manifest";
  } else if (manifest.format_revision() > kRevision) {
    problem = absl::StrCat("format revision ", manifest.format_revision(), " is newer than ", kRevision,
                           ", which this program knows");
    way_out = kNewerProgram;
  } else if (!manifest.GetReflection()->GetUnknownFields(manifest).empty()) {
    problem = "it has a field that this revision does not have";
  } else {
    return manifest;
  }
  report.Damage({path, 0, job, problem, way_out});
  return std::nullopt;
}

}  // namespace atl::audit
