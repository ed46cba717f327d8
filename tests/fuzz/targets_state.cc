// SPDX-License-Identifier: Apache-2.0
// Data on the coordinator's disk: records, round log segments, snapshots, the ledger's write-ahead
// log, backup manifests, event lines. The store's reader of a segment and the oracle must agree.
#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/check.h"
#include "common/telemetry/event_log.h"
#include "common/wire/record_messages.h"
#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/audit/wal.h"
#include "coordinator/backup/manifest.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/segment_format.h"
#include "coordinator/store/snapshot_store.h"
#include "tests/fuzz/memory_content.h"
#include "tests/fuzz/targets.h"
#include "tests/oracle/oracle.h"
#include "tests/unit/coordinator/store/sample_contribution.h"

namespace atl::fuzz {
namespace {

const RoundKey kRound{{"tiny"}, 0, {{0}, {7}}};
const SnapshotKey kSnapshot{{"tiny"}, 0, {{0}, {7}}};
constexpr Digest kLayout{1, 2};

template <typename Parse, typename Serialize>
void BackAgain(const std::string& input, Parse parse, Serialize serialize) {
  const auto record = parse(input);
  if (!record.ok()) return;
  const std::string written = serialize(*record);
  const auto back = parse(written);
  ATOLL_CHECK(back.ok() && serialize(*back) == written, "a record comes back the same");
}

// The first byte selects the record type.
void Record(const std::string& input) {
  if (input.empty()) return;
  const std::string bytes = input.substr(1);
  const auto round = [](const std::string& b) { return ParseRoundRecord(b, {"tiny"}, 0); };
  switch (input[0] % 9) {
    case 0: return BackAgain(bytes, ParseSegmentHeader, SerializeSegmentHeader);
    case 1: return BackAgain(bytes, ParseContributionBegin, SerializeContributionBegin);
    case 2: return BackAgain(bytes, ParseAccepted, SerializeAccepted);
    case 3: return BackAgain(bytes, ParseUpdateInfo, SerializeUpdateInfo);
    case 4: return BackAgain(bytes, ParseSnapshotHeader, SerializeSnapshotHeader);
    case 5: return BackAgain(bytes, round, SerializeRoundRecord);
    case 6: return BackAgain(bytes, ParseCheckpointManifest, SerializeCheckpointManifest);
    case 7: return BackAgain(bytes, ParseTaskScores, SerializeTaskScores);
    default: return BackAgain(bytes, ParseJobSpec, SerializeJobSpec);
  }
}

// The store and the oracle find the same valid prefix, and the same files torn or damaged.
void Segment(const std::string& input) {
  MemoryFiles files;
  Put(files, "segment", input);
  const auto file = files.OpenForRead("segment");
  ATOLL_CHECK(file.ok(), "it is there");
  uint64_t visited = 0;
  const auto own = ScanRecords(**file, [&visited](const ScannedRecord&, Bytes) {
    ++visited;
    return absl::OkStatus();
  });
  const oracle::Scan other = oracle::ScanSegment(input);
  ATOLL_CHECK(own.ok(), "memory can be read");
  ATOLL_CHECK(own->damaged() == other.damaged, "both call it damaged, or neither");
  ATOLL_CHECK(own->valid_bytes == other.valid_bytes, "one valid prefix");
  ATOLL_CHECK(own->torn() == other.torn, "both call it torn, or neither");
  ATOLL_CHECK(visited == other.records, "the same records");
}

// Opened as at a coordinator's start: refused with a reason, or read to the end.
void RoundLogFile(const std::string& input) {
  MemoryFiles files;
  const DataDirectory directory("state");
  Put(files, directory.SegmentPath(kRound), input);
  RoundLog log(files, directory, {3}, /*secret=*/2);
  if (!log.Open(kRound, kLayout).ok()) return;
  const auto info = log.Info(kRound);
  ATOLL_CHECK(info.ok(), "an open segment has facts");
  for (const AcceptedRecord& record : info->accepted) (void)log.ReadContribution(kRound, record.header.worker);
  (void)log.OpenUpdate(kRound, kLayout);
}

void Snapshot(const std::string& input) {
  MemoryFiles files;
  const DataDirectory directory("state");
  const std::string path = directory.SnapshotPath(kSnapshot);
  Put(files, path, input);
  const SnapshotStore store(files, directory, {3});
  const bool loaded = store.Load(kSnapshot, kLayout).ok();
  audit::Report report("verify", "state");
  const auto header = audit::ReadSnapshot(files, path, "tiny", report);
  ATOLL_CHECK(!loaded || header.has_value(), "what the coordinator takes the audit finds whole");
  ATOLL_CHECK(header.has_value() == report.ok(), "damage is reported");
}

void Wal(const std::string& input) {
  MemoryFiles files;
  Put(files, "wal", input);
  const auto file = files.OpenForRead("wal");
  ATOLL_CHECK(file.ok(), "it is there");
  const auto check = audit::CheckWal(**file);
  ATOLL_CHECK(!check.ok() || !check->broken || *check->broken <= input.size(), "a break lies in the file");
  audit::WalPrefix prefix;
  ATOLL_CHECK(check.ok() && prefix.Extend(**file).ok(), "bytes in memory can be read");
  const std::string& committed = prefix.bytes();
  ATOLL_CHECK(input.starts_with(committed), "what is committed stands at the start");
  if (committed.empty()) return;
  const uint64_t frame = audit::kWalFrameHeaderBytes + audit::WalPageBytes(committed);
  ATOLL_CHECK((committed.size() - audit::kWalHeaderBytes) / frame <= check->frames, "both readers see its frames");
}

void BackupManifest(const std::string& input) {
  const auto manifest = backup::ParseManifest(input);
  if (!manifest.ok()) return;
  for (const auto& [path, hash] : manifest->files) {
    ATOLL_CHECK(backup::IsStateFile(path), "no manifest leads out of its directory");
  }
  ATOLL_CHECK(backup::ToText(*manifest) == input, "only what is written is read");
}

void Event(const std::string& input) {
  const auto event = EventFromJson(input);
  if (!event.ok()) return;
  const std::string line = EventToJson(*event);
  const auto back = EventFromJson(line);
  ATOLL_CHECK(back.ok() && EventToJson(*back) == line, "an event comes back the same");
}

std::string SegmentSeed() {
  MemoryFiles files;
  const DataDirectory directory("state");
  RoundLog log(files, directory, {2}, /*secret=*/2);
  const std::vector<std::byte> payload(100, std::byte{7});
  const ContributionHeader header = SampleContribution(kRound, "a", payload);
  const std::vector<Bytes> pieces = {payload};
  const UpdateInfo update{{kRound.target.fragment, {8}}, {3, 4}, DigestOf(payload), payload.size(), CodecKind::kFp32};
  ATOLL_CHECK(log.Open(kRound, kLayout).ok() && log.Begin(kRound, header).ok() &&
                  log.Append(kRound, header.worker, 0, pieces).ok() && log.Accept(kRound, header.worker, 5).ok() &&
                  log.WriteUpdate(kRound, update, payload).ok(),
              "a seed is valid");
  return Get(files, directory.SegmentPath(kRound));
}

std::string SnapshotSeed() {
  MemoryFiles files;
  const DataDirectory directory("state");
  SnapshotStore store(files, directory, {2});
  const std::vector<float> values(40, 0.5f);
  ATOLL_CHECK(store.Write(kSnapshot, FragmentArrays{values, {}, {}}, ContentHash(values, 7, kLayout), kLayout).ok(),
              "a seed is valid");
  return Get(files, directory.SnapshotPath(kSnapshot));
}

// A log of two frames with SQLite's checksums, by section 4.1 of "Database File Format".
std::string WalSeed() {
  std::string wal;
  const auto put = [&wal](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) wal.push_back(static_cast<char>(value >> shift));
  };
  uint32_t s0 = 0, s1 = 0;
  const auto sum = [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += 8) {
      uint32_t pair[2];
      std::memcpy(pair, wal.data() + at, 8);  // magic ...682: sums over little-endian words
      s0 += pair[0] + s1;
      s1 += pair[1] + s0;
    }
  };
  constexpr size_t kPage = 512;
  for (const uint32_t word : {0x377f0682u, 3007000u, uint32_t{kPage}, 0u, 11u, 12u}) put(word);
  sum(0, 24);
  put(s0);
  put(s1);
  for (uint32_t frame = 1; frame <= 2; ++frame) {
    const size_t begin = wal.size();
    for (const uint32_t word : {frame, frame, 11u, 12u}) put(word);
    const std::string page(kPage, static_cast<char>(frame));
    sum(begin, begin + 8);
    const size_t place = wal.size();
    wal += std::string(8, '\0') + page;
    sum(place + 8, wal.size());
    std::string sums;
    std::swap(wal, sums);
    put(s0);
    put(s1);
    std::swap(wal, sums);
    wal.replace(place, 8, sums);
  }
  return wal;
}

}  // namespace

