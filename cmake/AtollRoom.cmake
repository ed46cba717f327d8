# SPDX-License-Identifier: Apache-2.0
# atoll_room(common/base SOURCES a.cc b.cc ROOMS common/other LIBS absl::status)
#   One static library per room, named atoll_common_base. ROOMS and LIBS are public: a room's headers may use them.
#   A room without sources is header only.
# atoll_program(atoll-coordinator SOURCES main.cc ROOMS ... LIBS ...)
#   A program in build/<preset>/bin.
# atoll_test(name [AS_ONE] SOURCES a_test.cc ROOMS ... LIBS ... LABELS unit [ENVIRONMENT k=v])
#   One GoogleTest program; each case is a ctest test. AS_ONE: the program is one, for programs that take most of a
#   second to start because they link LibTorch, without cases that may be skipped. The first label is the kind: unit, scenario,
#   conformance, integration.
# Precompiled headers. Rooms use them only with sanitizers: dev and release share the objects of
# rooms in the compiler cache, and dev detects missing #includes.
if(ATOLL_PCH)
  if(ATOLL_TESTS)
    add_executable(atoll_test_pch EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
    target_precompile_headers(atoll_test_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled_test.h)
    target_compile_options(atoll_test_pch PRIVATE ${ATOLL_TEST_OPTIONS})
    target_include_directories(atoll_test_pch PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(atoll_test_pch PRIVATE absl::statusor absl::strings GTest::gtest GTest::gmock)
    set_target_properties(atoll_test_pch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/cmake)  # not in bin: users do not run it
  endif()
  if(NOT ATOLL_SANITIZE STREQUAL "")
    add_library(atoll_room_pch STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
    target_precompile_headers(atoll_room_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)
    target_link_libraries(atoll_room_pch PRIVATE absl::statusor absl::strings)
  endif()
endif()

# Lets the target use the precompiled headers of another target, if that exists.
function(_atoll_precompiled target from)
  if(TARGET ${from})
    target_precompile_headers(${target} REUSE_FROM ${from})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # otherwise ccache stores nothing
    endif()
  endif()
endfunction()

# Compiles a room's sources in batches, so that headers are read once for each batch. With sanitizers only: dev rebuilds
# one source after a change. Not for Highway's kernels, which include themselves.
function(_atoll_in_batches target)
  if(NOT ATOLL_SANITIZE STREQUAL "")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
    list(FILTER ARGN INCLUDE REGEX "\\.cc$")
    foreach(source IN LISTS ARGN)
      file(STRINGS ${source} includes_itself REGEX "hwy/foreach_target.h")
      if(includes_itself)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endif()
endfunction()

function(_atoll_room_targets out)
  set(targets)
  foreach(room IN LISTS ARGN)
    string(REPLACE "/" "_" target atoll_${room})
    list(APPEND targets ${target})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

function(atoll_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBS;PRIVATE_LIBS" ${ARGN})
  _atoll_room_targets(target ${room})
  _atoll_room_targets(needed ${ARG_ROOMS})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${ATOLL_WARNINGS}>)
    _atoll_precompiled(${target} atoll_room_pch)
    _atoll_in_batches(${target} ${ARG_SOURCES})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${needed} ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${needed} ${ARG_LIBS})
  endif()
endfunction()

function(atoll_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBS" ${ARGN})
  _atoll_room_targets(needed ${ARG_ROOMS})
  add_executable(${name} ${ARG_SOURCES})
  if(ATOLL_SANITIZE STREQUAL "")  # sanitizers replace pthread_create themselves
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/common/base/program_symbols.cc)
  endif()
  target_compile_options(${name} PRIVATE ${ATOLL_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${needed} ${ARG_LIBS})
endfunction()

function(atoll_test name)
  cmake_parse_arguments(ARG "AS_ONE" "TIMEOUT" "SOURCES;ROOMS;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)  # for hanging tests: the slowest takes a tenth of it on an idle machine
  endif()
  _atoll_room_targets(needed ${ARG_ROOMS})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${ATOLL_WARNINGS} ${ATOLL_TEST_OPTIONS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${needed} ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  _atoll_precompiled(${name} atoll_test_pch)
  if(ARG_AS_ONE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" COST 100
      ENVIRONMENT "OMP_NUM_THREADS=1;${ARG_ENVIRONMENT}")
    return()
  endif()
  include(GoogleTest)
  # A program that links LibTorch starts slowly from a cold disk, hence the discovery limit.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}.)
  # Not with PROPERTIES: CMake 3.25 splits lists there, which would lose a second label or variable.
  set(properties ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  file(WRITE ${properties} "if(${name}_TESTS)\n  set_tests_properties(\${${name}_TESTS} PROPERTIES TIMEOUT ${ARG_TIMEOUT}\n"
    "    LABELS [==[${ARG_LABELS}]==]\n    ENVIRONMENT [==[OMP_NUM_THREADS=1;${ARG_ENVIRONMENT}]==])\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
endfunction()

# atoll_long_test(name VARIABLE=VALUE...): runs a test's program again, as a whole, with these
# environment variables, as a long test.
function(atoll_long_test name)
  add_test(NAME long.${name} COMMAND ${name})
  set_tests_properties(long.${name} PROPERTIES LABELS long TIMEOUT 10800 ENVIRONMENT "OMP_NUM_THREADS=1;${ARGN}")
endfunction()
