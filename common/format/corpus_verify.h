// SPDX-License-Identifier: Apache-2.0
// Reads a corpus from end to end and compares it with its manifest.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_
#define ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"

namespace atl {

// Called after every block with bytes read so far and in all.
using VerifyProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Checks one shard: header, length, token count, hash of every block, hash of the file, every id below `vocab_size`.
// DataLoss names the shard, the first bad block and its byte range; InvalidArgument the first id that is too large.
absl::Status VerifyShard(const Files& files, const std::string& directory, const CorpusManifest& manifest,
                         const CorpusFile& file, const std::function<void(uint64_t)>& read_bytes = {});

// Told of every faulty file, as VerifyShard says it.
using VerifyFault = std::function<void(const absl::Status&)>;

// Checks the manifest, the tokenizer file and every shard. A fault of the manifest ends it; with `on_fault` those of
// the other files do not, and the status is then the first of them.
absl::StatusOr<CorpusManifest> VerifyCorpus(const Files& files, const std::string& directory,
                                            const VerifyProgress& progress = {}, const VerifyFault& on_fault = {});

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_
