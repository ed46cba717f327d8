// SPDX-License-Identifier: Apache-2.0
#include "common/guard/connection_table.h"

#include <algorithm>
#include <tuple>

namespace atl::guard {

namespace {

constexpr int kLooks = 8;                       // sockets inspected in the search for a connection to end
constexpr int kLooksOfTurn = 32;                // and in the search for one to serve
constexpr Duration kLately = Seconds(10);       // a network that was served longer ago counts as not served
constexpr Duration kDropping = Seconds(1);      // between searches for networks without effect
constexpr size_t kMembersFrom = 4096;           // addresses of members' calls; beyond that, the oldest is dropped
constexpr long kOfOneMember = 8;                // of them of one identity; as above
constexpr Duration kMemberFor = Seconds(3600);  // after a member's last call from an address
constexpr size_t kKeptOfMember =
    16;  // connections without a call of a member's address that do not give way to strangers
constexpr uint64_t kTurnsOfMembers = 4;  // one turn in so many is for members and strangers alike

}  // namespace

std::optional<uint64_t> ConnectionTable::ConnectionToEnd(const Network* address, const See& see) const {
  if (address == nullptr) {
    // Whether it may give way to strangers; those without a call of each network; whether it waits for its turn.
    std::tuple<bool, size_t, size_t, size_t, bool> most;
    for (const auto& [id, entry] : entries_) {
      if (!entry.silent) continue;
      const auto& [wide, narrower, from] = entry.networks;
      const std::tuple counts(!entry.of_member || from->silent > kKeptOfMember, wide->silent, narrower->silent,
                              from->silent, waiting_.contains(id));
      if (counts <= most) continue;  // of equals, that of the oldest
      most = counts;
      address = &entry.from();
    }
  }
  std::optional<uint64_t> first, oldest;
  int looked = 0;
  for (const auto& [id, entry] : entries_) {
    if (!entry.silent || &entry.from() != address) continue;
    if (!oldest) oldest = id;
    const bool waits = waiting_.contains(id);
    const Seen seen = waits && looked < kLooks ? see(id) : Seen{};
    if (waits && looked++ < kLooks && seen.left) return id;
    if (!first && (!waits || seen.unread == 0)) first = id;
    if (first && looked >= kLooks) break;
  }
  return first ? first : oldest;
}

void ConnectionTable::Place(Entry& entry, const std::string& address, Instant now) {
  if (now >= networks_dropped_ + kDropping) DropNetworks(now);
  const Networks names = NetworksOf(address);
  entry.address = names.back();
  const auto member = members_from_.find(entry.address);
  entry.of_member = member != members_from_.end() && now < member->second.called + kMemberFor;
  for (size_t width = 0; width < names.size(); ++width) entry.networks[width] = &networks_[width][names[width]];
}

void ConnectionTable::Count(const Entry& entry) {
  for (Network* network : entry.networks) {
    ++network->connections;
    if (entry.silent) ++network->silent;
  }
}

void ConnectionTable::Uncount(const Entry& entry) {
  for (Network* network : entry.networks) {
    --network->connections;
    if (entry.silent) --network->silent;
  }
}

void ConnectionTable::SetSilent(Entry& entry, bool silent) {
  Uncount(entry);
  entry.silent = silent;
  Count(entry);
}

void ConnectionTable::DropNetworks(Instant now) {
  networks_dropped_ = now;
  for (auto& of_a_width : networks_) {
    std::erase_if(of_a_width, [&](const auto& named) {
      const Network& network = named.second;
      return network.connections == 0 && now >= network.served + kLately && now >= network.next &&
             now >= network.slowed_until && now >= network.faults_began + Seconds(1);
    });
  }
}

ConnectionTable::Arrival ConnectionTable::Arrive(uint64_t id, const std::string& address, Instant now, const See& see) {
  Arrival arrival;
  if (now >= burst_began_ + kBurstTime) {
    burst_began_ = now;
    burst_ = 0;
  }
  arrival.ends_burst = ++burst_ >= kBurst;
  Entry entry{.arrived = now, .filled = now, .calls = double(limits_.calls_at_first)};
  Place(entry, address, now);
  const bool address_full = !address.empty() && entry.from().connections >= limits_.per_address;
  if (address_full || entries_.size() >= limits_.connections) {
    arrival.gives_way = ConnectionToEnd(address_full ? &entry.from() : nullptr, see);
    if (!arrival.gives_way) return arrival;
    Leave(*arrival.gives_way);
  }
  Count(entry);
  next_turn_ = std::min(waiting_.empty() ? kNever : next_turn_, TurnOf(entry, now));
  entries_[id] = std::move(entry);
  silent_.insert(id);
  waiting_.insert(id);
  arrival.admitted = true;
  return arrival;
}

std::optional<uint64_t> ConnectionTable::GiveWay(const See& see) {
  const std::optional<uint64_t> gives_way = ConnectionToEnd(nullptr, see);
  if (gives_way) Leave(*gives_way);
  return gives_way;
}

void ConnectionTable::Leave(uint64_t id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Uncount(it->second);
  silent_.erase(id);
  if (const auto counted = by_identity_.find(it->second.identity);
      counted != by_identity_.end() && --counted->second == 0)
    by_identity_.erase(counted);
  waiting_.erase(id);
  entries_.erase(it);
}

Instant ConnectionTable::TurnOf(const Entry& entry, Instant now) const {
  return std::max(TurnAtItsAddress(entry, now), TurnOfAll());
}

Instant ConnectionTable::TurnAtItsAddress(const Entry& entry, Instant now) const {
  const Network& address = entry.from();
  if (address.next == kLongAgo) return now;
  const Instant at_once = address.next - limits_.pace * limits_.at_once;
  if (now >= address.slowed_until) return at_once;
  const Instant slowed = std::max(address.next, entry.arrived + limits_.shown);
  return std::min(slowed, std::max(at_once, address.slowed_until));
}

void ConnectionTable::TakePace(Network& address, Instant now) const {
  address.next = now < address.slowed_until ? now + limits_.turn : std::max(address.next, now) + limits_.pace;
}

uint64_t ConnectionTable::ConnectionToServe(uint64_t oldest, const See& see) const {
  const auto spoke = [&](uint64_t id) {
    const Seen seen = see(id);
    return seen.unread > 0 || seen.left;
  };
  if (spoke(oldest)) return oldest;
  const Network* address = &entries_.at(oldest).from();
  uint64_t next = oldest;
  int looked = 0;
  for (auto it = waiting_.rbegin(); *it != oldest && looked < kLooksOfTurn; ++it) {
    if (&entries_.at(*it).from() != address) continue;
    ++looked;
    if (spoke(*it)) next = *it;
  }
  return next;
}

ConnectionTable::Turn ConnectionTable::TakeTurn(uint64_t id, Instant now, const See& see) {
  Entry& entry = entries_.at(id);
  const Seen seen = see(id);
  const bool too_fast = now < entry.from().slowed_until && seen.unread > limits_.unserved_bytes;
  const Way way = too_fast ? Way::kTooFast : seen.left ? Way::kLeft : Way::kServed;
  waiting_.erase(id);
  if (way != Way::kServed) {
    Leave(id);
  } else if (!entry.address.empty()) {
    next_of_all_ = std::max(next_of_all_, now) + limits_.pace_of_all;
    for (Network* network : entry.networks) network->served = now;
    TakePace(entry.from(), now);
  }
  return {id, way};
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurns(Instant now, const See& see) {
  if (now < NextTurn()) return {};
  std::unordered_map<uint64_t, Seen> known;
  const See once = [&](uint64_t id) {
    const auto [it, added] = known.try_emplace(id);
    if (added) it->second = see(id);
    return it->second;
  };
  const Instant last = std::max(next_of_all_, now) + limits_.pace_of_all * (int64_t(waiting_.size()) - 1);
  const bool scarce = last > now + limits_.pace_of_all * limits_.all_at_once;
  return scarce ? TakeTurnsByAddress(now, once) : TakeTurnsByArrival(now, once);
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurnsByArrival(Instant now, const See& see) {
  std::vector<Turn> turns;
  next_turn_ = kNever;
  const std::set<uint64_t> waiting = waiting_;
  for (const uint64_t oldest : waiting) {
    while (waiting_.contains(oldest)) {
      const uint64_t id = TurnOf(entries_.at(oldest), now) <= now ? ConnectionToServe(oldest, see) : oldest;
      if (const Instant turn = TurnOf(entries_.at(id), now); now < turn) {
        next_turn_ = std::min(next_turn_, turn);
        break;
      }
      turns.push_back(TakeTurn(id, now, see));
    }
  }
  return turns;
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurnsByAddress(Instant now, const See& see) {
  std::vector<Turn> turns;
  for (std::optional<uint64_t> next; (next = NextByAddress(now)) && TurnOfAll() <= now;) {
    const uint64_t id = ConnectionToServe(*next, see);
    turns.push_back(TakeTurn(TurnOf(entries_.at(id), now) <= now ? id : *next, now, see));
    ++turns_by_address_;
  }
  return turns;
}

std::optional<uint64_t> ConnectionTable::NextByAddress(Instant now) {
  std::optional<uint64_t> next;
  std::tuple<bool, Instant, Instant, Instant, uint64_t> best;  // the least one: a stranger's; last turns; its arrival
  const bool members_first = turns_by_address_ % kTurnsOfMembers != 0;
  next_turn_ = kNever;
  for (const uint64_t id : waiting_) {
    const Entry& entry = entries_.at(id);
    const Instant turn = TurnAtItsAddress(entry, now);
    next_turn_ = std::min(next_turn_, std::max(turn, TurnOfAll()));
    if (turn > now) continue;
    const auto served = [&](size_t width) {
      const Instant last = entry.networks[width]->served;
      return now < last + kLately ? last : kLongAgo;
    };
    const std::tuple key(members_first && !entry.of_member, served(0), served(1), served(2),
                         served(2) == kLongAgo ? ~id : id);
    if (next && key >= best) continue;
    next = id;
    best = key;
  }
  return next;
}

void ConnectionTable::Slow(Network& address, Instant now) const {
  if (now >= address.slowed_until) address.next = now;
  address.slowed_until = now + limits_.slowed;
}

ConnectionTable::Moved ConnectionTable::Move(uint64_t id, const std::string& address, Instant now, const See& see) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return {};
  Moved moved;
  Entry placed = found->second;
  Place(placed, address, now);
  const Instant turn = std::max(now, TurnAtItsAddress(placed, now));
  bool has_room = turn <= now + limits_.pace * int64_t(limits_.per_address);
  if (has_room && placed.from().connections >= limits_.per_address) {
    moved.gives_way = ConnectionToEnd(&placed.from(), see);
    has_room = moved.gives_way && *moved.gives_way != id;
    if (has_room) Leave(*moved.gives_way);
  }
  if (!has_room) {
    Leave(id);
    return moved;
  }
  Uncount(found->second);
  Count(placed);
  found->second = std::move(placed);
  TakePace(found->second.from(), turn);
  moved.turn = turn;
  return moved;
}

ConnectionTable::Verdict ConnectionTable::Called(uint64_t id, const std::string& identity, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Verdict::kTooFast;
  Entry& entry = found->second;
  SetSilent(entry, false);
  silent_.erase(id);
  if (entry.identity.empty() && !identity.empty()) {
    if (const auto has = by_identity_.find(identity);
        has != by_identity_.end() && has->second >= limits_.per_identity) {
      Leave(id);
      return Verdict::kTooMany;
    }
    entry.identity = identity;
    ++by_identity_[identity];
  }
  const double rate = limits_.calls_per_second;
  entry.calls = std::min(rate, entry.calls + rate * ToSeconds(now - entry.filled)) - 1;
  entry.filled = now;
  if (entry.calls >= 0) return Verdict::kAllowed;
  if (!entry.address.empty()) Slow(entry.from(), now);
  Leave(id);
  return Verdict::kTooFast;
}

void ConnectionTable::Allowed(uint64_t id, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.identity.empty()) return;
  const std::string& address = found->second.address;
  const std::string& identity = found->second.identity;
  if (!members_from_.contains(address)) {
    const auto drop_oldest = [&](const auto& among) {
      auto oldest = members_from_.end();
      for (auto it = members_from_.begin(); it != members_from_.end(); ++it) {
        if (among(it->second) && (oldest == members_from_.end() || it->second.called < oldest->second.called))
          oldest = it;
      }
      members_from_.erase(oldest);
    };
    const auto own = [&](const MemberAddress& one) { return one.identity == identity; };
    const auto count =
        std::count_if(members_from_.begin(), members_from_.end(), [&](const auto& one) { return own(one.second); });
    if (count >= kOfOneMember) drop_oldest(own);
    if (members_from_.size() >= kMembersFrom) drop_oldest([](const MemberAddress&) { return true; });
  }
  members_from_[address] = {identity, now};
}

void ConnectionTable::Answered(uint64_t id) {
  if (const auto found = entries_.find(id); found != entries_.end()) SetSilent(found->second, true);
}

void ConnectionTable::Revoked(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  std::erase_if(members_from_, [&](const auto& one) { return one.second.identity == found->second.identity; });
  Leave(id);
}

void ConnectionTable::Faulted(uint64_t id, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const bool named = !found->second.address.empty();
  Network& address = found->second.from();
  Leave(id);
  if (now - address.faults_began >= Seconds(1)) {
    address.faults_began = now;
    address.faults = 0;
  }
  if (++address.faults > limits_.faults_per_second && named) Slow(address, now);
}

std::vector<uint64_t> ConnectionTable::TakeSilent(Instant now) {
  std::vector<uint64_t> ended;
  for (const uint64_t id : silent_) {
    if (now - entries_.at(id).arrived < limits_.without_call) break;
    ended.push_back(id);
  }
  for (const uint64_t id : ended) Leave(id);
  return ended;
}

Instant ConnectionTable::NextSilent() const {
  return silent_.empty() ? kNever : entries_.at(*silent_.begin()).arrived + limits_.without_call;
}

size_t ConnectionTable::From(const std::string& address) const {
  const auto found = networks_.back().find(NetworksOf(address).back());
  return found == networks_.back().end() ? 0 : found->second.connections;
}

}  // namespace atl::guard
