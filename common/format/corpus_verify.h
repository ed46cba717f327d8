// SPDX-License-Identifier: Apache-2.0
// Reads a whole corpus and compares it with its manifest.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_
#define ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"

namespace atl {

// Called after every block with the bytes read so far and in total.
using VerifyProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Checks one shard: header, length, token count, hash of every block, hash of the file, every id
// below `vocab_size`. DataLoss names the shard, the first bad block and its byte range;
// InvalidArgument the first id that is too large.
absl::Status VerifyShard(const Files& files, const std::string& directory, const CorpusManifest& manifest,
                         const CorpusFile& file, const std::function<void(uint64_t)>& read_bytes = {});

// Called for every faulty file, with VerifyShard's error.
using VerifyFault = std::function<void(const absl::Status&)>;

// Checks the manifest, the tokenizer file and every shard. A fault in the manifest ends the check; another fault ends
// it only without `on_fault`. With `on_fault`, everything is checked, and the returned status is the first fault.
absl::StatusOr<CorpusManifest> VerifyCorpus(const Files& files, const std::string& directory,
                                            const VerifyProgress& progress = {}, const VerifyFault& on_fault = {});

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_VERIFY_H_
