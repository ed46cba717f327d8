// SPDX-License-Identifier: Apache-2.0
// The network interface of a session: sends and receives control messages, transfers contributions,
// updates and fragments. Uses plain types only; network_link.h implements it over both connections.
#ifndef ATOLL_WORKER_LINK_LINK_H_
#define ATOLL_WORKER_LINK_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"
#include "worker/core/events.h"
#include "worker/replica/fetched_bytes.h"

namespace atl {

// Fetched bytes, or for the core StreamUp, StreamDown, Received, UploadEnded or a fetch's failure.
using LinkEvent = std::variant<worker::Event, FetchedBytes>;

// All calls are thread-safe and return at once. Results are passed in order to the listener that
// the implementation was given, never inside a call.
class Link {
 public:
  virtual ~Link() = default;
  // Sends a message. Drops it if the stream is down or had no Hello yet, and if it is a second Hello.
  virtual void Say(WorkerMessage message) = 0;
  // Ends the stream; it is reopened after a backoff. `reason`: for the StreamDown event.
  virtual void CloseStream(const std::string& reason) = 0;
  // Sets the content of the next heartbeats. The link sends them on time by itself, from the Welcome on.
  virtual void SetHeartbeat(Heartbeat heartbeat) = 0;

  // The job's caps on sending and fetching, in addition to the worker's own; 0: none.
  virtual void SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) = 0;

  // Sends `bytes` with the header of `contribution` until the coordinator accepts or refuses them (UploadEnded);
  // resumes after interruptions. One upload per fragment: a new one replaces the old, without an UploadEnded.
  virtual void StartUpload(const ContributionUpload& contribution, SharedBytes bytes) = 0;
  // Ends the fragment's upload. Only an UploadEnded that is already queued may follow.
  virtual void CancelUpload(FragmentIndex fragment) = 0;

  // Fetches the newest snapshot, of `bytes` bytes. After an interruption continues with the same
  // one, while it is stored. Ends with FetchedBytes or FragmentFetchFailed, with the latter at once
  // if the snapshot is below `at_least`.
  virtual void FetchFragment(const JobId& job, FragmentIndex fragment, uint64_t bytes, Version at_least) = 0;
  // Fetches the update that made `reached`, at most `limit_bytes`. Ends with FetchedBytes or UpdateFetchFailed.
  virtual void FetchUpdate(const JobId& job, FragmentVersion reached, uint64_t limit_bytes) = 0;
  // Ends the fragment's fetches. Only events of these fetches that are already queued may follow.
  virtual void DropFetches(FragmentIndex fragment) = 0;
  // As DropFetches and CancelUpload, for all transfers. Also frees the received parts of whole fragments.
  virtual void DropAll() = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_LINK_H_
