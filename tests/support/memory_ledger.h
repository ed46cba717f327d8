// SPDX-License-Identifier: Apache-2.0
// The ledger in memory, for harnesses: what survives a simulated crash is the MemoryLedgerDisk, which the test keeps.
#ifndef ATOLL_TESTS_SUPPORT_MEMORY_LEDGER_H_
#define ATOLL_TESTS_SUPPORT_MEMORY_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store/ledger.h"

namespace atl {

// What is durable. Outlives the ledgers that write it.
struct MemoryLedgerDisk {
  uint64_t boot = 0;
  std::vector<std::vector<LedgerRecord>> transactions;  // in order of commit
  std::map<std::string, TokenRecord> tokens;
  std::map<std::string, RevocationRecord> revocations;
};

// `fail` (may be empty) is asked before each commit; an error is returned and nothing is written.
std::unique_ptr<Ledger> MakeMemoryLedger(MemoryLedgerDisk& disk, std::function<absl::Status()> fail);

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_MEMORY_LEDGER_H_
