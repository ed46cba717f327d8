// SPDX-License-Identifier: Apache-2.0
// Files stored by content (SHA-256): manifests, tokenizers, initial weights. An upload grows a .part file, resumes at
// its length after a break or a restart, and becomes a blob by verification, fsync and rename. Immutable afterwards.
// Thread rule: calls for one blob must not overlap; the engine uses one serial executor for bulk I/O.
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
  // Those not stored, in their order.
  std::vector<Sha256> Missing(const std::vector<Sha256>& wanted) const;

  // Bytes that uploads of other files than this one, which have begun and are not suspended, have announced and not
  // brought yet.
  uint64_t StillToCome(const Sha256& beside) const;

  struct Begun {
    uint64_t length = 0;  // that is there; all of it when the blob is stored already
    uint64_t turn = 0;    // of this upload, which the calls below name
  };
  // Begins or resumes. InvalidArgument: above limits::kBlobBytes. A second upload of the same blob at the same time
  // takes it over from the first, whose Append and FinishSome are Unavailable from then on: it asks again, and finds
  // the blob stored or goes on where the other was. Its Suspend does nothing.
  absl::StatusOr<Begun> Begin(const Sha256& sha256, uint64_t bytes);
  // OutOfRange unless `offset` is the length so far. ResourceExhausted: disk full, nothing added. Where a flush fails
  // the part is removed.
  absl::Status Append(const Sha256& sha256, uint64_t turn, uint64_t offset, std::span<const Bytes> pieces);
  // Verifies size and hash, flushes, renames. DataLoss when the content has another hash: the part is removed. True
  // when the blob is stored, whoever did it; false where it has to be called again, since an upload that was resumed
  // is hashed 64 MiB at a time. What came in one go was hashed as it came, and flushed every 64 MiB: others who need
  // the executor do not wait for a large file.
  absl::StatusOr<bool> FinishSome(const Sha256& sha256, uint64_t turn);
  // Closes the part file; it stays for a resume, unless it is empty.
  void Suspend(const Sha256& sha256, uint64_t turn);

  // NotFound when it is not stored. The file stays readable while open.
  absl::StatusOr<std::shared_ptr<const File>> Open(const Sha256& sha256) const;
  // Whole and verified; ResourceExhausted above `limit_bytes`; DataLoss when damaged.
  absl::StatusOr<std::string> Read(const Sha256& sha256, uint64_t limit_bytes) const;

 private:
  struct Part;
  using Parts = std::map<Sha256, std::unique_ptr<Part>>;
  // End where another upload has taken it over.
  Parts::iterator Find(const Sha256& sha256, uint64_t turn);
  void Discard(Parts::iterator part);
  Files& files_;
  DataDirectory directory_;
  Parts parts_;
  uint64_t turns_ = 0;
};

// Removes part files to which nothing was added for a week: the upload was given up. By the file system's times; a
// clock that jumps makes an upload begin anew. While no store is at work.
absl::Status DropStaleParts(const DataDirectory& directory);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_BLOB_STORE_H_
