// SPDX-License-Identifier: Apache-2.0
#include "worker/train/optimizer_snapshot.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/format/safetensors.h"

namespace atl {
namespace {

constexpr char kKind[] = "atoll optimizer snapshot 1";
constexpr char kFirst[] = "first_moments", kSecond[] = "second_moments";
constexpr uint64_t kElementsAtOnce = uint64_t{4} << 20;

using Metadata = std::map<std::string, std::string>;

// Passes the arena to `take`, part after part.
absl::Status EachPart(const Arena& arena, const std::function<absl::Status(std::span<const float>)>& take) {
  std::vector<float> part(std::min(kElementsAtOnce, arena.elements()));
  for (uint64_t at = 0; at < arena.elements(); at += part.size()) {
    part.resize(std::min<uint64_t>(part.size(), arena.elements() - at));
    ATOLL_RETURN_IF_ERROR(arena.Read(at, part));
    ATOLL_RETURN_IF_ERROR(take(part));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DigestOfMoments(Trainer& trainer) {
  DigestHasher hasher;
  for (const Arena* arena : {trainer.first_moments(), trainer.second_moments()}) {
    ATOLL_RETURN_IF_ERROR(EachPart(*arena, [&](std::span<const float> part) {
      hasher.Update(std::as_bytes(part));
      return absl::OkStatus();
    }));
  }
  return hasher.Finish().Hex();
}

SafetensorsTensor TensorOf(const char* name, uint64_t elements) {
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.shape = {elements};
  return tensor;
}

absl::Status Load(const SafetensorsReader& reader, const char* name, Arena& into) {
  const SafetensorsTensor* stored = reader.Find(name);
  if (stored == nullptr || stored->elements != into.elements())
    return absl::DataLossError(absl::StrCat("it has no ", name, " of ", into.elements(), " elements"));
  std::vector<float> part(std::min(kElementsAtOnce, into.elements()));
  for (uint64_t at = 0; at < into.elements(); at += part.size()) {
    part.resize(std::min<uint64_t>(part.size(), into.elements() - at));
    ATOLL_RETURN_IF_ERROR(reader.ReadElements(name, at, part));
    ATOLL_RETURN_IF_ERROR(into.Write(at, part));
  }
  return absl::OkStatus();
}

std::string ValueOf(const Metadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? "" : found->second;
}

// Parses a text such as "3 3 2".
absl::StatusOr<VersionVector> VersionsOf(const std::string& text) {
  VersionVector versions;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &versions.emplace_back().value))
      return absl::DataLossError("one of its versions is not a number");
  }
  return versions;
}

std::string TextOf(const VersionVector& versions) {
  return absl::StrJoin(versions, " ", [](std::string* out, const Version& v) { absl::StrAppend(out, v.value); });
}

std::string TextOf(const JobCourse& course) { return absl::StrCat(course.line, " ", course.epoch); }

// FailedPrecondition or DataLoss unless the snapshot fits `facts`; otherwise its job step.
absl::StatusOr<uint64_t> CheckBelongs(const Metadata& metadata, const OptimizerSnapshotFacts& facts) {
  if (ValueOf(metadata, "kind") != kKind) return absl::FailedPreconditionError("it is not an optimizer snapshot");
  if (ValueOf(metadata, "job") != facts.job.value || ValueOf(metadata, "layout") != facts.layout.Hex())
    return absl::FailedPreconditionError("it belongs to another job or model");
  if (ValueOf(metadata, "course") != TextOf(facts.course)) {
    return absl::FailedPreconditionError(
        "the job was rolled back since it was saved, or its coordinator was restored from a backup");
  }
  uint64_t clock_step = 0;
  if (!absl::SimpleAtoi(ValueOf(metadata, "clock_step"), &clock_step))
    return absl::DataLossError("its step is not a number");
  if (clock_step > facts.clock_step) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was saved at step ", clock_step, ", beyond the job's present step"));
  }
  ATOLL_ASSIGN_OR_RETURN(const VersionVector versions, VersionsOf(ValueOf(metadata, "versions")));
  if (versions.size() != facts.versions.size()) {
    return absl::DataLossError(absl::StrCat("it has versions of ", versions.size(), " fragments, but the job has ",
                                            facts.versions.size(), " fragments"));
  }
  for (size_t p = 0; p < versions.size(); ++p) {
    if (versions[p] <= facts.versions[p]) continue;
    return absl::FailedPreconditionError(absl::StrCat("it was saved at version ", versions[p].value, " of fragment ", p,
                                                      ", but the job was rolled back to ", facts.versions[p].value));
  }
  return clock_step;
}