std::vector<Target> StateTargets() {
  const auto kind = [](char which, const std::string& bytes) { return std::string(1, which) + bytes; };
  backup::Manifest backup;
  backup.state_dir = "/srv/atoll";
  backup.files["ledger.sqlite"] = Sha256Of({});
  LoggedEvent event{{"tiny"}, 3, 5, "round committed", "version 1", {{"version", "1"}}, {{"loss", 10, 2.5}}, {}};
  return {
      {"record",
       Record,
       {kind(0, SerializeSegmentHeader({1, {"tiny"}, 0, {{0}, {1}}, {1, 2}, {3}})),
        kind(3, SerializeUpdateInfo({{{0}, {1}}, {1, 2}, {3, 4}, 100, CodecKind::kFp32})),
        kind(4, SerializeSnapshotHeader({1, {"tiny"}, 0, {{0}, {1}}, 100, {1, 2}, {}, {}, {3, 4}, {3}})),
        kind(7, SerializeTaskScores({{"passive_1", 10, 7, {}}}))}},
      {"segment", Segment, {SegmentSeed()}},
      {"round_log", RoundLogFile, {SegmentSeed()}},
      {"snapshot", Snapshot, {SnapshotSeed()}},
      {"write_ahead_log", Wal, {WalSeed()}},
      {"backup_manifest", BackupManifest, {backup::ToText(backup)}},
      {"event", Event, {EventToJson(event)}},
  };
}

}  // namespace atl::fuzz
