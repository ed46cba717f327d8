// SPDX-License-Identifier: Apache-2.0
// The coordinator's end of bench_transport, in a process of its own. In one process gRPC's threads
// would serve both ends, which no coordinator and worker do.
#ifndef ATOLL_TESTS_BENCH_TRANSPORT_SERVER_H_
#define ATOLL_TESTS_BENCH_TRANSPORT_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/status.h"
#include "tests/bench/allocations.h"

namespace atl::bench {

using Content = std::vector<std::byte>;

inline constexpr size_t kMostConnections = 4;

// Ends the process with the error's text.
void Require(const absl::Status& status);
std::string WorkerName(size_t index);
// The same bytes in each process.
std::shared_ptr<const Content> RandomBytes(size_t bytes);

// Not thread-safe. Errors end the process.
class TransportServer {
 public:
  // Starts the process with a server in plaintext and one with the given identity. To be called while
  // this process has one thread.
  explicit TransportServer(const std::string& identity_file);
  ~TransportServer();
  TransportServer(const TransportServer&) = delete;
  TransportServer& operator=(const TransportServer&) = delete;
  // Processor time of the process so far.
  double CpuSeconds() const;
  int plain_port() const { return plain_port_; }
  int sealed_port() const { return sealed_port_; }
  // Workers upload and download RandomBytes(bytes) from now on. Not while a transfer is in progress.
  void Serve(uint64_t bytes);
  // Later downloads are of a new update that no worker has fetched.
  void Renew();
  // Allocations of both processes while `run` runs.
  Allocations CountBothEnds(const std::function<void()>& run);

 private:
  enum class Ask : uint8_t { kServe, kRenew, kCpuTime, kCount, kCounted };
  struct Question {
    Ask ask;
    uint64_t bytes;
  };
  struct Answer {
    int plain_port, sealed_port;
    double cpu_seconds;
    Allocations counted;
  };
  static Answer Reply(int socket, class Yard& yard, const Question& question);
  static void Run(int socket, const std::string& identity_file);
  Answer Call(const Question& question) const;

  pid_t process_ = -1;
  Descriptor socket_;
  int plain_port_ = 0, sealed_port_ = 0;
};

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_TRANSPORT_SERVER_H_
