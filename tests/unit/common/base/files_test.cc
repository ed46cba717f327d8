// SPDX-License-Identifier: Apache-2.0
#include "common/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/forwarded_files.h"
#include "common/base/inodes.h"

namespace atl {
namespace {

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = JoinPath(testing::TempDir(), absl::StrCat("atoll-files-", info->name(), "-", ::getpid()));
    std::filesystem::remove_all(folder_);
    EXPECT_TRUE(files_->MakeDirectory(folder_).ok());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  std::string Content(const std::string& path) const {
    const auto content = ReadWholeFile(*files_, path, 1 << 20);
    return content.ok() ? *content : absl::StrCat("error: ", content.status().message());
  }
  absl::Status Write(const std::string& path, const std::string& text) {
    return WriteFileAtomically(*files_, path, AsBytes(text));
  }

  const std::unique_ptr<Files> files_ = MakePosixFiles();
  std::string folder_;
};

TEST_F(FilesTest, AWriteThatFailsLeavesNothing) {
  ASSERT_TRUE(files_->MakeDirectory(Path("taken/by")).ok());
  EXPECT_FALSE(Write(Path("taken"), "text").ok()) << "a directory lies there";
  EXPECT_FALSE(files_->Exists(Path("taken.tmp")));
}

TEST_F(FilesTest, ADirectoryIsNoFile) {
  const absl::Status opened = files_->OpenForRead(folder_).status();
  EXPECT_EQ(opened.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(opened.message()), "read " + folder_ + ": Is a directory");
}

TEST_F(FilesTest, AppendsReadsAndTruncates) {
  const auto file = files_->OpenForAppend(Path("log"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append(AsBytes(std::string("hello "))).ok());
  ASSERT_TRUE((*file)->Append(AsBytes(std::string("world"))).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(*(*file)->Size(), 11u);
  std::string part(5, '\0');
  ASSERT_TRUE((*file)->ReadAt(6, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "world");
  ASSERT_TRUE((*file)->Truncate(5).ok());
  ASSERT_TRUE((*file)->Append(AsBytes(std::string("!"))).ok());
  EXPECT_EQ(Content(Path("log")), "hello!");
}

// The bytes on disk before the flush equal the appended bytes, for pieces below and above the write
// size.
TEST_F(FilesTest, LargeFilesAreWhole) {
  const auto file = files_->OpenForAppend(Path("large"));
  ASSERT_TRUE(file.ok());
  std::string wanted;
  for (const size_t size : {size_t{1} << 20, size_t{20} << 20, size_t{3}, size_t{8} << 20}) {
    std::string piece(size, '\0');
    for (size_t i = 0; i < size; ++i) piece[i] = static_cast<char>(i * 31 + i / 4096 + wanted.size());
    ASSERT_TRUE((*file)->Append(AsBytes(piece)).ok());
    wanted += piece;
  }
  ASSERT_TRUE((*file)->Sync().ok());
  const auto content = ReadWholeFile(*files_, Path("large"), wanted.size());
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(*content == wanted);
}

// Empty pieces, many small pieces, and pieces larger than one system call accepts.
TEST_F(FilesTest, PiecesAreAppendedInOrder) {
  const auto file = files_->OpenForAppend(Path("pieces"));
  ASSERT_TRUE(file.ok());
  std::vector<std::string> texts{"", "head", ""};
  for (int i = 0; i < 200; ++i) texts.push_back(absl::StrCat(i, ";"));
  for (const size_t size : {size_t{9} << 20, size_t{0}, size_t{1}, (size_t{8} << 20) - 1, size_t{70000}}) {
    std::string piece(size, '\0');
    for (size_t i = 0; i < size; ++i) piece[i] = static_cast<char>(i * 31 + i / 4096 + texts.size());
    texts.push_back(std::move(piece));
  }
  std::vector<Bytes> pieces;
  std::string wanted;
  for (const std::string& text : texts) {
    pieces.push_back(AsBytes(text));
    wanted += text;
  }
  ASSERT_TRUE((*file)->AppendPieces({}).ok());
  ASSERT_TRUE((*file)->AppendPieces(pieces).ok());
  ASSERT_TRUE((*file)->AppendPieces(std::span(pieces).first(2)).ok());
  const auto content = ReadWholeFile(*files_, Path("pieces"), wanted.size() + 4);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(*content == wanted + "head");
}

// The part that fits is written, as on a disk that becomes full, and the rest is refused.
TEST_F(FilesTest, PiecesBeyondTheRoomAreResourceExhausted) {
  const auto file = files_->OpenForAppend(Path("bounded"));
  ASSERT_TRUE(file.ok());
  const std::string first(3000, 'a'), second(3000, 'b');
  const std::vector<Bytes> pieces{AsBytes(first), AsBytes(second)};
  rlimit was{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &was), 0);
  const rlimit small{5000, was.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = (*file)->AppendPieces(pieces);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &was), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(Content(Path("bounded")) == first + second.substr(0, 2000));
}

// Lengths around a block, a piece and the direct I/O size, on disk, in memory, and on files that
// only support append.
TEST_F(FilesTest, NewFilesAreWhole) {
  const auto byte = [](uint64_t at) { return static_cast<std::byte>(at * 31 + at / 4096); };
  ForwardedFiles appending(MakePosixFiles());
  std::vector<std::pair<Files*, std::string>> places{{files_.get(), folder_}, {&appending, Path("appending")}};
  ASSERT_EQ(files_->MakeDirectory(Path("appending")), absl::OkStatus());
  const std::string memory = absl::StrCat("/dev/shm/atoll-files-", ::getpid());
  if (files_->MakeDirectory(memory).ok()) places.emplace_back(files_.get(), memory);
  for (const auto& [files, folder] : places) {
    for (const uint64_t filled :
         {0u, 1u, 4095u, 4096u, 1u << 20, (1u << 20) + 1, 4u << 20, (5u << 20) + 4096, (6u << 20) + 123}) {
      for (const uint64_t zeros : {0u, 1u, 3u << 20}) {
        const std::string path = JoinPath(folder, absl::StrCat("new-", filled, "-", zeros));
        uint64_t asked = std::min(filled, kNewFileHead);  // the head comes last
        bool head = filled == 0;
        const auto fill = [&](uint64_t offset, std::span<std::byte> out) {
          EXPECT_FALSE(head);
          head = offset == 0;
          EXPECT_EQ(offset, head ? 0 : asked);
          if (!head) asked += out.size();
          for (size_t i = 0; i < out.size(); ++i) out[i] = byte(offset + i);
        };
        const NewFile file{.bytes = filled + zeros, .filled = filled};
        ASSERT_EQ(files->WriteNewFile(path, file, fill), absl::OkStatus()) << path;
        EXPECT_TRUE(head);
        EXPECT_EQ(asked, filled);
        const auto content = ReadWholeFile(*files, path, file.bytes);
        ASSERT_TRUE(content.ok()) << content.status();
        ASSERT_EQ(content->size(), file.bytes);
        size_t wrong = 0;
        for (size_t i = 0; i < file.bytes; ++i)
          wrong += static_cast<std::byte>((*content)[i]) != (i < filled ? byte(i) : std::byte{0});
        EXPECT_EQ(wrong, 0u) << path;
        EXPECT_EQ(files->WriteNewFile(path, file, fill).code(), absl::StatusCode::kAlreadyExists);
      }
    }
  }
  std::filesystem::remove_all(memory);
}

TEST_F(FilesTest, TrailingZerosUseNoSpace) {
  ASSERT_EQ(
      files_->WriteNewFile(Path("new"), {.bytes = 64 << 20, .filled = 4096},
                           [](uint64_t, std::span<std::byte> out) { std::fill(out.begin(), out.end(), std::byte{1}); }),
      absl::OkStatus());
  struct stat s {};
  ASSERT_EQ(::stat(Path("new").c_str(), &s), 0);
  EXPECT_EQ(s.st_size, 64 << 20);
  EXPECT_LE(s.st_blocks * 512, 1 << 20);
}

TEST_F(FilesTest, ANewFileBeyondTheRoomIsResourceExhausted) {
  rlimit was{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &was), 0);
  const rlimit small{(2 << 20) + 5000, was.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status =
      files_->WriteNewFile(Path("bounded"), {.bytes = 6 << 20},
                           [](uint64_t, std::span<std::byte> out) { std::fill(out.begin(), out.end(), std::byte{1}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &was), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find(Path("bounded")), absl::string_view::npos) << status;
}

TEST_F(FilesTest, OpeningAgainGoesOnAtTheEnd) {
  ASSERT_TRUE((*files_->OpenForAppend(Path("log")))->Append(AsBytes(std::string("a"))).ok());
  ASSERT_TRUE((*files_->OpenForAppend(Path("log")))->Append(AsBytes(std::string("b"))).ok());
  EXPECT_EQ(Content(Path("log")), "ab");
}

TEST_F(FilesTest, ReadingPastTheEndIsOutOfRange) {
  ASSERT_TRUE(Write(Path("short"), "abc").ok());
  const auto file = files_->OpenForRead(Path("short"));
  std::string part(4, '\0');
  const absl::Status status = (*file)->ReadAt(0, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(std::string(status.message()).find(Path("short")), std::string::npos) << status;
}

TEST_F(FilesTest, AMissingFileIsNotFoundAndNamed) {
  const auto file = files_->OpenForRead(Path("nowhere"));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(file.status().message()).find("nowhere"), std::string::npos) << file.status();
}

TEST_F(FilesTest, AFullDiskIsResourceExhausted) {
  EXPECT_EQ(FileError("write", "file", ENOSPC).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileError("write", "file", EDQUOT).code(), absl::StatusCode::kResourceExhausted);
}

// A write to a named pipe waits for a reader as soon as 64 KiB are in it.
TEST_F(FilesTest, OnlyARegularFileIsAppendedTo) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("pipe"), std::string("/dev/null")}) {
    const absl::Status refused = files_->OpenForAppend(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(refused.message()), "open " + path + ": it is no regular file; remove it");
  }
}

TEST_F(FilesTest, AtomicWriteReplacesTheWholeFileAndLeavesNothingElse) {
  ASSERT_TRUE(Write(Path("state"), "a long first version").ok());
  ASSERT_TRUE(Write(Path("state"), "second").ok());
  EXPECT_EQ(Content(Path("state")), "second");
  EXPECT_EQ(*files_->List(folder_), std::vector<std::string>{"state"});
}

TEST_F(FilesTest, AtomicWriteIgnoresLeftoversOfACrash) {
  ASSERT_TRUE((*files_->OpenForAppend(Path("state.tmp")))->Append(AsBytes(std::string("half"))).ok());
  ASSERT_TRUE(Write(Path("state"), "whole").ok());
  EXPECT_EQ(Content(Path("state")), "whole");
}

TEST_F(FilesTest, AFailedAtomicWriteLeavesTheOldFile) {
  ASSERT_TRUE(Write(Path("state"), "old").ok());
  ASSERT_TRUE(files_->MakeDirectory(Path("state.tmp/occupied")).ok());  // cannot be removed, so the write fails
  EXPECT_FALSE(Write(Path("state"), "new").ok());
  EXPECT_EQ(Content(Path("state")), "old");
}

TEST_F(FilesTest, ReadWholeFileHasALimit) {
  ASSERT_TRUE(Write(Path("big"), std::string(100, 'x')).ok());
  EXPECT_TRUE(ReadWholeFile(*files_, Path("big"), 100).ok());
  EXPECT_EQ(ReadWholeFile(*files_, Path("big"), 99).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FilesTest, ListsNamesInOrderAndNothingForAMissingFolder) {
  for (const std::string name : {"b", "a", "c"}) ASSERT_TRUE(Write(Path(name), "").ok());
  EXPECT_EQ(*files_->List(folder_), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(files_->List(Path("missing"))->empty());
}

TEST_F(FilesTest, RenamesLinksAndRemoves) {
  ASSERT_TRUE(Write(Path("a"), "x").ok());
  ASSERT_TRUE(files_->HardLink(Path("a"), Path("b")).ok());
  ASSERT_TRUE(files_->Rename(Path("a"), Path("c")).ok());
  EXPECT_FALSE(files_->Exists(Path("a")));
  EXPECT_EQ(Content(Path("b")), "x");
  ASSERT_TRUE(files_->Remove(Path("c")).ok());
  EXPECT_TRUE(files_->Remove(Path("c")).ok()) << "removing what is gone is fine";
  EXPECT_EQ(Content(Path("b")), "x");
  EXPECT_TRUE(files_->SyncDirectory(folder_).ok());
}

TEST_F(FilesTest, MakesFoldersWithTheirParents) {
  EXPECT_TRUE(files_->MakeDirectory(Path("a/b/c")).ok());
  EXPECT_TRUE(files_->MakeDirectory(Path("a/b/c")).ok());
  EXPECT_TRUE(files_->Exists(Path("a/b/c")));
  ASSERT_TRUE(Write(Path("file"), "").ok());
  for (const char* path : {"file", "file/below"}) {
    const absl::Status status = files_->MakeDirectory(Path(path));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_NE(std::string(status.message()).find("Not a directory"), std::string::npos) << status;
  }
}

TEST_F(FilesTest, NamesTheMissingTargetOfALink) {
  ASSERT_EQ(::symlink("/unmounted/disk", Path("link").c_str()), 0);
  for (const char* path : {"link", "link/below"}) {
    const absl::Status status = files_->MakeDirectory(Path(path));
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(status.message(), testing::HasSubstr("is a symbolic link to /unmounted/disk, which does not exist"));
  }
}

TEST_F(FilesTest, WhereNoFolderCanBeMadeTheReasonIsNotAMissingOne) {
  if (!files_->Exists("/proc/self")) GTEST_SKIP() << "there is no /proc here";
  const absl::Status status = files_->MakeDirectory("/proc/atoll");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("Read-only file system"), std::string::npos) << status;
}

TEST(SpaceWithInodes, TheScarcerOfBytesAndInodesCounts) {
  const auto free = [](uint64_t free_inodes, uint64_t inodes) {
    return SpaceWithInodes({.free_bytes = 600, .total_bytes = 1000}, free_inodes, inodes).free_bytes;
  };
  EXPECT_EQ(free(0, 0), 600u) << "no limit";
  EXPECT_EQ(free(90, 100), 600u);
  EXPECT_EQ(free(5, 100), 50u);
  EXPECT_EQ(free(0, 100), 0u);
  EXPECT_EQ(free(UINT64_MAX, 100), 600u) << "unknown, as some network file systems report it";
}

TEST_F(FilesTest, ReportsTheFreeSpace) {
  const auto space = files_->SpaceAt(folder_);
  ASSERT_TRUE(space.ok());
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
}

TEST(Paths, JoinAndDirectoryOf) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf("/a"), "/");
  EXPECT_EQ(DirectoryOf("a"), ".");
}

}  // namespace
}  // namespace atl
