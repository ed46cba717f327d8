// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/sqlite_ledger.h"
#include "tests/unit/coordinator/store/ledger_records.h"

namespace atl {
namespace {

using testing::HasSubstr;

// Three revisions of a made-up format. The last one rebuilds a table.
constexpr std::array<const char*, 3> kSteps = {
    R"sql(
CREATE TABLE boats (name TEXT PRIMARY KEY, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO boats VALUES ('argo', 0), ('beagle', 0);
)sql",
    R"sql(
CREATE TABLE ports (port TEXT PRIMARY KEY, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO ports VALUES ('iolcos', 0);
)sql",
    R"sql(
CREATE TABLE boats_3 (name TEXT PRIMARY KEY, masts INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO boats_3 SELECT name, 1, 0 FROM boats;
DROP TABLE boats;
ALTER TABLE boats_3 RENAME TO boats;
)sql",
};

class LedgerSchema : public testing::Test {
 protected:
  absl::Status Prepare(std::span<const char* const> steps) const {
    ATOLL_ASSIGN_OR_RETURN(const auto database, Database::Open(path_));
    return PrepareSchema(*database, path_, steps);
  }
  absl::Status PrepareTo(size_t revision) const { return Prepare(std::span(kSteps).first(revision)); }
  int64_t Number(const std::string& sql) const {
    const auto database = *Database::Open(path_);
    return database->Number(sql).value_or(-1);
  }
  int64_t Revision() const { return Number("PRAGMA user_version"); }
  absl::Status CheckAllRows() const {
    const auto database = *Database::Open(path_);
    return CheckRows(*database);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("l");
};

TEST_F(LedgerSchema, ANewFileGetsTheNewestRevision) {
  ASSERT_EQ(PrepareTo(3), absl::OkStatus());
  EXPECT_EQ(Revision(), 3);
  EXPECT_EQ(Number("PRAGMA application_id"), kLedgerApplicationId);
  EXPECT_EQ(CheckAllRows(), absl::OkStatus());
}

TEST_F(LedgerSchema, EachOlderRevisionIsUpgradedWithItsRows) {
  for (size_t from = 1; from <= 3; ++from) {
    std::filesystem::remove(path_);
    ASSERT_EQ(PrepareTo(from), absl::OkStatus());
    ASSERT_EQ(Revision(), static_cast<int64_t>(from));
    ASSERT_EQ(PrepareTo(3), absl::OkStatus()) << "from revision " << from;
    EXPECT_EQ(Revision(), 3);
    EXPECT_EQ(Number("SELECT sum(masts) FROM boats"), 2);
    EXPECT_EQ(Number("SELECT count(*) FROM ports"), 1);
    EXPECT_EQ(CheckAllRows(), absl::OkStatus()) << "from revision " << from;
  }
}

TEST_F(LedgerSchema, ANewerRevisionIsRefusedWithTheWayOut) {
  ASSERT_EQ(PrepareTo(3), absl::OkStatus());
  const absl::Status status = PrepareTo(2);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has format revision 3, this program supports 2: use the newer program"));
  EXPECT_EQ(Revision(), 3);
}

TEST_F(LedgerSchema, TheLedgerOfANewerProgramIsRefused) {
  ASSERT_TRUE(OpenSqliteLedger(path_).ok());
  EXPECT_EQ(Revision(), 1);
  RunSql(path_, "PRAGMA user_version=2");
  const absl::Status status = OpenSqliteLedger(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use the newer program"));
}

// A step computes checksums again. It must not give a damaged row one that fits.
TEST_F(LedgerSchema, DamageIsFoundBeforeTheFirstStep) {
  ASSERT_EQ(PrepareTo(2), absl::OkStatus());
  RunSql(path_, "UPDATE boats SET name = 'bounty' WHERE name = 'beagle'");
  const absl::Status status = PrepareTo(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("row (bounty) of table boats"));
  EXPECT_EQ(Revision(), 2);
}

TEST_F(LedgerSchema, AStepThatFailsLeavesTheRevisionBeforeIt) {
  ASSERT_EQ(PrepareTo(1), absl::OkStatus());
  const std::array<const char*, 3> steps = {kSteps[0], kSteps[1], "DROP TABLE boats; DROP TABLE absent;"};
  EXPECT_FALSE(Prepare(steps).ok());
  EXPECT_EQ(Revision(), 2);
  EXPECT_EQ(Number("SELECT count(*) FROM boats"), 2);
  EXPECT_EQ(CheckAllRows(), absl::OkStatus());
}

TEST_F(LedgerSchema, ADatabaseOfAnotherProgramIsRefused) {
  RunSql(path_, "CREATE TABLE recipes (name TEXT)");
  const absl::Status status = PrepareTo(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a database of another program"));
  EXPECT_EQ(Number("SELECT count(*) FROM sqlite_schema"), 1);
}

}  // namespace
}  // namespace atl
