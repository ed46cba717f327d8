// SPDX-License-Identifier: Apache-2.0
// An in-memory disk that loses unflushed data and has faults. After a crash contents are as of the
// last Sync of their file, names as of the last SyncDirectory of their directory. Not thread-safe.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_STORE_SIM_DISK_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_STORE_SIM_DISK_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"

namespace atl {

class SimDisk final : public Files {
 public:
  using Content = std::vector<std::byte>;
  struct Inode {
    Content now, flushed;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // by path
  enum class Fault { kNone, kFull, kFails, kShortWrite };

  // The n-th mutating call from now (0: the next) meets the fault; with `forever`, all later calls
  // too.
  void FailAt(int n, Fault fault, bool forever = false) {
    countdown_ = n;
    fault_ = fault;
    forever_ = forever;
  }
  // Reads of files with this text in their path fail. Empty: no read fails.
  void FailReads(std::string text) { unread_ = std::move(text); }
  int calls() const { return calls_; }
  // The power fails: unflushed data is lost.
  void Crash() {
    names_ = durable_names_;
    for (auto& [path, inode] : names_) inode->now = inode->flushed;
    directories_ = durable_directories_;
    FailAt(-1, Fault::kNone);
  }
  // For damage: the live content of a file.
  Content& At(const std::string& path) { return names_.at(path)->now; }
  std::string TextAt(const std::string& path) {
    return {reinterpret_cast<const char*>(At(path).data()), At(path).size()};
  }
  std::vector<std::string> Paths() const {
    std::vector<std::string> out;
    for (const auto& [path, inode] : names_) out.push_back(path);
    return out;
  }

  // Names of the open files, one entry for each live File.
  const std::multiset<std::string>& open() const { return open_; }

  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    ATOLL_RETURN_IF_ERROR(Meet(path));
    if (!directories_.contains(DirectoryOf(path))) return absl::NotFoundError("open " + path + ": no such directory");
    auto& inode = names_[path];
    if (inode == nullptr) inode = std::make_shared<Inode>();
    return std::make_unique<SimFile>(*this, path, inode);
  }
  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override {
    const auto it = names_.find(path);
    if (it == names_.end()) return absl::NotFoundError("open " + path + ": no such file");
    return std::make_unique<SimFile>(const_cast<SimDisk&>(*this), path, it->second);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    ATOLL_RETURN_IF_ERROR(Meet(from));
    const auto it = names_.find(from);
    if (it == names_.end()) return absl::NotFoundError("rename " + from);
    names_[to] = it->second;
    names_.erase(from);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    ATOLL_RETURN_IF_ERROR(Meet(path));
    names_.erase(path);
    directories_.erase(path);
    return absl::OkStatus();
  }
  absl::Status HardLink(const std::string& from, const std::string& to) override {
    ATOLL_RETURN_IF_ERROR(Meet(to));
    const auto it = names_.find(from);
    if (it == names_.end()) return absl::NotFoundError("link " + from);
    if (names_.contains(to)) return absl::AlreadyExistsError("link " + to);
    names_[to] = it->second;
    return absl::OkStatus();
  }
  absl::Status MakeDirectory(const std::string& path) override {
    ATOLL_RETURN_IF_ERROR(Meet(path));
    for (std::string at = path; at.size() > 1; at = DirectoryOf(at)) directories_.insert(at);
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    ATOLL_RETURN_IF_ERROR(Meet(path));
    std::erase_if(durable_names_, [&](const auto& entry) { return DirectoryOf(entry.first) == path; });
    for (const auto& [name, inode] : names_) {
      if (DirectoryOf(name) == path) durable_names_[name] = inode;
    }
    std::erase_if(durable_directories_, [&](const auto& name) { return DirectoryOf(name) == path; });
    for (const auto& name : directories_) {
      if (DirectoryOf(name) == path) durable_directories_.insert(name);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    std::vector<std::string> out;
    for (const auto& [name, inode] : names_) {
      if (DirectoryOf(name) == path) out.push_back(name.substr(path.size() + 1));
    }
    for (const auto& name : directories_) {
      if (DirectoryOf(name) == path) out.push_back(name.substr(path.size() + 1));
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  bool Exists(const std::string& path) const override { return names_.contains(path) || directories_.contains(path); }
  absl::StatusOr<Space> SpaceAt(const std::string&) const override { return space; }
  Space space{50'000'000, 100'000'000};

 private:
  class SimFile final : public File {
   public:
    SimFile(SimDisk& disk, std::string path, std::shared_ptr<Inode> inode)
        : disk_(disk), path_(std::move(path)), inode_(std::move(inode)), open_(disk.open_.insert(path_)) {}
    ~SimFile() override { disk_.open_.erase(open_); }
    SimFile(const SimFile&) = delete;
    SimFile& operator=(const SimFile&) = delete;
    absl::Status Append(Bytes data) override {
      const absl::Status met = disk_.Meet(path_);
      if (!met.ok()) {
        if (disk_.last_ == Fault::kShortWrite) Put(data.first(data.size() / 2));
        return met;
      }
      Put(data);
      return absl::OkStatus();
    }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      if (!disk_.unread_.empty() && path_.find(disk_.unread_) != std::string::npos)
        return absl::InternalError("read " + path_ + ": Input/output error");
      if (offset > inode_->now.size() || out.size() > inode_->now.size() - offset) return absl::OutOfRangeError(path_);
      std::copy_n(inode_->now.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
      return absl::OkStatus();
    }
    absl::Status Sync() override {
      ATOLL_RETURN_IF_ERROR(disk_.Meet(path_));
      inode_->flushed = inode_->now;
      return absl::OkStatus();
    }
    absl::Status Truncate(uint64_t size) override {
      ATOLL_RETURN_IF_ERROR(disk_.Meet(path_));
      inode_->now.resize(size);
      return absl::OkStatus();
    }
    absl::StatusOr<uint64_t> Size() const override { return inode_->now.size(); }

   private:
    void Put(Bytes data) { inode_->now.insert(inode_->now.end(), data.begin(), data.end()); }
    SimDisk& disk_;
    std::string path_;
    std::shared_ptr<Inode> inode_;
    std::multiset<std::string>::const_iterator open_;
  };

  absl::Status Meet(const std::string& path) {
    ++calls_;
    last_ = Fault::kNone;
    if (fault_ == Fault::kNone || countdown_ < 0 || countdown_-- > 0) return absl::OkStatus();
    if (forever_) countdown_ = 0;
    last_ = fault_;
    if (fault_ == Fault::kFails) return absl::InternalError("input/output error at " + path);
    return absl::ResourceExhaustedError("no space left for " + path);
  }

  Names names_, durable_names_;
  std::set<std::string> directories_, durable_directories_;
  int calls_ = 0, countdown_ = -1;
  Fault fault_ = Fault::kNone, last_ = Fault::kNone;
  bool forever_ = false;
  std::string unread_;
  std::multiset<std::string> open_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_STORE_SIM_DISK_H_
