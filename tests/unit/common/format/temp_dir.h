// SPDX-License-Identifier: Apache-2.0
// A temporary directory for one test, removed at its end.
#ifndef ATOLL_TESTS_UNIT_COMMON_FORMAT_TEMP_DIR_H_
#define ATOLL_TESTS_UNIT_COMMON_FORMAT_TEMP_DIR_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace atl {

class TempDir {
 public:
  TempDir() {
    std::string pattern = ::testing::TempDir() + "/atoll-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(*this / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

 private:
  std::string path_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_FORMAT_TEMP_DIR_H_
