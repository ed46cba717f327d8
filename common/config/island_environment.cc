// SPDX-License-Identifier: Apache-2.0
#include "common/config/island_environment.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/config/environment.h"
#include "common/plan/island_limits.h"

namespace atl {
namespace {

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::string Text(const char* name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? std::string() : found->second;
  }
  // Returns `low` and adds an error message if the variable is missing or is not a number from `low`
  // to `high`.
  uint32_t Number(const char* name, uint32_t low, uint32_t high) {
    const std::string text = Text(name);
    uint32_t value = 0;
    if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return value;
    faults.push_back(absl::StrCat(name, " is '", text.substr(0, 64), "' where WORLD_SIZE is ", Text("WORLD_SIZE"),
                                  "; it must be ", low, " to ", high));
    return low;
  }

  std::vector<std::string> faults;

 private:
  const Environment& environment_;
};

}  // namespace

std::vector<std::string> ReadIslandEnvironment(const Environment& environment, IslandOptions& island) {
  Reader reader(environment);
  const std::string world = reader.Text("WORLD_SIZE");
  island.ranks_here = island.size;
  if (world.empty() || world == "1") return {};
  const uint32_t told = island.size;
  island.launched = true;
  island.size = reader.Number("WORLD_SIZE", 2, limits::kIslandRanks);
  if (!reader.faults.empty()) return reader.faults;
  if (told > 1 && told != island.size) {
    reader.faults.push_back(absl::StrCat("--island-size is ", told, " and WORLD_SIZE is ", island.size,
                                         "; omit the option when a launcher starts the ranks"));
  }
  island.rank = reader.Number("RANK", 0, island.size - 1);
  island.ranks_here = island.size;
  if (!reader.Text("LOCAL_WORLD_SIZE").empty()) {
    island.ranks_here = reader.Number("LOCAL_WORLD_SIZE", 1, island.size);
  }
  island.rank_here = island.rank % island.ranks_here;
  const size_t faults = reader.faults.size();
  if (!reader.Text("LOCAL_RANK").empty()) island.rank_here = reader.Number("LOCAL_RANK", 0, island.ranks_here - 1);
  // LOCAL_WORLD_SIZE is needed for several machines: the ranks of one machine share its memory and cores.
  const bool is_told = !reader.Text("LOCAL_WORLD_SIZE").empty() || reader.faults.size() > faults;
  if (!is_told && island.rank_here != island.rank) {
    reader.faults.push_back(absl::StrCat(
        "LOCAL_WORLD_SIZE is missing, RANK is ", island.rank, " and LOCAL_RANK is ", island.rank_here,
        ", so the ranks run on several machines; set it on each machine to the number of ranks on that machine"));
  }
  island.port = reader.Number("MASTER_PORT", 1, kHighestPort - 1);
  // The agent of torchrun listens at MASTER_PORT itself, for the store of its ranks.
  if (reader.Text(kAgentStoreVariable) == "True") ++island.port;
  island.address = reader.Text("MASTER_ADDR");
  if (island.address.empty()) {
    reader.faults.emplace_back(
        "MASTER_ADDR is missing although WORLD_SIZE is set; set it to the address at which rank 0 listens");
  }
  island.secret = reader.Text(kIslandSecretVariable);
  if (island.secret.size() < limits::kIslandSecretBytes) {
    reader.faults.push_back(absl::StrCat("ATOLL_ISLAND_SECRET has ", island.secret.size(),
                                         " characters although WORLD_SIZE is set; give all ranks the same value of ",
                                         limits::kIslandSecretBytes,
                                         " or more characters, for example from 'openssl rand -hex 32'"));
  }
  return reader.faults;
}

}  // namespace atl
