// SPDX-License-Identifier: Apache-2.0
// A ledger with a damaged file: no changed row is ever read as valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "coordinator/store/sqlite_ledger.h"
#include "tests/unit/coordinator/store/ledger_records.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LedgerDamage : public testing::Test {
 protected:
  void SetUp() override {
    {
      auto ledger = *OpenSqliteLedger(path_);
      for (const auto& records : EveryRecord()) ASSERT_EQ(ledger->Commit(records), absl::OkStatus());
      ASSERT_TRUE(ledger->Commit({RollbackRecord{{"tiny"}, 1, {{2}, {1}}}}).ok());
      ASSERT_TRUE(ledger->Commit({ScreenedRecord{{"big"}, 0, {{1}, {1}}, {"paris-1"}, {5, 6}}}).ok());
      ASSERT_TRUE(ledger->PutToken(SomeToken("a")).ok());
    }  // folds the log into the database
    std::ifstream file(path_, std::ios::binary);
    whole_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_GT(whole_.size(), 4096u);
    const auto read = Read();
    ASSERT_TRUE(read.ok()) << read.status();
    before_ = *read;
  }
  // Reads everything that a coordinator reads.
  absl::StatusOr<std::string> Read() const {
    ATOLL_ASSIGN_OR_RETURN(const auto ledger, OpenSqliteLedger(path_));
    ATOLL_ASSIGN_OR_RETURN(const RecoveredState state, ledger->Recover());
    ATOLL_ASSIGN_OR_RETURN(const std::vector<TokenRecord> tokens, ledger->Tokens());
    EXPECT_EQ(state.boot.value, 1u);
    return absl::StrCat(Describe(state), tokens == std::vector<TokenRecord>{SomeToken("a")} ? "" : "other tokens");
  }
  void Write(const std::string& content) const {
    std::filesystem::remove(path_ + "-wal");
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("l");
  std::string whole_, before_;
};

TEST_F(LedgerDamage, AFlippedBitIsNoticedOrChangesNothing) {
  constexpr size_t kStride = 61;  // prime, so that all columns of all tables are hit
  size_t noticed = 0, harmless = 0;
  for (size_t at = 0; at < whole_.size(); at += kStride) {
    std::string content = whole_;
    if (content[at] == 0) continue;  // mostly free space
    content[at] = static_cast<char>(content[at] ^ (1 << at % 8));
    Write(content);
    const auto read = Read();
    read.ok() ? ++harmless : ++noticed;
    if (read.ok()) {
      EXPECT_EQ(*read, before_) << "byte " << at;
    }
  }
  EXPECT_GT(noticed, 20u);
  std::printf("%zu flipped bits noticed, %zu without effect\n", noticed, harmless);
}

TEST_F(LedgerDamage, ChangedColumnIsReportedWithItsRow) {
  const std::vector<std::pair<const char*, const char*>> changes = {
      {"UPDATE jobs SET reason = 'all is well' WHERE job = 'tiny'", "row (tiny) of table jobs"},
      {"UPDATE jobs SET end_wall_nanos = 5 WHERE job = 'big'", "row (big) of table jobs"},
      {"UPDATE meta SET boot = boot + 1", "row (1) of table meta"},
      {"UPDATE pools SET consumed = consumed + 1", "row (tiny) of table pools"},
      {"UPDATE pool_ranges SET last = last + 1", "row (tiny, 30) of table pool_ranges"},
      {"UPDATE workers SET device = 'cuda'", "row (paris-1) of table workers"},
      {"UPDATE leases SET consumed_to = consumed_to + 1", "row (1) of table leases"},
      {"UPDATE screened SET version = version + 1", "row (big, 1, paris-1) of table screened"},
      {"UPDATE rounds SET version = 3 WHERE version = 2", "row (tiny, 0, 0, 3) of table rounds"},
      {"UPDATE rounds SET record = zeroblob(9) WHERE fragment = 1", "row (tiny, 0, 1, 1) of table rounds"},
      {"UPDATE evaluations SET nll_micro_nats = 5", "row (tiny, 0) of table evaluations"},
      {"UPDATE checkpoints SET wall_nanos = 1 WHERE step = 100", "of table checkpoints"},
      {"UPDATE rollbacks SET versions = zeroblob(16)", "of table rollbacks"},
      {"UPDATE tokens SET revoked = 1", "row (a) of table tokens"},
  };
  for (const auto& [sql, told] : changes) {
    Write(whole_);
    RunSql(path_, sql);
    const absl::Status read = Read().status();
    EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss) << sql;
    EXPECT_THAT(std::string(read.message()),
                AllOf(HasSubstr(told), HasSubstr("is not as it was written: restore the directory from a copy")))
        << sql;
  }
}

}  // namespace
}  // namespace atl
