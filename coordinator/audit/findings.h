// SPDX-License-Identifier: Apache-2.0
// What an audit of a state directory found: damage, notes and counts, and how they are printed. Plain values.
#ifndef ATOLL_COORDINATOR_AUDIT_FINDINGS_H_
#define ATOLL_COORDINATOR_AUDIT_FINDINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atl::audit {

// One thing that is not as the formats say.
struct Finding {
  std::string file;                // path; empty when it is no single file
  std::optional<uint64_t> offset;  // of the first byte concerned, where that is known
  std::string job;                 // empty: all
  std::string problem;             // one clause
  std::string way_out;             // one clause: what to do
};

class Report {
 public:
  // At most kKept of each kind are kept, the rest is counted.
  static constexpr size_t kKept = 1000;

  Report(std::string command, std::string state_dir) : command_(std::move(command)), state_dir_(std::move(state_dir)) {}

  // Something is lost or wrong.
  void Damage(Finding finding);
  // Something to know that is no damage: a torn tail, a file half written.
  void Note(Finding finding);
  void Count(const std::string& what, uint64_t more = 1) { counts_[what] += more; }

  bool ok() const { return damages_ == 0; }
  uint64_t damages() const { return damages_; }  // those that are not kept too
  const std::vector<Finding>& damage() const { return damage_; }
  const std::vector<Finding>& notes() const { return notes_; }
  uint64_t count(const std::string& what) const;

  std::string Text() const;
  // One object: command, state_dir, ok, counts, damage, notes.
  std::string Json() const;

 private:
  std::string command_, state_dir_;
  uint64_t damages_ = 0, notes_seen_ = 0;
  std::vector<Finding> damage_, notes_;
  std::map<std::string, uint64_t> counts_;
};

// The usual ways out.
extern const char kRestoreFile[];
extern const char kRestoreState[];
extern const char kNewerProgram[];

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FINDINGS_H_
