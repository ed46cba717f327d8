// SPDX-License-Identifier: Apache-2.0
// Names a worker that joins with a join string and without a name.
#ifndef ATOLL_WORKER_DAEMON_JOINING_H_
#define ATOLL_WORKER_DAEMON_JOINING_H_

#include "common/base/status.h"
#include "common/config/options.h"

namespace atl {

// Sets options.name, if it is empty: to the name in the identity file, or, before the enrolment, to options.name_stem
// with digits of the key that will enrol. The key, and with it the name, is on disk before it is first used, so that an
// interrupted enrolment continues under the same name. Creates the directory of the cache.
absl::Status NameByIdentity(WorkerOptions& options);

// The error of a second worker with the same cache directory, and so with the same identity.
absl::Status TwoWorkers(const WorkerOptions& options);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_JOINING_H_
