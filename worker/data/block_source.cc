// SPDX-License-Identifier: Apache-2.0
#include "worker/data/block_source.h"

#include <algorithm>

#include "common/base/advice.h"
#include "common/base/check.h"
#include "common/plan/data_order.h"

namespace atl {

std::vector<std::vector<uint32_t>> TrainingFiles(const std::vector<CorpusManifest>& manifests) {
  std::vector<std::vector<uint32_t>> out(manifests.size());
  for (size_t c = 0; c < manifests.size(); ++c) {
    for (uint32_t f = 0; f < manifests[c].files.size(); ++f) {
      if (manifests[c].files[f].split == CorpusSplit::kTrain) out[c].push_back(f);
    }
  }
  return out;
}

uint64_t BlockSizeBytes(const CorpusManifest& manifest, const BlockId& id) {
  const CorpusFile& file = manifest.files.at(id.file);
  const uint64_t area = file.tokens * TokenBytes(manifest.token_type), begin = uint64_t{id.block} * kBlockBytes;
  ATOLL_CHECK(begin < area, "the block lies in the shard");
  return std::min(kBlockBytes, area - begin);
}

const Sha256& BlockHash(const CorpusManifest& manifest, const BlockId& id) {
  return manifest.files.at(id.file).blocks.at(id.block);
}

absl::Status CheckBlock(const CorpusManifest& manifest, const BlockId& id, const std::string& bytes,
                        const std::string& where) {
  const Sha256 actual = Sha256Of(AsBytes(bytes));
  const Sha256& expected = BlockHash(manifest, id);
  if (actual == expected) return absl::OkStatus();
  const size_t slash = where.rfind('/');
  const std::string verify = slash == std::string::npos
                                 ? "run `atoll data verify` on the directory of the corpus there"
                                 : absl::StrCat("run `atoll data verify ", ShellWord(where.substr(0, slash)), "`");
  return absl::DataLossError(absl::StrCat("shard ", manifest.files[id.file].name, " of corpus '", manifest.name,
                                          "' is damaged: block ", id.block, " (", bytes.size(), " bytes of ", where,
                                          ") has SHA-256 ", actual.Hex(), ", but the manifest has ", expected.Hex(),
                                          "; replace the file, or ", verify, " to list all damage"));
}

absl::Status CheckBlockId(const std::vector<CorpusManifest>& manifests, const BlockId& id) {
  if (id.corpus < manifests.size() && id.file < manifests[id.corpus].files.size() &&
      id.block < manifests[id.corpus].files[id.file].blocks.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no such block: corpus ", id.corpus, ", file ", id.file, ", block ", id.block));
}

}  // namespace atl
