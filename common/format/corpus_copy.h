// SPDX-License-Identifier: Apache-2.0
// Checks whether a copy of a corpus exists, by the names and lengths of its shards. Fast for a
// corpus of any size, and possible before a job. VerifyCorpus checks the content.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_COPY_H_
#define ATOLL_COMMON_FORMAT_CORPUS_COPY_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"

namespace atl {

enum class CorpusCopyState {
  kWhole,   // every shard, each with the length in the manifest
  kAbsent,  // none of its shards
  kBroken,  // some shards exist, but not all of them are complete
};

struct CorpusCopy {
  CorpusCopyState state = CorpusCopyState::kAbsent;
  std::string problem;  // empty when whole: "shard train-00001.bin is missing, and 2 more of 5 are incomplete"
};

// Looks for each shard in the directories in order. May block; reads only file lengths.
CorpusCopy CheckCorpusCopy(const Files& files, const std::vector<std::string>& directories,
                           const CorpusManifest& manifest);

// Directories below a data root that may contain the shards of a corpus of this name
// (docs/install.md).
std::vector<std::string> CorpusDirectories(const std::string& data_root, const std::string& name);

// CheckCorpusCopy for the CorpusDirectories of a data root. Shards directly in the root may belong to another corpus,
// because all corpora use the same shard names. An incomplete copy in the root alone therefore counts as absent,
// unless a manifest.json in one of the directories has this SHA-256. With that manifest a copy without shards is
// broken, because the shards were meant to be there.
CorpusCopy LookBelowDataRoot(const Files& files, const std::string& data_root, const CorpusManifest& manifest,
                             const Sha256& sha256);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_COPY_H_
