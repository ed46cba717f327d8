// SPDX-License-Identifier: Apache-2.0
// Every limit on what comes from outside, in one place. What happens at a limit is said beside it.
#ifndef ATOLL_COMMON_PLAN_LIMITS_H_
#define ATOLL_COMMON_PLAN_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "common/base/time.h"

namespace atl::limits {

// Wire
constexpr size_t kFramePayloadBytes = size_t{1} << 20;                     // payload of a bulk frame; larger is refused
constexpr size_t kMessageBytes = kFramePayloadBytes + (size_t{64} << 10);  // any gRPC message; larger is refused
constexpr size_t kNameBytes = 63;    // job and worker names: [a-z0-9] then [a-z0-9-]*; else INVALID_ARGUMENT
constexpr size_t kTextBytes = 4096;  // any other string field; longer is cut in logs, refused in requests
constexpr size_t kLabels = 32;       // of a job; more are refused
constexpr size_t kLabelBytes = 256;  // of a label's key or value; longer is refused
constexpr size_t kJobFileBytes = size_t{1} << 20;         // a job file; larger is refused
constexpr size_t kManifestBytes = size_t{64} << 20;       // a corpus manifest; larger is refused
constexpr size_t kTokenizerFileBytes = size_t{64} << 20;  // one file of a tokenizer; larger is refused
constexpr size_t kEvalTasksBytes = size_t{64} << 20;      // evaluation task files of a job, in all; more are refused

constexpr size_t kCorpora = 64;                       // of a job; more are refused
constexpr size_t kEvalTasks = 128;                    // of a job; more are refused
constexpr uint64_t kEvalExamples = 200'000;           // of all tasks of a job; more are refused
constexpr size_t kTokenizerFiles = 16;                // of a job; more are refused
constexpr size_t kInitialFiles = 1024;                // safetensors files of initial weights; more are refused
constexpr uint64_t kBlobBytes = uint64_t{1} << 40;    // one stored blob (initial weights)
constexpr uint64_t kProbeBytes = uint64_t{64} << 20;  // one measurement of a link; more is refused
constexpr size_t kMetricsPerHeartbeat = 64;           // further ones are dropped and counted
constexpr size_t kLeasesPerWorker = 4096;             // named in one message; more are refused
constexpr size_t kLogLines = 2000;                    // of one answer; older ones are left out
constexpr uint64_t kCount = uint64_t{1} << 62;  // any counter from outside, so that sums cannot wrap; else refused

// Model
constexpr uint32_t kLayers = 1024;                   // transformer blocks of a model; more are refused
constexpr uint32_t kFragments = 1024;                // of a job; more are refused
constexpr uint64_t kParameters = uint64_t{1} << 40;  // of a model; more are refused

// Coordinator
constexpr uint32_t kWorkers = 1024;         // registered at once; further ones are refused with RESOURCE_EXHAUSTED
constexpr uint32_t kGoneWorkers = 1024;     // remembered; beyond that the ones that went first are forgotten
constexpr uint32_t kJobs = 10'000;          // kept in the ledger, ended ones included
constexpr size_t kMailboxEvents = 100'000;  // the engine's queue; a control stream that speaks when it is full is cut
constexpr size_t kMailboxOfStream = 1000;   // of one control stream in that queue; beyond that it is cut
constexpr size_t kLeasesHeld = 1024;        // by one worker at once; further ones are denied until some are used up
constexpr int64_t kMostLossMicro = 1'000'000'000'000;  // mean loss: a million nats; more, or less than 0, is refused
constexpr uint64_t kMostSteps = uint64_t{1} << 24;     // inner steps of one contribution; more are refused
constexpr size_t kOutboxMessages = 4096;               // unsent messages to one worker; beyond that its stream is cut
constexpr size_t kWatchers = 256;                      // job watch streams at once
constexpr Duration kStreamStall = Seconds(60);         // a watch stream whose reader takes nothing is cut then
constexpr size_t kCurvePoints = 4096;                  // points kept of one curve; then every second one is dropped

// Membership. The relations are asserted by a test: 2 x kHeartbeatInterval < kMembershipTimeout.
constexpr Duration kHeartbeatInterval = Seconds(2);   // between heartbeats, unless the coordinator is told otherwise
constexpr Duration kMembershipTimeout = Seconds(20);  // without a heartbeat a worker is lost, unless told otherwise
constexpr Duration kGoneWorkerMemory = Seconds(7 * 86'400);  // then a worker that went away is forgotten
constexpr Duration kGraceMinimum = Milliseconds(250);        // of the wait for stragglers once a quorum is there

// Command line
constexpr Duration kControlDeadline = Seconds(10);  // of a call of the command line, unless --timeout says otherwise

}  // namespace atl::limits

#endif  // ATOLL_COMMON_PLAN_LIMITS_H_
