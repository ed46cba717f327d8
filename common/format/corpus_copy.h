// SPDX-License-Identifier: Apache-2.0
// Whether a copy of a corpus is there, from the names and lengths of its shards alone: what is known before a job, and
// at once, however large the corpus. That the bytes are right is VerifyCorpus's to say.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_COPY_H_
#define ATOLL_COMMON_FORMAT_CORPUS_COPY_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"

namespace atl {

enum class CorpusCopyState {
  kWhole,   // every shard, each as long as the manifest says
  kAbsent,  // none of its shards
  kBroken,  // some are there, and not all of them whole
};

struct CorpusCopy {
  CorpusCopyState state = CorpusCopyState::kAbsent;
  std::string problem;  // empty when whole: "shard train-00001.bin is missing, and 2 more of 5 are not whole"
};

// Each shard is looked for in the directories in their order. May block; reads nothing but lengths.
CorpusCopy LookAtCorpus(const Files& files, const std::vector<std::string>& directories,
                        const CorpusManifest& manifest);

// Where the shards of a corpus of this name may lie below a data root (docs/install.md).
std::vector<std::string> CorpusDirectories(const std::string& data_root, const std::string& name);

// LookAtCorpus below a data root. Shards directly in it may be those of another corpus, as all have the same names:
// there a copy counts when it is whole, or when manifest.json beside it is `manifest`. With that manifest and without
// shards it is broken: somebody meant them to be there.
CorpusCopy LookBelowDataRoot(const Files& files, const std::string& data_root, const CorpusManifest& manifest);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_COPY_H_
