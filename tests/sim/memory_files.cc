#include "tests/sim/memory_files.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace atl {
namespace {

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<MemoryFiles::Node> node, std::string path)
      : node_(std::move(node)), path_(std::move(path)) {}
  absl::Status Append(Bytes data) override {
    node_->content.insert(node_->content.end(), data.begin(), data.end());
    return absl::OkStatus();
  }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > node_->content.size() || out.size() > node_->content.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat("read ", path_, ": the file ends at offset ", node_->content.size()));
    }
    std::copy_n(node_->content.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    node_->durable = node_->content;
    return absl::OkStatus();
  }
  absl::Status Truncate(uint64_t size) override {
    node_->content.resize(size);
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Size() const override { return node_->content.size(); }

 private:
  std::shared_ptr<MemoryFiles::Node> node_;
  std::string path_;
};

absl::Status Absent(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("open ", path, ": no such file"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<File>> MemoryFiles::OpenForAppend(const std::string& path) {
  std::shared_ptr<Node>& node = names_[path];
  if (node == nullptr) node = std::make_shared<Node>();
  return std::make_unique<MemoryFile>(node, path);
}

absl::StatusOr<std::unique_ptr<File>> MemoryFiles::OpenForRead(const std::string& path) const {
  const auto it = names_.find(path);
  if (it == names_.end()) return Absent(path);
  return std::make_unique<MemoryFile>(it->second, path);
}

absl::Status MemoryFiles::Rename(const std::string& from, const std::string& to) {
  const auto it = names_.find(from);
  if (it == names_.end()) return Absent(from);
  std::shared_ptr<Node> node = it->second;
  names_.erase(it);
  names_[to] = std::move(node);
  return absl::OkStatus();
}

absl::Status MemoryFiles::Remove(const std::string& path) {
  names_.erase(path);
  directories_.erase(path);
  return absl::OkStatus();
}

absl::Status MemoryFiles::HardLink(const std::string& from, const std::string& to) {
  const auto it = names_.find(from);
  if (it == names_.end()) return Absent(from);
  names_[to] = it->second;
  return absl::OkStatus();
}

absl::Status MemoryFiles::MakeDirectory(const std::string& path) {
  directories_[path] = true;
  return absl::OkStatus();
}

absl::Status MemoryFiles::SyncDirectory(const std::string& path) {
  std::erase_if(durable_names_,
                [&](const auto& entry) { return DirectoryOf(entry.first) == path && names_.count(entry.first) == 0; });
  for (const auto& [name, node] : names_) {
    if (DirectoryOf(name) == path) durable_names_[name] = node;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryFiles::List(const std::string& path) const {
  std::set<std::string> found;
  const std::string prefix = path + "/";
  for (const auto& [name, node] : names_) {
    if (name.compare(0, prefix.size(), prefix) == 0)
      found.insert(name.substr(prefix.size(), name.find('/', prefix.size()) - prefix.size()));
  }
  return std::vector<std::string>(found.begin(), found.end());
}

bool MemoryFiles::Exists(const std::string& path) const {
  return names_.count(path) > 0 || directories_.count(path) > 0;
}

absl::StatusOr<Files::Space> MemoryFiles::SpaceAt(const std::string&) const {
  return Space{uint64_t{1} << 40, uint64_t{1} << 41};
}

void MemoryFiles::SetContent(const std::string& path, std::vector<std::byte> content) {
  auto node = std::make_shared<Node>();
  node->content = node->durable = std::move(content);
  names_[path] = durable_names_[path] = std::move(node);
}

std::vector<std::string> MemoryFiles::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, node] : names_) paths.push_back(path);
  return paths;
}

void MemoryFiles::Crash() {
  std::map<std::string, std::shared_ptr<Node>> after;
  for (const auto& [name, node] : durable_names_) {
    auto copy = std::make_shared<Node>();
    copy->content = copy->durable = node->durable;
    after[name] = std::move(copy);
  }
  names_ = after;
  durable_names_ = std::move(after);
}

}  // namespace atl
