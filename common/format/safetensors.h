// SPDX-License-Identifier: Apache-2.0
// The subset of safetensors that Atoll reads and writes (docs/formats/safetensors.md): tensors of
// F32, F16 and BF16. A file may also contain tensors of other dtypes; their values are not read.
// The reader validates everything: header at most 16 MiB, at most 65,536 tensors, rank at most 8,
// first byte '{', nesting at most 4, no duplicate key, tensors contiguous from 0 without gap or
// overlap, exact file length. Errors of opening and reading name the file.
#ifndef ATOLL_COMMON_FORMAT_SAFETENSORS_H_
#define ATOLL_COMMON_FORMAT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/checkpoint_files.h"
#include "common/format/number_formats.h"

namespace atl {

constexpr uint64_t kSafetensorsHeaderBytes = uint64_t{16} << 20;   // longer headers are refused
constexpr uint64_t kSafetensorsHeadersBytes = uint64_t{32} << 20;  // of the files of a checkpoint; more are refused
constexpr size_t kSafetensorsTensors = 65536;                      // in one file; more are refused
constexpr size_t kSafetensorsRank = 8;
constexpr uint64_t kSafetensorsAlignment = 4096;  // of the data area in written files; readers accept any

// One tensor as declared: row-major, little-endian.
struct SafetensorsTensor {
  std::string name;
  NumberType type = NumberType::kF32;
  std::vector<uint64_t> shape;   // empty: a scalar
  uint64_t elements = 0;         // product of shape
  uint64_t offset_bytes = 0;     // offset in the data area
  uint64_t size_bytes = 0;       // elements * NumberBytes(type); for another dtype, as declared
  std::string other_dtype = {};  // if not empty, an unsupported dtype; `type` is then undefined
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // by offset, then name
  std::map<std::string, std::string> metadata;
  uint64_t data_offset_bytes = 0;  // offset of the data area in the file
  uint64_t data_bytes = 0;         // size of the data area, exactly covered by the tensors
};

// Checks and parses the JSON text of a header. InvalidArgument describes the fault. `data_bytes` is
// the length of the data area that follows. Pure; fuzzed.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& json, uint64_t data_bytes);

// Returns the header as written: 8 bytes length, JSON, spaces up to kSafetensorsAlignment. Sets
// offsets, sizes and elements of `tensors`, in order. Adds "format": "pt" to `metadata`, because
// transformers requires it.
std::string SerializeSafetensorsHeader(std::vector<SafetensorsTensor>& tensors,
                                       std::map<std::string, std::string> metadata = {});

// A checkpoint open for reading. Immutable after Open, so that several threads may call ReadTensor.
// Keeps the files open and reads with pread, so that truncation of an open file causes an error,
// not a signal.
class SafetensorsReader {
 public:
  // Opens the files selected by FindCheckpointFiles. NotFound when missing; InvalidArgument when
  // damaged, or when the index places a tensor in a file that lacks it; FailedPrecondition for a
  // Git LFS pointer.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const Files& files, const std::string& path);
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const Files& files, const CheckpointFiles& found);
  // Opens one .safetensors file, whatever its name.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenFile(const Files& files, const std::string& path);

  std::vector<std::string> paths() const;
  // All tensors, by name.
  std::vector<std::string> Names() const;
  // nullptr when missing.
  const SafetensorsTensor* Find(const std::string& name) const;
  // Returns the file of an existing tensor.
  const std::string& PathOf(const std::string& name) const;
  // NotFound when missing; InvalidArgument when two files contain the tensor or its dtype is not
  // supported.
  absl::Status CheckReadable(const std::string& name) const;
  // Converts the whole tensor into `out`, which must have the tensor's number of elements. The errors of
  // CheckReadable; InvalidArgument for another number of elements, or with `require_finite` for a NaN or infinite
  // element, the first of which is named.
  absl::Status ReadTensor(const std::string& name, std::span<float> out, bool require_finite = true) const;
  // ReadTensor for elements [begin, begin + out.size()) of the row-major tensor only.
  absl::Status ReadElements(const std::string& name, uint64_t begin, std::span<float> out,
                            bool require_finite = true) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of the first file

 private:
  struct Shard {
    std::string path;
    std::unique_ptr<File> file;
    uint64_t data_offset_bytes = 0;
  };
  struct Entry {
    size_t shard = 0;
    SafetensorsTensor tensor;
  };
  SafetensorsReader() = default;
  absl::Status AddFile(const Files& files, const std::string& path);
  bool IsIn(const std::string& tensor, const std::string& path) const;

  std::vector<Shard> shards_;
  uint64_t header_bytes_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, size_t> again_;  // tensors that a second shard also contains -> that shard
  std::map<std::string, std::string> metadata_;
};

// Writes one file sequentially: all tensors are declared first, then their values are appended in
// the same order, in any number of parts. Not thread-safe. Only Finish replaces the file at the path;
// the destructor of an unfinished writer removes the temporary file.
class SafetensorsWriter {
 public:
  // InvalidArgument for a duplicate, empty or reserved name, or beyond the reader's limits on tensors and rank.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(Files& files, std::string path,
                                                                   std::vector<SafetensorsTensor> tensors,
                                                                   std::map<std::string, std::string> metadata = {});
  ~SafetensorsWriter();
  // Appends the next values, converted to the declared type. FailedPrecondition for more values
  // than declared.
  absl::Status Append(std::span<const float> values);
  // FailedPrecondition when values are missing. Flushes, renames into place, flushes the directory.
  absl::Status Finish();

 private:
  SafetensorsWriter(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  Files& files_;
  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<SafetensorsTensor> tensors_;
  size_t tensor_ = 0;    // the tensor being written
  uint64_t filled_ = 0;  // its elements so far
  bool finished_ = false;
};

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_SAFETENSORS_H_
