// SPDX-License-Identifier: Apache-2.0
// Files stored by their content's SHA-256: manifests, tokenizers, initial weights. An upload appends to
// a .part file and resumes at its length after a disconnect or a restart. The complete file is verified,
// flushed and renamed; it never changes afterwards. Thread rule: the calls of all uploads (StillToCome,
// Begin to Suspend) run on one serial executor; Has, Missing, Open and Read may run meanwhile.
#ifndef ATOLL_COORDINATOR_STORE_BLOB_STORE_H_
#define ATOLL_COORDINATOR_STORE_BLOB_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "coordinator/store/data_directory.h"

namespace atl {

class BlobStore {
 public:
  BlobStore(Files& files, DataDirectory directory);
  ~BlobStore();

  bool Has(const Sha256& sha256) const;
  // The hashes in `wanted` without a stored blob, in the order of `wanted`.
  std::vector<Sha256> Missing(const std::vector<Sha256>& wanted) const;

  // Bytes announced and not yet received by the uploads in progress, without suspended ones and
  // without the upload of `beside`.
  uint64_t StillToCome(const Sha256& beside) const;

  struct Begun {
    uint64_t length = 0;  // bytes received so far; the whole length if the blob is already stored
    uint64_t turn = 0;    // identifies this upload in the calls below
  };
  // Begins or resumes an upload. InvalidArgument: above limits::kBlobBytes. A part file longer than
  // `bytes` starts again at 0. A second upload of the same blob takes over from the first: from then
  // on Append of the first is Unavailable, FinishSome too until the blob is stored, and Suspend has
  // no effect. Its client calls Begin again, and finds the blob stored or resumes at its length.
  absl::StatusOr<Begun> Begin(const Sha256& sha256, uint64_t bytes);
  // OutOfRange unless `offset` is the current length and the end is within the announced length.
  // ResourceExhausted: the disk is full and nothing was added. After a failed flush the part file is removed.
  absl::Status Append(const Sha256& sha256, uint64_t turn, uint64_t offset, std::span<const Bytes> pieces);
  // Verifies size and hash, flushes and renames. True: the blob is stored, by this upload or
  // another. False: call again, because each call hashes at most 64 MiB of a resumed upload, so
  // that a large file never blocks the executor for long. An upload without a break is hashed while
  // it arrives. FailedPrecondition: bytes are missing. DataLoss: the content has another hash, and
  // the part file is removed. After a failed flush the file is removed too.
  absl::StatusOr<bool> FinishSome(const Sha256& sha256, uint64_t turn);
  // Closes the part file. The file stays on disk so that the upload can resume, unless it is empty.
  void Suspend(const Sha256& sha256, uint64_t turn);

  // NotFound: the blob is not stored. An open file stays readable after its removal.
  absl::StatusOr<std::shared_ptr<const File>> Open(const Sha256& sha256) const;
  // The verified content of the blob. NotFound: the blob is not stored. ResourceExhausted: larger
  // than `limit_bytes`. DataLoss: damaged.
  absl::StatusOr<std::string> Read(const Sha256& sha256, uint64_t limit_bytes) const;

 private:
  struct Part;
  using Parts = std::map<Sha256, std::unique_ptr<Part>>;
  // The end iterator if this upload is not in progress: it has ended, or another one has taken over.
  Parts::iterator Find(const Sha256& sha256, uint64_t turn);
  void Discard(Parts::iterator part);
  Files& files_;
  DataDirectory directory_;
  Parts parts_;
  uint64_t turns_ = 0;
};

// Removes the part files of abandoned uploads: those without a change for a week, by the file
// system's times. A clock that jumps only forces an upload to start again. Call it while no
// BlobStore is in use.
absl::Status DropStaleParts(const DataDirectory& directory);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_BLOB_STORE_H_
