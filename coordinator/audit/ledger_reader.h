// SPDX-License-Identifier: Apache-2.0
// Reads the ledger without touching it: opens a copy of the database and its write-ahead log in a
// temporary directory, because SQLite recovers a log by writing.
#ifndef ATOLL_COORDINATOR_AUDIT_LEDGER_READER_H_
#define ATOLL_COORDINATOR_AUDIT_LEDGER_READER_H_

#include <functional>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_image.h"

namespace atl::audit {

// Called for each round with its record, once jobs and numbers are in the image. True: the image
// keeps the record.
using RoundVisitor = std::function<bool(const LedgerImage& image, const LedgerRound& round)>;

// Nothing if too little is readable, or a row differs from its checksum, which makes the whole
// content unreliable: `report` then has the damage. An error if the copy cannot be made, or the
// file is not a ledger of a known revision.
absl::StatusOr<std::optional<LedgerImage>> ReadLedger(
    const Files& files, const std::string& path, Report& report,
    const RoundVisitor& visit = [](const LedgerImage&, const LedgerRound&) { return true; });

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_READER_H_
