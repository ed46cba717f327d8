// SPDX-License-Identifier: Apache-2.0
// Fair order among downloads, and a limit on the downloads of a connection. Sources are opened on
// an executor that uploads need too, and read by a few threads. Whatever the number of requested
// downloads, only a few are queued there, and connections take turns.
#ifndef ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_
#define ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/base/mutex.h"

namespace atl {

// Thread-safe. Never blocks.
class DownloadTurns {
 public:
  using Done = std::function<void()>;
  using Work = std::function<void(Done)>;

  // At most `per_connection` downloads of one connection and `at_once` concurrent turns in all;
  // both at least 1.
  DownloadTurns(size_t per_connection, size_t at_once) : per_connection_(per_connection), at_once_(at_once) {}
  // Registers a download of `connection`. Returns false and changes nothing when the connection is
  // at its limit.
  bool Enter(const std::string& connection) ATOLL_EXCLUDES(mutex_);
  // Unregisters a download. Its pending requests still get their turns.
  void Leave(const std::string& connection) ATOLL_EXCLUDES(mutex_);
  // Number of registered downloads of the connection.
  size_t Of(const std::string& connection) const ATOLL_EXCLUDES(mutex_);
  // Calls `work` at its turn: inside this call, or later on a thread that calls Take or Done. Work of
  // one connection starts in order. The turn is over when `work`'s Done is called, exactly once, from
  // any thread. `work` must not block.
  void Take(const std::string& connection, Work work) ATOLL_EXCLUDES(mutex_);

 private:
  void Give() ATOLL_EXCLUDES(mutex_);

  const size_t per_connection_, at_once_;
  mutable Mutex mutex_;
  std::map<std::string, size_t> entered_ ATOLL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<Work>> waiting_ ATOLL_GUARDED_BY(mutex_);  // no queue is empty
  std::deque<std::string> order_ ATOLL_GUARDED_BY(mutex_);                    // connections with waiting work
  size_t running_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool giving_ ATOLL_GUARDED_BY(mutex_) = false;  // a thread starts work; only one does, so that calls do not nest
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_
