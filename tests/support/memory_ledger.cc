// SPDX-License-Identifier: Apache-2.0
#include "tests/support/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "common/plan/ledger_fold.h"

namespace atl {
namespace {

class MemoryLedger final : public Ledger {
 public:
  MemoryLedger(MemoryLedgerDisk& disk, std::function<absl::Status()> fail) : disk_(disk), fail_(std::move(fail)) {}

  absl::Status Commit(const std::vector<LedgerRecord>& records) override {
    if (fail_) ATOLL_RETURN_IF_ERROR(fail_());
    disk_.transactions.push_back(records);
    return absl::OkStatus();
  }

  absl::StatusOr<RecoveredState> Recover() override {
    ++disk_.boot;
    LedgerFold fold;
    for (const auto& transaction : disk_.transactions) fold.Apply(transaction);
    return fold.State(BootNumber{disk_.boot});
  }

  absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                  Version after, size_t limit) const override {
    std::vector<RoundRecord> rounds;
    for (const auto& transaction : disk_.transactions) {
      for (const LedgerRecord& record : transaction) {
        const auto* round = std::get_if<RoundRecord>(&record);
        if (round != nullptr && round->job == job && round->epoch == epoch && round->reached.fragment == fragment &&
            round->reached.version > after) {
          rounds.push_back(*round);
        }
      }
    }
    std::sort(rounds.begin(), rounds.end(),
              [](const RoundRecord& a, const RoundRecord& b) { return a.reached < b.reached; });
    if (rounds.size() > limit) rounds.resize(limit);
    return rounds;
  }

  absl::Status PutToken(const TokenRecord& token) override {
    if (fail_) ATOLL_RETURN_IF_ERROR(fail_());
    disk_.tokens[token.id] = token;
    return absl::OkStatus();
  }
  absl::Status DropToken(const std::string& id) override {
    if (fail_) ATOLL_RETURN_IF_ERROR(fail_());
    disk_.tokens.erase(id);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenRecord>> Tokens() const override {
    std::vector<TokenRecord> tokens;
    tokens.reserve(disk_.tokens.size());
    for (const auto& [id, token] : disk_.tokens) tokens.push_back(token);
    return tokens;
  }

  absl::Status PutRevocation(const RevocationRecord& revocation) override {
    if (fail_) ATOLL_RETURN_IF_ERROR(fail_());
    disk_.revocations[revocation.name] = revocation;
    return absl::OkStatus();
  }
  absl::Status DropRevocation(const std::string& name) override {
    if (fail_) ATOLL_RETURN_IF_ERROR(fail_());
    disk_.revocations.erase(name);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<RevocationRecord>> Revocations() const override {
    std::vector<RevocationRecord> revocations;
    revocations.reserve(disk_.revocations.size());
    for (const auto& [name, revocation] : disk_.revocations) revocations.push_back(revocation);
    return revocations;
  }

 private:
  MemoryLedgerDisk& disk_;
  std::function<absl::Status()> fail_;
};

}  // namespace

std::unique_ptr<Ledger> MakeMemoryLedger(MemoryLedgerDisk& disk, std::function<absl::Status()> fail) {
  return std::make_unique<MemoryLedger>(disk, std::move(fail));
}

}  // namespace atl
