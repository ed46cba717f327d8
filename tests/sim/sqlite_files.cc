// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sqlite_files.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "common/base/check.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl {
namespace {

struct OpenFile {
  sqlite3_file base{};
  MemoryFiles* files = nullptr;
  std::shared_ptr<MemoryFiles::Node> node;
  std::string path;
};

OpenFile& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }

int CodeOf(const absl::Status& status, int otherwise) {
  return absl::IsResourceExhausted(status) ? SQLITE_FULL : otherwise;
}

int Close(sqlite3_file* file) {
  Of(file).~OpenFile();
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 offset) {
  const std::vector<std::byte>& content = Of(file).node->content;
  const auto at = static_cast<size_t>(offset), wanted = static_cast<size_t>(bytes);
  const size_t there = at < content.size() ? std::min(wanted, content.size() - at) : 0;
  if (there > 0) std::memcpy(out, content.data() + at, there);
  if (there == wanted) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + there, 0, wanted - there);
  return SQLITE_IOERR_SHORT_READ;
}

int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
  OpenFile& open = Of(file);
  const absl::Status met = open.files->Meet("write", open.path);
  Bytes all(static_cast<const std::byte*>(data), static_cast<size_t>(bytes));
  if (open.files->TakesHalf(met)) all = all.first(all.size() / 2);
  if (met.ok() || open.files->TakesHalf(met)) open.node->WriteAt(static_cast<uint64_t>(offset), all);
  return met.ok() ? SQLITE_OK : CodeOf(met, SQLITE_IOERR_WRITE);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  const absl::Status met = Of(file).files->Meet("truncate", Of(file).path);
  if (!met.ok()) return CodeOf(met, SQLITE_IOERR_TRUNCATE);
  Of(file).node->Truncate(static_cast<uint64_t>(size));
  return SQLITE_OK;
}

int Sync(sqlite3_file* file, int) {
  const absl::Status met = Of(file).files->Meet("sync", Of(file).path);
  if (!met.ok()) return CodeOf(met, SQLITE_IOERR_FSYNC);
  Of(file).node->Sync();
  return SQLITE_OK;
}

int Size(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(Of(file).node->content.size());
  return SQLITE_OK;
}

int Lock(sqlite3_file*, int) { return SQLITE_OK; }
int IsLocked(sqlite3_file*, int* locked) {
  *locked = 0;
  return SQLITE_OK;
}
int Control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorBytes(sqlite3_file*) { return 512; }
// As SQLite's own files on Linux: a write changes only its own bytes, so a commit is not padded to
// a sector.
int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

// Version 1: no shared memory, which the ledger's exclusive locking does not need.
constexpr sqlite3_io_methods kMethods = {
    1,           Close,           Read,    Write,   Truncate, Sync,    Size,    Lock,   Lock, IsLocked, Control,
    SectorBytes, Characteristics, nullptr, nullptr, nullptr,  nullptr, nullptr, nullptr};

MemoryFiles& FilesOf(sqlite3_vfs* vfs) { return *static_cast<MemoryFiles*>(vfs->pAppData); }

int OpenIt(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (name == nullptr) return SQLITE_CANTOPEN;  // temporary databases stay in memory
  auto node = FilesOf(vfs).Open(name, (flags & SQLITE_OPEN_CREATE) != 0);
  if (node == nullptr) return SQLITE_CANTOPEN;
  auto* const open = new (file) OpenFile;
  open->base.pMethods = &kMethods;
  open->files = &FilesOf(vfs);
  open->node = std::move(node);
  open->path = name;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync_directory) {
  MemoryFiles& files = FilesOf(vfs);
  if (!files.Exists(name)) return SQLITE_IOERR_DELETE_NOENT;
  absl::Status done = files.Remove(name);
  if (done.ok() && sync_directory != 0) done = files.SyncDirectory(DirectoryOf(name));
  return done.ok() ? SQLITE_OK : CodeOf(done, SQLITE_IOERR_DELETE);
}

int Access(sqlite3_vfs* vfs, const char* name, int, int* there) {
  *there = FilesOf(vfs).Exists(name) ? 1 : 0;
  return SQLITE_OK;
}

int FullPath(sqlite3_vfs*, const char* name, int room, char* out) {
  sqlite3_snprintf(room, out, "%s", name);
  return SQLITE_OK;
}

// A simulation has no random source.
int Randomness(sqlite3_vfs*, int bytes, char* out) {
  std::memset(out, 7, static_cast<size_t>(bytes));
  return bytes;
}
int Sleep(sqlite3_vfs*, int micros) { return micros; }
int Now(sqlite3_vfs*, double* day) {
  *day = 2460000;
  return SQLITE_OK;
}
int LastError(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

struct SqliteFiles::Vfs {
  std::string name;
  sqlite3_vfs vfs{};
};

SqliteFiles::SqliteFiles(MemoryFiles& files) : vfs_(std::make_unique<Vfs>()) {
  vfs_->name = absl::StrCat("atoll-memory-", reinterpret_cast<uintptr_t>(this));
  sqlite3_vfs& vfs = vfs_->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(OpenFile);
  vfs.mxPathname = 512;
  vfs.zName = vfs_->name.c_str();
  vfs.pAppData = &files;
  vfs.xOpen = OpenIt;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  vfs.xFullPathname = FullPath;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = Now;
  vfs.xGetLastError = LastError;
}

SqliteFiles::~SqliteFiles() = default;

absl::StatusOr<std::unique_ptr<Ledger>> SqliteFiles::OpenLedger(const std::string& path) {
  // A connection keeps the VFS that it was opened with; later connections use the default VFS
  // again.
  ATOLL_CHECK(sqlite3_vfs_register(&vfs_->vfs, 1) == SQLITE_OK, "SQLite takes no other files");
  auto ledger = OpenSqliteLedger(path);
  sqlite3_vfs_unregister(&vfs_->vfs);
  return ledger;
}

}  // namespace atl
