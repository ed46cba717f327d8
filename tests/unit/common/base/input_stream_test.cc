// SPDX-License-Identifier: Apache-2.0
#include "common/base/input_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/files.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

class InputStreams : public testing::Test {
 protected:
  InputStreams() {
    std::string pattern = testing::TempDir() + "/atoll-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~InputStreams() override { std::filesystem::remove_all(folder_); }

  std::string NamedPipe(const std::string& name) const {
    const std::string path = JoinPath(folder_, name);
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  std::string Read(const std::string& path) const {
    const auto text = ReadWholeFile(*files_, path, 1000);
    return text.ok() ? *text : absl::StrCat("error: ", text.status().message());
  }

  std::string folder_;
  const std::unique_ptr<Files> files_ = MakePosixFiles(/*pipe_wait_ms=*/1);
};

// A named pipe that holds `text` and has no writer any more.
class FilledPipe {
 public:
  explicit FilledPipe(const std::string& text) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    end_ = Descriptor(ends[0]);
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", end_.get()); }

 private:
  Descriptor end_;
};

TEST_F(InputStreams, PipesAreReadToTheirEnd) {
  EXPECT_EQ(Read(FilledPipe("as <(command) gives it").path()), "as <(command) gives it");
  EXPECT_EQ(Read(FilledPipe("").path()), "");
  EXPECT_THAT(Read(FilledPipe(std::string(1001, 'x')).path()), HasSubstr("has more than the 1000 bytes"));
}

TEST_F(InputStreams, NamedPipeGivesAllThatItsWriterWrote) {
  const std::string path = NamedPipe("p");
  const auto stream = files_->OpenStream(path);  // does not wait for the writer
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ((*stream)->size_bytes(), std::nullopt);
  Descriptor writer(::open(path.c_str(), O_WRONLY));
  std::string text(100, '\0');
  for (const char* part : {"one", "two"}) {
    ASSERT_EQ(::write(writer.get(), part, 3), 3);
    EXPECT_EQ(*(*stream)->Read(std::as_writable_bytes(std::span(text))), 3u);
    EXPECT_EQ(text.substr(0, 3), part);
  }
  writer.Close();
  EXPECT_EQ(*(*stream)->Read(std::as_writable_bytes(std::span(text))), 0u);
}

TEST_F(InputStreams, WriterThatWritesNothingIsAnEmptyInput) {
  const std::string path = NamedPipe("p");
  const auto stream = files_->OpenStream(path);
  ASSERT_TRUE(stream.ok());
  Descriptor(::open(path.c_str(), O_WRONLY)).Close();
  std::byte byte{};
  EXPECT_EQ(*(*stream)->Read({&byte, 1}), 0u);
}

TEST_F(InputStreams, NamedPipeWithoutAWriterIsReported) {
  const std::string path = NamedPipe("p");
  EXPECT_THAT(Read(path), HasSubstr("read " + path + ": it is a pipe, and no program opened it for writing"));
  EXPECT_EQ(ReadWholeFile(*files_, path, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status opened = files_->OpenForRead(path).status();  // returns at once
  EXPECT_EQ(opened.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(opened.message()), "read " + path + ": it is a pipe; give a regular file");
}

TEST_F(InputStreams, OtherKindsAreRefusedByName) {
  EXPECT_EQ(Read(folder_), "error: read " + folder_ + ": Is a directory");
  EXPECT_THAT(Read("/dev/zero"), HasSubstr("read /dev/zero: it is a device; give a file or a pipe"));
  EXPECT_EQ(Read("/dev/null"), "");
  const std::string path = JoinPath(folder_, "s");
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) GTEST_SKIP() << "the path of the temporary directory is too long";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(Read(path), "error: read " + path + ": it is a socket; give a file");
  EXPECT_THAT(std::string(files_->OpenForRead(path).status().message()), HasSubstr("it is a socket"));
}

TEST_F(InputStreams, FilesThatSayNothingOfTheirSizeAreWhole) {
  const auto status = ReadWholeFile(*files_, "/proc/self/status", 1 << 20);
  if (!status.ok()) GTEST_SKIP() << "there is no /proc here";
  EXPECT_THAT(*status, HasSubstr("\nPid:"));
}

TEST_F(InputStreams, LfsPointerIsRecognised) {
  const std::string path = JoinPath(folder_, "tokenizer.model");
  std::ofstream(path) << "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n";
  EXPECT_THAT(Read(path), HasSubstr(path + " is a Git LFS pointer, not the file itself; run `git lfs pull`"));
}

}  // namespace
}  // namespace atl
