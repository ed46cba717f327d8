// SPDX-License-Identifier: Apache-2.0
// Headers included by nearly every unit, compiled once (cmake/AtollRoom.cmake). No headers of the
// project, because every change of them would recompile it. A unit still includes what it uses.
#ifndef ATOLL_CMAKE_PRECOMPILED_H_
#define ATOLL_CMAKE_PRECOMPILED_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#endif  // ATOLL_CMAKE_PRECOMPILED_H_
