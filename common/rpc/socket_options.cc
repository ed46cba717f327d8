// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/socket_options.h"

#include <grpc/support/sync.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

// gRPC's public interface takes a socket mutator but installs no header that declares it. These are
// the declarations of gRPC 1.51 (src/core/lib/iomgr/socket_mutator.h), the version pinned by
// scripts/debian-packages.txt.
struct grpc_mutate_socket_info;
struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  bool (*mutate_fd_2)(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator);  // null: mutate_fd is called
};
struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

namespace atl {
namespace {

constexpr grpc_socket_mutator_vtable kVtable = {
    .mutate_fd =
        [](int fd, grpc_socket_mutator*) {
          KeepUnsentShort(fd);
          return true;
        },
    .compare = [](grpc_socket_mutator* a, grpc_socket_mutator* b) { return a < b   ? -1
                                                                           : a > b ? 1
                                                                                   : 0; },
    .destroy = [](grpc_socket_mutator*) {},
    .mutate_fd_2 = nullptr,
};

// One mutator for all channels, never destroyed.
grpc_socket_mutator& TheMutator() {
  static grpc_socket_mutator mutator = [] {
    grpc_socket_mutator made{&kVtable, {}};
    gpr_ref_init(&made.refcount, 1);
    return made;
  }();
  return mutator;
}

}  // namespace

void KeepUnsentShort(int fd) { ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes)); }

void KeepUnsentShort(grpc::ChannelArguments& args) {
  gpr_ref(&TheMutator().refcount);  // the arguments release one reference
  args.SetSocketMutator(&TheMutator());
}

}  // namespace atl
