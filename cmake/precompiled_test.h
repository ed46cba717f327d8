// SPDX-License-Identifier: Apache-2.0
// Precompiled headers for tests.
#ifndef ATOLL_CMAKE_PRECOMPILED_TEST_H_
#define ATOLL_CMAKE_PRECOMPILED_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.h"

#endif  // ATOLL_CMAKE_PRECOMPILED_TEST_H_
