// SPDX-License-Identifier: Apache-2.0
// What a session needs of the network: say and hear control messages, move contributions, updates and fragments. An
// interface of plain types; the implementation over both connections is network_link.h.
#ifndef ATOLL_WORKER_LINK_LINK_H_
#define ATOLL_WORKER_LINK_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/plan/messages.h"
#include "worker/core/events.h"

namespace atl {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// A fragment whole, or the update that made `at.version`. The digest of the transfer is checked already.
struct FetchedBytes {
  JobId job;
  FragmentVersion at;
  bool whole = false;
  Digest hash;  // ContentHash of the fragment at that version
  SharedBytes bytes;
};

// StreamUp, StreamDown, Received, UploadEnded, FragmentFetchFailed and UpdateFetchFailed are events of the core.
using LinkEvent = std::variant<worker::Event, FetchedBytes>;

// All calls are thread-safe and return at once; what comes of them is told to the listener that the implementation was
// given, in order, never inside a call.
class Link {
 public:
  virtual ~Link() = default;
  // Dropped when the stream is down, before Hello, and where it is a second Hello.
  virtual void Say(WorkerMessage message) = 0;
  // Ends the stream; it is opened again after a backoff.
  virtual void CloseStream(const std::string& reason) = 0;
  // What the next heartbeats say; they go out on time by themselves, from the Welcome on.
  virtual void SetHeartbeat(Heartbeat heartbeat) = 0;

  // Caps of the job on what is sent and fetched, besides the worker's own; 0: none.
  virtual void SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) = 0;

  // Sends `bytes` under `header` until accepted or refused (UploadEnded); breaks are resumed. One upload for each
  // fragment: a new one replaces the old.
  virtual void StartUpload(const ContributionHeader& header, BootNumber boot, SharedBytes bytes) = 0;
  // No UploadEnded comes after it.
  virtual void CancelUpload(FragmentIndex fragment) = 0;

  // The newest snapshot, `bytes` long; after a break the one that was begun with, while it is kept. Ends in
  // FetchedBytes or FragmentFetchFailed, at once where it is below `at_least`.
  virtual void FetchFragment(const JobId& job, FragmentIndex fragment, uint64_t bytes, Version at_least) = 0;
  // At most `limit_bytes`. Ends in FetchedBytes or UpdateFetchFailed.
  virtual void FetchUpdate(const JobId& job, FragmentVersion reached, uint64_t limit_bytes) = 0;
  // Nothing comes any more of what is being fetched for the fragment.
  virtual void DropFetches(FragmentIndex fragment) = 0;
  // The same for every transfer.
  virtual void DropAll() = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_LINK_H_
