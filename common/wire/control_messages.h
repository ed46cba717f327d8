// SPDX-License-Identifier: Apache-2.0
// Control messages: conversion between atoll.v1 messages and the domain forms of
// common/plan/messages.h. Reading checks lengths, names, enums and ranges (limits.h). Invalid input
// is InvalidArgument with the path of the field, e.g. "hello.worker"; only incorrect metrics of a
// heartbeat are dropped. Writing cuts what is too long. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_WIRE_CONTROL_MESSAGES_H_
#define ATOLL_COMMON_WIRE_CONTROL_MESSAGES_H_

#include "atoll/v1/worker.pb.h"
#include "common/base/status.h"
#include "common/plan/messages.h"

namespace atl {

v1::WorkerMessage WorkerMessageToProto(const WorkerMessage& message);
absl::StatusOr<WorkerMessage> WorkerMessageFromProto(const v1::WorkerMessage& proto);

// Requires Assignment::spec to be set.
v1::CoordinatorMessage CoordinatorMessageToProto(const CoordinatorMessage& message);
absl::StatusOr<CoordinatorMessage> CoordinatorMessageFromProto(const v1::CoordinatorMessage& proto);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_CONTROL_MESSAGES_H_
