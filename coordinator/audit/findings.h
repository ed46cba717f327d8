// SPDX-License-Identifier: Apache-2.0
// The findings of an audit of a state directory: damage, notes and counts, and their output. Plain values.
#ifndef ATOLL_COORDINATOR_AUDIT_FINDINGS_H_
#define ATOLL_COORDINATOR_AUDIT_FINDINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atl::audit {

// One deviation of the state directory from the formats: damage or a note.
struct Finding {
  std::string file;                // path; empty if not about a single file
  std::optional<uint64_t> offset;  // of the first byte concerned, if known
  std::string job;                 // empty: all
  std::string problem;             // one clause
  std::string way_out;             // one clause: the remedy
};

class Report {
 public:
  // At most this number of damages, and of notes, is stored; further ones are only counted.
  static constexpr size_t kKept = 1000;

  Report(std::string command, std::string state_dir) : command_(std::move(command)), state_dir_(std::move(state_dir)) {}

  // Data is lost or wrong.
  void Damage(Finding finding);
  // A finding that is no damage, such as a torn tail or an incomplete file.
  void Note(Finding finding);
  void Count(const std::string& what, uint64_t more = 1) { counts_[what] += more; }

  bool ok() const { return damages_ == 0; }
  uint64_t damages() const { return damages_; }  // including those not stored
  const std::vector<Finding>& damage() const { return damage_; }
  const std::vector<Finding>& notes() const { return notes_; }
  uint64_t count(const std::string& what) const;

  std::string Text() const;
  // One object: command, state_dir, ok, counts, damages (the number of them), damage, notes.
  std::string Json() const;

 private:
  std::string command_, state_dir_;
  uint64_t damages_ = 0, notes_seen_ = 0;
  std::vector<Finding> damage_, notes_;
  std::map<std::string, uint64_t> counts_;
};

// The usual remedies.
extern const char kRestoreFile[];
extern const char kRestoreState[];
extern const char kNewerProgram[];

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FINDINGS_H_
