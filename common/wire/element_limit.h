// SPDX-License-Identifier: Apache-2.0
// The bound on a message of a peer before protobuf parses it. An element of two bytes becomes an
// object of up to 100 bytes, so that a bound on the bytes of a message does not bound its memory.
#ifndef ATOLL_COMMON_WIRE_ELEMENT_LIMIT_H_
#define ATOLL_COMMON_WIRE_ELEMENT_LIMIT_H_

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <string>

#include "common/base/status.h"
#include "common/plan/limits.h"

namespace atl {

// InvalidArgument if the serialized message of this kind has more than `most` elements or a group,
// nests too deep, or ends in the middle of a field. An element is a message, a string or bytes, a
// number of a list, packed or not, or a field unknown to this program. Other numbers do not count:
// each has its place in its message. Reads `bytes` to the end unless it refuses them.
absl::Status CheckElements(google::protobuf::io::ZeroCopyInputStream& bytes, const google::protobuf::Descriptor& kind,
                           size_t most = limits::kMessageElements);

// Parses a message of a peer. InvalidArgument, with the reason, if the bytes are refused.
absl::Status ParseWithin(const std::string& bytes, google::protobuf::Message& out);

// The error for bytes that are no message of this kind.
absl::Status NoSuchMessage(const google::protobuf::Descriptor& kind);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_ELEMENT_LIMIT_H_
