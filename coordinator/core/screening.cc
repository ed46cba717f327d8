// SPDX-License-Identifier: Apache-2.0
// Handles the results of the screens: logs and counts refusals and clips, quarantines workers.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {

void Job::On(const ContributionsScreened& e) {
  if (HasEnded(run_.record.state) || e.epoch != run_.record.epoch) return;
  if (e.target.fragment.value >= run_.rounds.size()) return;
  Round& round = run_.rounds[e.target.fragment.value];
  if (!round.closing() || round.version() != e.target.version) return;
  round.Reopen();
  for (const ScreenedOut& out : e.refused) {
    const std::optional<Digest> digest = round.Refuse(out.worker);
    if (!digest) continue;
    // Its bytes stay in the round log: this record keeps a restart from accepting it again.
    core_.out.records.push_back(ScreenedRecord{run_.id(), run_.record.epoch, e.target, out.worker, *digest});
    const Member* member = core_.fleet.Find(out.worker);
    if (member != nullptr && member->record().job == run_.id()) {
      core_.SendTo(*member, ContributionRefused{run_.id(), e.target, *digest, out.why});
    }
    core_.Note(run_.id(), "contribution refused",
               absl::StrCat("contribution of worker ", out.worker.value, " refused: ", out.why),
               {{"worker", out.worker.value}});
    Strike(e.target.fragment, out);
  }
  SettleRevoked();
}

void Job::Strike(FragmentIndex fragment, const ScreenedOut& refused) {
  const uint32_t strikes = run_.strikes.Strike(refused.worker, fragment, refused.why);
  Member* member = core_.fleet.Find(refused.worker);
  if (member == nullptr || run_.spec->screens.norm != ScreenMode::kEnforce) return;
  const std::string at = absl::StrCat("fragment ", fragment.value, " of job ", run_.id().value);
  if (refused.far) {
    core_.quarantine(*member, absl::StrCat("its contribution to ", at, " was refused: ", refused.why));
  } else if (strikes >= run_.spec->screens.strikes) {
    core_.quarantine(*member, absl::StrCat(strikes, " contributions running to ", at,
                                           " were refused or clipped, the newest because ", refused.why));
  }
}

void Job::HearRemarks(FragmentIndex fragment, const std::vector<ScreenRemark>& remarks, const RoundRecord& record) {
  std::set<WorkerId> clipped;
  for (const ScreenRemark& remark : remarks) {
    if (remark.clipped) clipped.insert(remark.worker);
    const FragmentVersion target{fragment, Version{record.reached.version.value - 1}};
    run_.remarks.Add({remark.worker, target, remark.text});
    core_.Note(run_.id(), remark.clipped ? "contribution clipped" : "contribution stands out",
               absl::StrCat("contribution of worker ", remark.worker.value,
                            remark.clipped ? " clipped: " : " stands out: ", remark.text),
               {{"worker", remark.worker.value},
                {"fragment", absl::StrCat(fragment.value)},
                {"version", absl::StrCat(record.reached.version.value)}});
    if (remark.clipped) Strike(fragment, {remark.worker, remark.text, false});
  }
  for (const CommittedContribution& c : record.contributions) {
    if (!clipped.contains(c.header.worker)) run_.strikes.Clear(c.header.worker, fragment);
  }
}

void Machine::Quarantine(Member& member, const std::string& why) {
  if (!member.record().quarantine.empty()) return;
  const WorkerId& id = member.record().worker;
  const JobId job = member.record().job;
  member.Quarantine(why);
  for (auto& [name, other] : jobs_) other.ForgetStrikes(id);
  core_.fleet.Touch(id);
  Fence(member, "it is quarantined");
  core_.Note(job, "worker quarantined", QuarantineLine(member.record()), {{"worker", id.value}});
  if (member.connection()) core_.SendTo(member, Refused{QuarantineLine(member.record()), true});
  core_.Disconnect(member);
  member.Lose(core_.now);  // it is gone, and its loss needs no later report
}

}  // namespace atl
