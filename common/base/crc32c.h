// SPDX-License-Identifier: Apache-2.0
// The implementations of CRC-32C, for tests that compare them. All other code calls Crc32c of
// hash.h.
#ifndef ATOLL_COMMON_BASE_CRC32C_H_
#define ATOLL_COMMON_BASE_CRC32C_H_

#include <cstdint>
#include <vector>

#include "common/base/hash.h"

namespace atl {

struct Crc32cForm {
  const char* name;
  uint32_t (*run)(uint32_t crc, Bytes data);  // unlike Crc32c, does not invert `crc` and the result
};
// Implementations that this processor supports; Crc32c uses the first. Thread-safe.
std::vector<Crc32cForm> Crc32cForms();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_CRC32C_H_
