// SPDX-License-Identifier: Apache-2.0
// The interpreter of stories: executes commands and returns the core's effects as text. Time passes
// only with "advance". Commands play the results of tasks (aggregated, checkpointed, parameters).
// The ledger is a LedgerFold, so that "restart" recovers from the records alone. Invariants are
// checked after every step.
//
//   submit JOB [min= max= fragments= inner= overlap= deadline= stop= dataset= priority= quorum= held_out= evaluate=
//     tasks= save= keep= keep_every= tokens= planned= drop_percent= pool= shards= strikes= screen=clip|report]
//   parameters JOB [up= down= largest_up= largest_down= other=FRAGMENT]
//   aggregated JOB FRAGMENT [clipped=WORKER remarked=WORKER] | screened JOB FRAGMENT WORKER WHY... [far=1]
//   checkpointed JOB STEP | checkpoint-delayed JOB STEP WHY... | checked JOB STEP [WHY...]
//   broken JOB WHY... | delayed JOB WHY...
//   connect WORKER [nonce= incarnation= job= leases=ID:CURSOR,... held=FRAGMENT/VERSION:DIGEST boot= evaluate_only=1
//     protocol= arithmetic=]
//   disconnect WORKER | ready WORKER step= [applied=FRAGMENT/VERSION,...] | applied|deviant WORKER FRAGMENT/VERSION
//   heartbeat WORKER step= step_ms= up= down= waiting=1 evaluating=1
//   lease WORKER request= samples= | return WORKER ID:CURSOR,... | drop WORKER FRAGMENT/VERSION step=
//   offer|contribute WORKER FRAGMENT/VERSION step= [digest= cursors=ID:CURSOR,... incarnation= codec= boot=]
//   finish U | durable U | broken-upload U
//   evaluated WORKER NUMBER [scored=1 nll= tokens=] | evaluation-failed WORKER NUMBER WHY...
//   leave WORKER WHY... | fail WORKER WHY... | fail-for-all WORKER WHY...
//   cancel|cancel-drain|pause|resume JOB | update JOB key=... | rollback JOB STEP
//   drain|cordon|evict|readmit WORKER | disk low|free
//   advance 1500ms [alive=a,b] | stalled 91s | restart [boot=] | view JOB | workers
#ifndef ATOLL_TESTS_SCENARIO_STORY_H_
#define ATOLL_TESTS_SCENARIO_STORY_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/ledger_fold.h"
#include "coordinator/core/core.h"
#include "tests/unit/coordinator/core/honest_claims.h"

namespace atl {

class Story {
 public:
  Story();
  // Returns the trace of one command, one line per effect; a single line with an error for an
  // unknown command.
  std::vector<std::string> Do(const std::string& command);

 private:
  struct Words {
    std::vector<std::string> words;  // without key=value pairs
    std::map<std::string, std::string> values;
    std::string At(size_t i) const { return i < words.size() ? words[i] : ""; }
    std::string Rest(size_t i) const;
    uint64_t Number(const std::string& key, uint64_t otherwise) const;
    bool Has(const std::string& key) const { return values.contains(key); }
  };
  static Words Parse(const std::string& command);

  std::vector<std::string> Step(const Event& event);
  std::vector<std::string> Take(const Effects& effects);
  std::vector<std::string> Submit(const Words& w);
  std::vector<std::string> Update(const Words& w);
  std::vector<std::string> Connect(const Words& w);
  std::vector<std::string> Say(const Words& w);
  std::vector<std::string> Offer(const Words& w, bool whole);
  std::vector<std::string> Control(const Words& w);
  std::vector<std::string> TaskDone(const Words& w);
  std::vector<std::string> Stalled(const Words& w);
  std::vector<std::string> Advance(const Words& w);
  std::vector<std::string> Restart(const Words& w);
  std::vector<std::string> View(const Words& w);
  ContributionHeader Header(const Words& w);
  void Change(JobSpec& spec, const Words& w);

  CoreOptions options_;
  Instant now_;
  LedgerFold ledger_;
  uint64_t boot_ = 1;
  std::unique_ptr<Core> core_;
  std::map<ConnectionId, std::string> names_;
  std::map<std::string, ConnectionId> connections_;
  std::map<std::string, uint64_t> incarnations_, nonces_;
  std::map<std::string, JobId> jobs_;  // newest assignment of each worker
  std::map<UploadId, ContributionHeader> uploads_;
  std::vector<ContributionHeader> accepted_;  // durable trailers
  HonestClaims claims_;
  std::map<std::pair<JobId, uint32_t>, CloseRound> closing_;
  uint64_t next_connection_ = 1, next_upload_ = 1, next_request_ = 1, heartbeats_ = 0;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SCENARIO_STORY_H_
