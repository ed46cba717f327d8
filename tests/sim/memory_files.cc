// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/memory_files.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/random.h"

namespace atl {
namespace {

class MemoryFile final : public File {
 public:
  MemoryFile(MemoryFiles& disk, std::shared_ptr<MemoryFiles::Node> node, std::string path)
      : disk_(disk), node_(std::move(node)), path_(std::move(path)) {
    disk_.Opened(path_);
  }
  ~MemoryFile() override { disk_.Closed(path_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  absl::Status Append(Bytes data) override {
    absl::Status met = disk_.Meet("append", path_);
    if (disk_.TakesHalf(met)) data = data.first(data.size() / 2);
    if (!met.ok() && !disk_.TakesHalf(met)) return met;
    node_->content.insert(node_->content.end(), data.begin(), data.end());
    return met;
  }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > node_->content.size() || out.size() > node_->content.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat("read ", path_, ": the file ends at offset ", node_->content.size()));
    }
    std::copy_n(node_->content.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    ATOLL_RETURN_IF_ERROR(disk_.Meet("sync", path_));
    node_->Sync();
    return absl::OkStatus();
  }
  absl::Status Truncate(uint64_t size) override {
    ATOLL_RETURN_IF_ERROR(disk_.Meet("truncate", path_));
    node_->Truncate(size);
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Size() const override { return node_->content.size(); }

 private:
  MemoryFiles& disk_;
  std::shared_ptr<MemoryFiles::Node> node_;
  std::string path_;
};

absl::Status Absent(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("open ", path, ": no such file"));
}

}  // namespace

void MemoryFiles::Node::Sync() {
  durable.resize(content.size());
  std::copy(content.begin() + static_cast<std::ptrdiff_t>(same), content.end(),
            durable.begin() + static_cast<std::ptrdiff_t>(same));
  same = content.size();
}

void MemoryFiles::Node::WriteAt(uint64_t offset, Bytes data) {
  if (content.size() < offset + data.size()) content.resize(offset + data.size());
  std::copy(data.begin(), data.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
  same = std::min<size_t>(same, offset);
}

void MemoryFiles::Node::Truncate(uint64_t size) {
  content.resize(size);
  same = std::min<size_t>(same, size);
}

absl::StatusOr<std::unique_ptr<File>> MemoryFiles::OpenForAppend(const std::string& path) {
  if (names_.count(path) == 0) ATOLL_RETURN_IF_ERROR(Meet("create", path));
  std::shared_ptr<Node>& node = names_[path];
  if (node == nullptr) node = std::make_shared<Node>();
  return std::make_unique<MemoryFile>(*this, node, path);
}

std::shared_ptr<MemoryFiles::Node> MemoryFiles::Open(const std::string& path, bool create) {
  const auto it = names_.find(path);
  if (it != names_.end()) return it->second;
  if (!create || !Meet("create", path).ok()) return nullptr;
  return names_[path] = std::make_shared<Node>();
}

void MemoryFiles::CopyDiskOf(const MemoryFiles& other) {
  names_ = other.durable_names_;
  durable_names_ = other.durable_names_;
  Crash();
}

absl::StatusOr<std::unique_ptr<File>> MemoryFiles::OpenForRead(const std::string& path) const {
  const auto it = names_.find(path);
  if (it == names_.end()) return Absent(path);
  // A file opened for reading is never written.
  return std::make_unique<MemoryFile>(const_cast<MemoryFiles&>(*this), it->second, path);
}

absl::Status MemoryFiles::Rename(const std::string& from, const std::string& to) {
  const auto it = names_.find(from);
  if (it == names_.end()) return Absent(from);
  ATOLL_RETURN_IF_ERROR(Meet("rename", to));
  std::shared_ptr<Node> node = it->second;
  names_.erase(it);
  names_[to] = std::move(node);
  return absl::OkStatus();
}

absl::Status MemoryFiles::Remove(const std::string& path) {
  ATOLL_RETURN_IF_ERROR(Meet("remove", path));
  names_.erase(path);
  directories_.erase(path);
  return absl::OkStatus();
}

absl::Status MemoryFiles::HardLink(const std::string& from, const std::string& to) {
  const auto it = names_.find(from);
  if (it == names_.end()) return Absent(from);
  ATOLL_RETURN_IF_ERROR(Meet("link", to));
  names_[to] = it->second;
  return absl::OkStatus();
}

absl::Status MemoryFiles::MakeDirectory(const std::string& path) {
  ATOLL_RETURN_IF_ERROR(Meet("make directory", path));
  directories_[path] = true;
  return absl::OkStatus();
}

absl::Status MemoryFiles::SyncDirectory(const std::string& path) {
  ATOLL_RETURN_IF_ERROR(Meet("sync directory", path));
  const auto within = [&path](const std::string& name) {
    return name.size() > path.size() && name[path.size()] == '/' && name.starts_with(path);
  };
  const auto directly = [&path](const std::string& name) { return name.find('/', path.size() + 1) == name.npos; };
  for (auto it = durable_names_.lower_bound(path + "/"); it != durable_names_.end() && within(it->first);) {
    it = directly(it->first) && names_.count(it->first) == 0 ? durable_names_.erase(it) : std::next(it);
  }
  for (auto it = names_.lower_bound(path + "/"); it != names_.end() && within(it->first); ++it) {
    if (directly(it->first)) durable_names_[it->first] = it->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryFiles::List(const std::string& path) const {
  std::set<std::string> found;
  const std::string prefix = path + "/";
  for (auto it = names_.lower_bound(prefix); it != names_.end() && it->first.starts_with(prefix); ++it)
    found.insert(it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size()));
  return std::vector<std::string>(found.begin(), found.end());
}

bool MemoryFiles::Exists(const std::string& path) const {
  return names_.count(path) > 0 || directories_.count(path) > 0;
}

absl::StatusOr<Files::Space> MemoryFiles::SpaceAt(const std::string&) const { return space; }

void MemoryFiles::SetContent(const std::string& path, std::vector<std::byte> content) {
  auto node = std::make_shared<Node>();
  node->content = node->durable = std::move(content);
  node->same = node->content.size();
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
    copy->same = copy->content.size();
    after[name] = std::move(copy);
  }
  names_ = after;
  durable_names_ = std::move(after);
}

void MemoryFiles::FailAt(uint64_t call, DiskFault fault) {
  calls_ = 0;
  fail_at_ = call;
  fault_ = fault;
  met_ = false;
}

absl::Status MemoryFiles::Meet(const char* what, const std::string& path) {
  if (dead_) return absl::InternalError("the process is dead");
  const bool here = calls_++ == fail_at_;
  if (!here && fail_at_ != UINT64_MAX) return absl::OkStatus();
  last_call_ = absl::StrCat(what, " ", path);
  if (!here || fault_ == DiskFault::kNone) return absl::OkStatus();
  met_ = true;
  dead_ = fault_ == DiskFault::kKilledBefore || fault_ == DiskFault::kKilledAfter || fault_ == DiskFault::kPowerCut ||
          fault_ == DiskFault::kTornPowerCut;
  if (fault_ == DiskFault::kKilledAfter) return absl::OkStatus();
  const bool full = fault_ == DiskFault::kFull || fault_ == DiskFault::kShortWrite;
  if (full) return absl::ResourceExhaustedError(absl::StrCat(what, " ", path, ": no space left on device"));
  return absl::InternalError(absl::StrCat(what, " ", path, ": input/output error"));
}

bool MemoryFiles::TakesHalf(const absl::Status& met) const {
  return absl::IsResourceExhausted(met) && fault_ == DiskFault::kShortWrite;
}

void MemoryFiles::Survive(uint64_t seed) {
  const bool was_killed = fault_ == DiskFault::kKilledBefore || fault_ == DiskFault::kKilledAfter;
  dead_ = false;
  if (fault_ == DiskFault::kTornPowerCut) return TearCrash(seed);
  if (!was_killed) return Crash();
}

// Keeps part of the unsynced appends of each file, some of it as zeros, and some of the unsynced
// names.
void MemoryFiles::TearCrash(uint64_t seed) {
  constexpr size_t kSector = 512;
  Rng random(seed);
  for (const auto& [name, node] : names_) {
    if (random.Below(2) == 0) durable_names_.emplace(name, node);
  }
  std::erase_if(durable_names_,
                [&](const auto& entry) { return names_.count(entry.first) == 0 && random.Below(2) == 0; });
  std::set<const Node*> torn;
  for (const auto& [name, node] : durable_names_) {
    const size_t flushed = node->durable.size(), written = node->content.size();
    if (!torn.insert(node.get()).second) continue;
    // Each overwritten sector has its old or its new content.
    for (size_t at = node->same - node->same % kSector; at < std::min(flushed, written); at += kSector) {
      const auto first = node->content.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = node->content.begin() + static_cast<std::ptrdiff_t>(std::min({flushed, written, at + kSector}));
      if (node->same < flushed && random.Below(2) == 0)
        std::copy(first, last, node->durable.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (written <= flushed) continue;
    const size_t there = flushed + random.Below(written - flushed + 1);
    node->durable.assign(node->content.begin(), node->content.begin() + static_cast<std::ptrdiff_t>(there));
    for (size_t at = flushed; at < there; at += kSector) {
      if (random.Below(3) > 0) continue;
      const size_t end = std::min(there, at + kSector);
      std::fill(node->durable.begin() + static_cast<std::ptrdiff_t>(at),
                node->durable.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
    }
  }
  Crash();
}

}  // namespace atl
