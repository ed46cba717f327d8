// SPDX-License-Identifier: Apache-2.0
#include "common/format/safetensors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/check.h"
#include "common/format/json_object.h"

namespace atl {
namespace {

constexpr size_t kChunkElements = size_t{1} << 18;  // elements per conversion: 1 MiB of floats
constexpr uint64_t kHeadBytes = 64;                 // used to recognise files of another kind

uint64_t LittleEndian64(std::span<const std::byte> raw) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(raw[i]) << (8 * i);
  return value;
}

// Advice only for a truncated file.
constexpr char kCopyAgain[] = "; the copy is incomplete: copy it again";

absl::StatusOr<SafetensorsHeader> ReadHeader(const File& file, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  std::string head(static_cast<size_t>(std::min(size, kHeadBytes)), '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(head))));
  ATOLL_RETURN_IF_ERROR(CheckNotLfsPointer(path, head));
  if (size < 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", size, " bytes and is not a safetensors file", kCopyAgain));
  }
  const uint64_t length = LittleEndian64(std::as_bytes(std::span(head)).first(8));
  if (length > kSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   " is not a safetensors file: its first 8 bytes give a header of ",
                                                   length, " bytes, more than the limit of ", kSafetensorsHeaderBytes));
  }
  if (length > size - 8) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is truncated: its header needs ", length,
                                                   " bytes after the first 8, but the file has ", size - 8,
                                                   kCopyAgain));
  }
  std::string text(length, '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(8, std::as_writable_bytes(std::span(text))));
  auto header = ParseSafetensorsHeader(text, size - 8 - length);
  if (!header.ok()) return Annotate(header.status(), path);
  return header;
}

}  // namespace

absl::Status SafetensorsReader::AddFile(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(auto file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadHeader(*file, path));
  header_bytes_ += header.data_offset_bytes;
  if (header_bytes_ > kSafetensorsHeadersBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint of ", path, " has headers of more than ",
                                                   kSafetensorsHeadersBytes, " bytes in all"));
  }
  if (shards_.empty()) metadata_ = header.metadata;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (!entries_.emplace(tensor.name, Entry{shards_.size(), tensor}).second) again_[tensor.name] = shards_.size();
  }
  if (entries_.size() > kSafetensorsTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint of ", path, " has more than ", kSafetensorsTensors, " tensors"));
  }
  shards_.push_back(Shard{path, std::move(file), header.data_offset_bytes});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const Files& files,
                                                                           const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const CheckpointFiles found, FindCheckpointFiles(files, path));
  return Open(files, found);
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const Files& files,
                                                                           const CheckpointFiles& found) {
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader());
  for (const std::string& path : found.paths) ATOLL_RETURN_IF_ERROR(reader->AddFile(files, path));
  for (const auto& [tensor, path] : found.placed) {
    if (reader->IsIn(tensor, path)) continue;
    return absl::InvalidArgumentError(absl::StrCat(found.index_path, " places tensor \"", tensor, "\" in ",
                                                   path.substr(path.rfind('/') + 1), ", which does not contain it"));
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::OpenFile(const Files& files,
                                                                               const std::string& path) {
  CheckpointFiles found;
  found.paths.push_back(path);
  return Open(files, found);
}

bool SafetensorsReader::IsIn(const std::string& tensor, const std::string& path) const {
  const auto entry = entries_.find(tensor);
  if (entry == entries_.end()) return false;
  const auto again = again_.find(tensor);
  return shards_[entry->second.shard].path == path || (again != again_.end() && shards_[again->second].path == path);
}

std::vector<std::string> SafetensorsReader::paths() const {
  std::vector<std::string> paths;
  for (const Shard& shard : shards_) paths.push_back(shard.path);
  return paths;
}

std::vector<std::string> SafetensorsReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsTensor* SafetensorsReader::Find(const std::string& name) const {
  const auto entry = entries_.find(name);
  return entry == entries_.end() ? nullptr : &entry->second.tensor;
}

const std::string& SafetensorsReader::PathOf(const std::string& name) const {
  return shards_[entries_.at(name).shard].path;
}

absl::Status SafetensorsReader::CheckReadable(const std::string& name) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor \"", name, "\""));
  const std::string& path = shards_[entry->second.shard].path;
  if (const auto again = again_.find(name); again != again_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\" is both in ", path, " and in ",
                                                   shards_[again->second].path, "; remove the file of the older save"));
  }
  const std::string& other = entry->second.tensor.other_dtype;
  if (other.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", name, "\" of ", path, " has dtype ", other,
                   "; only F32, F16 and BF16 are supported: save the model in one of them"));
}