absl::StatusOr<uint64_t> Read(const Files& files, const std::string& path, const OptimizerSnapshotFacts& facts,
                              Trainer& trainer) {
  ATOLL_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::OpenFile(files, path));
  const Metadata& metadata = reader->metadata();
  ATOLL_ASSIGN_OR_RETURN(const uint64_t clock_step, CheckBelongs(metadata, facts));
  uint64_t steps = 0;
  if (!absl::SimpleAtoi(ValueOf(metadata, "steps"), &steps))
    return absl::DataLossError("its number of steps is not a number");
  ATOLL_RETURN_IF_ERROR(Load(*reader, kFirst, *trainer.first_moments()));
  ATOLL_RETURN_IF_ERROR(Load(*reader, kSecond, *trainer.second_moments()));
  ATOLL_ASSIGN_OR_RETURN(const std::string digest, DigestOfMoments(trainer));
  if (digest != ValueOf(metadata, "digest")) return absl::DataLossError("its values do not match their checksum");
  trainer.set_optimizer_steps(steps);
  return clock_step;
}

}  // namespace

absl::Status WriteOptimizerSnapshot(Files& files, const std::string& path, const OptimizerSnapshotFacts& facts,
                                    Trainer& trainer) {
  if (trainer.first_moments() == nullptr) return absl::FailedPreconditionError("plain SGD has no state");
  ATOLL_ASSIGN_OR_RETURN(const std::string digest, DigestOfMoments(trainer));
  const Metadata metadata = {{"kind", kKind},
                             {"job", facts.job.value},
                             {"layout", facts.layout.Hex()},
                             {"clock_step", absl::StrCat(facts.clock_step)},
                             {"versions", TextOf(facts.versions)},
                             {"course", TextOf(facts.course)},
                             {"steps", absl::StrCat(trainer.optimizer_steps())},
                             {"digest", digest}};
  const uint64_t elements = trainer.first_moments()->elements();
  ATOLL_ASSIGN_OR_RETURN(
      const auto writer,
      SafetensorsWriter::Create(files, path, {TensorOf(kFirst, elements), TensorOf(kSecond, elements)}, metadata));
  for (const Arena* arena : {trainer.first_moments(), trainer.second_moments()}) {
    ATOLL_RETURN_IF_ERROR(EachPart(*arena, [&](std::span<const float> part) { return writer->Append(part); }));
  }
  return writer->Finish();
}

absl::StatusOr<uint64_t> ReadOptimizerSnapshot(const Files& files, const std::string& path,
                                               const OptimizerSnapshotFacts& facts, Trainer& trainer) {
  if (trainer.first_moments() == nullptr) {
    ATOLL_RETURN_IF_ERROR(trainer.ResetOptimizer());
    return absl::NotFoundError("plain SGD has no state");
  }
  if (!files.Exists(path)) {
    ATOLL_RETURN_IF_ERROR(trainer.ResetOptimizer());
    return absl::NotFoundError(absl::StrCat("missing ", path));
  }
  absl::StatusOr<uint64_t> read = Read(files, path, facts, trainer);
  if (read.ok()) return read;
  ATOLL_RETURN_IF_ERROR(trainer.ResetOptimizer());
  // All other errors mean that the file is damaged, so its values are lost.
  if (absl::IsFailedPrecondition(read.status())) return Annotate(read.status(), path);
  return absl::DataLossError(absl::StrCat(path, ": ", read.status().message()));
}

}  // namespace atl
