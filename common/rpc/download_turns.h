// SPDX-License-Identifier: Apache-2.0
// Whose download is opened or read for next, and how many downloads a connection may have. Sources are opened on an
// executor that others need as well, uploads first of all, and read by a few threads: however many downloads are asked
// for, a few of them stand in a queue, and the connections take turns.
#ifndef ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_
#define ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/base/mutex.h"

namespace atl {

// Thread-safe. Never waits.
class DownloadTurns {
 public:
  using Done = std::function<void()>;
  using Work = std::function<void(Done)>;

  // At most `per_connection` downloads of one connection, and `at_once` turns of all; both at least 1.
  DownloadTurns(size_t per_connection, size_t at_once) : per_connection_(per_connection), at_once_(at_once) {}
  // A download of `connection` begins. False, and nothing has changed, when it has as many as it may.
  bool Enter(const std::string& connection) ATOLL_EXCLUDES(mutex_);
  // One that entered is over. What it has asked for still gets its turn.
  void Leave(const std::string& connection) ATOLL_EXCLUDES(mutex_);
  // Downloads of the connection that have entered and not left.
  size_t Of(const std::string& connection) const ATOLL_EXCLUDES(mutex_);
  // Calls `work` when it is its turn: at once, or in another caller's thread; those of one connection in their order.
  // The turn is over when Done is called, from any thread, once. Work must not block.
  void Take(const std::string& connection, Work work) ATOLL_EXCLUDES(mutex_);

 private:
  void Give() ATOLL_EXCLUDES(mutex_);

  const size_t per_connection_, at_once_;
  mutable Mutex mutex_;
  std::map<std::string, size_t> entered_ ATOLL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<Work>> waiting_ ATOLL_GUARDED_BY(mutex_);  // none is empty
  std::deque<std::string> order_ ATOLL_GUARDED_BY(mutex_);                    // of those that wait
  size_t running_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool giving_ ATOLL_GUARDED_BY(mutex_) = false;  // one thread does, so that work which is done at once does not nest
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_DOWNLOAD_TURNS_H_