absl::Status SafetensorsReader::ReadTensor(const std::string& name, std::span<float> out, bool require_finite) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor != nullptr && tensor->elements != out.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\" has ", tensor->elements,
                                                   " elements instead of ", out.size(), " asked for"));
  }
  return ReadElements(name, 0, out, require_finite);
}

absl::Status SafetensorsReader::ReadElements(const std::string& name, uint64_t begin, std::span<float> out,
                                             bool require_finite) const {
  ATOLL_RETURN_IF_ERROR(CheckReadable(name));
  const auto entry = entries_.find(name);
  const SafetensorsTensor& tensor = entry->second.tensor;
  const Shard& shard = shards_[entry->second.shard];
  if (begin > tensor.elements || out.size() > tensor.elements - begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\" of ", shard.path, " has only ", tensor.elements, " elements"));
  }
  const size_t element_bytes = NumberBytes(tensor.type);
  std::vector<std::byte> raw(std::min(out.size(), kChunkElements) * element_bytes);
  for (size_t done = 0; done < out.size();) {
    const size_t count = std::min(out.size() - done, kChunkElements);
    const std::span<std::byte> part(raw.data(), count * element_bytes);
    const uint64_t at = shard.data_offset_bytes + tensor.offset_bytes + (begin + done) * element_bytes;
    ATOLL_RETURN_IF_ERROR(shard.file->ReadAt(at, part));
    const std::span<float> values = out.subspan(done, count);
    DecodeNumbers(tensor.type, part, values);
    const auto bad = std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
    if (require_finite && bad != values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", name, "\" of ", shard.path, " is not finite at element ",
                       begin + done + static_cast<uint64_t>(bad - values.begin()), "; use another checkpoint"));
    }
    done += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    Files& files, std::string path, std::vector<SafetensorsTensor> tensors,
    std::map<std::string, std::string> metadata) {
  std::set<std::string> names;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor name \"", tensor.name, "\" is empty, reserved or used twice"));
    }
    if (tensor.shape.size() > kSafetensorsRank) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has too many dimensions"));
    }
  }
  if (tensors.size() > kSafetensorsTensors) {
    return absl::InvalidArgumentError(absl::StrCat(path, " would hold more than ", kSafetensorsTensors, " tensors"));
  }
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(files, std::move(path)));
  writer->tensors_ = std::move(tensors);
  const std::string header = SerializeSafetensorsHeader(writer->tensors_, std::move(metadata));
  const std::string temporary = writer->path_ + ".tmp";
  ATOLL_RETURN_IF_ERROR(files.Remove(temporary));
  ATOLL_ASSIGN_OR_RETURN(writer->file_, files.OpenForAppend(temporary));
  ATOLL_RETURN_IF_ERROR(writer->file_->Append(AsBytes(header)));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!finished_ && file_ != nullptr) files_.Remove(path_ + ".tmp").IgnoreError();  // an error cannot be reported here
}

absl::Status SafetensorsWriter::Append(std::span<const float> values) {
  std::vector<std::byte> raw;
  while (!values.empty()) {
    while (tensor_ < tensors_.size() && filled_ == tensors_[tensor_].elements) {
      ++tensor_;
      filled_ = 0;
    }
    if (tensor_ == tensors_.size()) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": more values than were declared"));
    }
    const SafetensorsTensor& tensor = tensors_[tensor_];
    const uint64_t left = tensor.elements - filled_;
    const size_t count = static_cast<size_t>(std::min<uint64_t>({values.size(), left, kChunkElements}));
    raw.resize(count * NumberBytes(tensor.type));
    EncodeNumbers(tensor.type, values.first(count), raw);
    ATOLL_RETURN_IF_ERROR(file_->Append(raw));
    filled_ += count;
    values = values.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  while (tensor_ < tensors_.size() && filled_ == tensors_[tensor_].elements) {
    ++tensor_;
    filled_ = 0;
  }
  if (tensor_ != tensors_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": tensor \"", tensors_[tensor_].name, "\" has ", filled_,
                                                      " of ", tensors_[tensor_].elements, " values"));
  }
  ATOLL_RETURN_IF_ERROR(file_->Sync());
  ATOLL_RETURN_IF_ERROR(files_.Rename(path_ + ".tmp", path_));
  finished_ = true;
  return files_.SyncDirectory(DirectoryOf(path_));
}

}  // namespace atl
