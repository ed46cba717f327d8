#include "common/format/safetensors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/check.h"
#include "common/format/json_object.h"

namespace atl {
namespace {

constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr size_t kChunkElements = size_t{1} << 18;  // converted at once: 1 MiB of floats

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

uint64_t LittleEndian64(std::span<const std::byte> raw) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(raw[i]) << (8 * i);
  return value;
}

absl::StatusOr<SafetensorsHeader> ReadHeader(const File& file, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  if (size < 8)
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", size, " bytes and is no safetensors file"));
  std::byte length_bytes[8];
  ATOLL_RETURN_IF_ERROR(file.ReadAt(0, length_bytes));
  const uint64_t length = LittleEndian64(length_bytes);
  if (length > kSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " says that its header has ", length, " bytes; at most ",
                                                   kSafetensorsHeaderBytes, " are read"));
  }
  if (length > size - 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is cut: its header needs ", length, " bytes and ", size - 8, " are there"));
  }
  std::string text(length, '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(8, std::as_writable_bytes(std::span(text))));
  auto header = ParseSafetensorsHeader(text, size - 8 - length);
  if (!header.ok()) return Annotate(header.status(), path);
  return header;
}

// An index may only name files beside it.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name[0] != '.';
}

absl::StatusOr<std::map<std::string, std::string>> ParseWeightMap(const std::string& text) {
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, 4));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return absl::InvalidArgumentError("weight_map is missing");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& item : root["weight_map"].items()) {
    if (!item.value().is_string() || !IsPlainName(item.value().get<std::string>())) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight_map.", item.key(), " must be the name of a file beside it"));
    }
    weight_map[item.key()] = item.value().get<std::string>();
  }
  if (weight_map.size() > kSafetensorsTensors) {
    return absl::InvalidArgumentError(absl::StrCat("it names more than ", kSafetensorsTensors, " tensors"));
  }
  return weight_map;
}

absl::StatusOr<std::string> Resolve(const Files& files, const std::string& path) {
  if (EndsWith(path, ".safetensors") || EndsWith(path, ".json")) return path;
  for (const char* name : {kIndexName, kSingleName}) {
    if (files.Exists(JoinPath(path, name))) return JoinPath(path, name);
  }
  return absl::NotFoundError(absl::StrCat(path, " holds neither ", kSingleName, " nor ", kIndexName));
}

}  // namespace

absl::Status SafetensorsReader::AddFile(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(auto file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadHeader(*file, path));
  if (shards_.empty()) metadata_ = header.metadata;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (!entries_.emplace(tensor.name, Entry{shards_.size(), tensor}).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, " holds tensor \"", tensor.name, "\" a second time"));
    }
  }
  if (entries_.size() > kSafetensorsTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint of ", path, " has more than ", kSafetensorsTensors, " tensors"));
  }
  shards_.push_back(Shard{path, std::move(file), header.data_offset_bytes});
  return absl::OkStatus();
}

absl::Status SafetensorsReader::AddIndex(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kSafetensorsHeaderBytes));
  const auto weight_map = ParseWeightMap(text);
  if (!weight_map.ok()) return Annotate(weight_map.status(), path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : *weight_map) names.insert(file);
  for (const std::string& name : names) ATOLL_RETURN_IF_ERROR(AddFile(files, JoinPath(DirectoryOf(path), name)));
  for (const auto& [tensor, file] : *weight_map) {
    const auto entry = entries_.find(tensor);
    if (entry == entries_.end() || shards_[entry->second.shard].path != JoinPath(DirectoryOf(path), file)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " places tensor \"", tensor, "\" in ", file, ", which does not hold it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const Files& files,
                                                                           const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string resolved, Resolve(files, path));
  if (!EndsWith(resolved, ".json")) return OpenFile(files, resolved);
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader());
  ATOLL_RETURN_IF_ERROR(reader->AddIndex(files, resolved));
  return reader;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::OpenFile(const Files& files,
                                                                               const std::string& path) {
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader());
  ATOLL_RETURN_IF_ERROR(reader->AddFile(files, path));
  return reader;
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

absl::Status SafetensorsReader::ReadTensor(const std::string& name, std::span<float> out, bool require_finite) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor != nullptr && tensor->elements != out.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\" has ", tensor->elements, " elements, not the ", out.size(), " asked for"));
  }
  return ReadElements(name, 0, out, require_finite);
}

absl::Status SafetensorsReader::ReadElements(const std::string& name, uint64_t begin, std::span<float> out,
                                             bool require_finite) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor \"", name, "\""));
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
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\" of ", shard.path,
                                                     " is not finite at element ",
                                                     begin + done + static_cast<uint64_t>(bad - values.begin())));
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
  if (!finished_ && file_ != nullptr) files_.Remove(path_ + ".tmp").IgnoreError();  // nothing left to report it to
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
