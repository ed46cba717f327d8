// SPDX-License-Identifier: Apache-2.0
// All limits on external input in one place, each with what happens at the limit.
#ifndef ATOLL_COMMON_PLAN_LIMITS_H_
#define ATOLL_COMMON_PLAN_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "common/base/time.h"

namespace atl::limits {

// Wire
constexpr size_t kFramePayloadBytes = size_t{1} << 20;                     // payload of a bulk frame; larger is refused
constexpr size_t kMessageBytes = kFramePayloadBytes + (size_t{64} << 10);  // any gRPC message; larger is refused
constexpr size_t kQueryBytes = size_t{64} << 10;  // a request without a job, blobs or a stream; larger is refused
constexpr size_t kMessageElements = 24'576;  // messages, texts and numbers of lists in one message; more are refused
constexpr size_t kNameBytes = 63;            // job and worker names: [a-z0-9] then [a-z0-9-]*; else INVALID_ARGUMENT
constexpr size_t kTextBytes = 4096;          // any other string field; longer is cut in logs, refused in requests
constexpr size_t kLabels = 32;               // labels of a job; more are refused
constexpr size_t kLabelBytes = 256;          // a label's key or value; longer is refused
constexpr size_t kJobFileBytes = size_t{1} << 20;         // a job file; larger is refused
constexpr size_t kManifestBytes = size_t{64} << 20;       // a corpus manifest; larger is refused
constexpr size_t kTokenizerFileBytes = size_t{64} << 20;  // one file of a tokenizer; larger is refused
constexpr size_t kEvalTasksBytes = size_t{64} << 20;      // evaluation task files of a job, in all; more are refused

constexpr size_t kCorpora = 64;                       // corpora of a job; more are refused
constexpr size_t kEvalTasks = 128;                    // evaluation tasks of a job; more are refused
constexpr uint64_t kEvalExamples = 200'000;           // examples of all tasks of a job; more are refused
constexpr size_t kTokenizerFiles = 16;                // tokenizer files of a job; more are refused
constexpr size_t kInitialFiles = 1024;                // safetensors files of initial weights; more are refused
constexpr uint64_t kBlobBytes = uint64_t{1} << 40;    // one stored blob (initial weights)
constexpr uint64_t kProbeBytes = uint64_t{64} << 20;  // one measurement of a link; more is refused
constexpr size_t kMetricsPerHeartbeat = 64;           // further ones are dropped and counted
constexpr size_t kLeasesPerWorker = 4096;             // leases in one message; more are refused
constexpr size_t kLogLines = 2000;                    // lines in one answer; older ones are dropped
constexpr uint64_t kCount = uint64_t{1} << 62;  // any external counter, so that sums cannot overflow; more is refused

// Model
constexpr uint32_t kLayers = 1024;                   // transformer blocks of a model; more are refused
constexpr uint32_t kFragments = 1024;                // fragments of a job; more are refused
constexpr uint64_t kParameters = uint64_t{1} << 40;  // parameters of a model; more are refused

// Coordinator
constexpr uint32_t kWorkers = 1024;         // registered workers; further ones are refused with RESOURCE_EXHAUSTED
constexpr uint32_t kGoneWorkers = 1024;     // remembered workers that are gone; beyond that the oldest are forgotten
constexpr uint32_t kJobs = 10'000;          // jobs in the ledger, including ended ones; more are refused
constexpr size_t kMailboxEvents = 100'000;  // the engine's queue; a control stream that sends when it is full is cut
constexpr size_t kMailboxOfStream = 1000;   // events of one control stream in that queue; beyond that the stream is cut
constexpr size_t kLeasesHeld = 1024;        // leases of one worker; further ones are denied until some are used up
constexpr int64_t kMostLossMicro = 1'000'000'000'000;  // mean loss: a million nats; more, or less than 0, is refused
constexpr uint64_t kMostSteps = uint64_t{1} << 24;     // inner steps of one contribution; more are refused
constexpr size_t kOutboxMessages = 4096;               // unsent messages to one worker; beyond that its stream is cut
constexpr size_t kWatchers = 256;                      // concurrent job watch streams
constexpr Duration kStreamStall = Seconds(60);  // a watch stream with a reader that takes nothing is cut after this
constexpr size_t kCurvePoints = 4096;           // points of one curve; beyond that every second point is dropped

// Membership. A test asserts 2 x kHeartbeatInterval < kMembershipTimeout.
constexpr Duration kHeartbeatInterval = Seconds(2);          // between heartbeats; configurable
constexpr Duration kMembershipTimeout = Seconds(20);         // without a heartbeat a worker is lost; configurable
constexpr Duration kGoneWorkerMemory = Seconds(7 * 86'400);  // after this a worker that left or was lost is forgotten
constexpr Duration kGraceMinimum = Milliseconds(250);        // shortest wait for stragglers after a quorum

// Command line
constexpr Duration kControlDeadline = Seconds(10);  // of a command-line call, unless --timeout is given

}  // namespace atl::limits

#endif  // ATOLL_COMMON_PLAN_LIMITS_H_
