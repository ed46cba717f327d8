# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers, linker and compiler cache for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(ATOLL_TESTS ON CACHE STRING "ON: all tests. programs: only tests that start the programs or measure memory. OFF: none")
option(ATOLL_BENCH "Build the benchmarks (the tests bring them, too)" OFF)
option(ATOLL_FUZZ "Build the program that scripts/fuzz runs, for clang's libFuzzer" OFF)
option(ATOLL_LIBTORCH "Build the rooms that need LibTorch (the worker program)" ON)
set(ATOLL_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined) or thread")

option(ATOLL_PCH "Compile what nearly every unit includes once: for tests, and for rooms under the sanitizers" ON)

find_program(ATOLL_CCACHE ccache)
if(ATOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # CCACHE_BASEDIR and NOHASHDIR let several build folders of one checkout share their objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${ATOLL_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(ATOLL_MOLD mold)
if(ATOLL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(ATOLL_SANITIZE STREQUAL "")  # sanitizer presets set their own flags
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()

# The same programs from every folder, with and without ccache (which makes paths relative): scripts/package promises equal bytes.
# Other builds keep absolute paths for debuggers.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  file(RELATIVE_PATH _up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  string(REGEX REPLACE "/$" "" _up "${_up}")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.> $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${_up}=.>)
endif()

# Asserts are enabled in every build: a broken invariant stops the process.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# Some libraries require -pthread and others do not, but precompiled headers need the same flags
# everywhere.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-pthread>)
set(ATOLL_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND ATOLL_WARNINGS -Wthread-safety)
else()
  # GCC 12 prints these warnings falsely at -O2 for inlined string appends.
  list(APPEND ATOLL_WARNINGS -Wno-error=restrict -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=array-bounds -Wno-error=maybe-uninitialized)
endif()

if(ATOLL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  if(ATOLL_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
  else()
    # These checks take a quarter of the compile time. The address sanitizer, or fuzzing of the
    # readers, finds the same faults.
    add_compile_options(-fno-sanitize=null,object-size,alignment)
  endif()
elseif(ATOLL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT ATOLL_SANITIZE STREQUAL "")
  message(FATAL_ERROR "ATOLL_SANITIZE is '${ATOLL_SANITIZE}'; it must be empty, address or thread")
endif()

# Test code is not optimised where that costs more time than it saves.
set(ATOLL_TEST_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-O1>)
if(NOT ATOLL_SANITIZE STREQUAL "")
  set(ATOLL_TEST_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-O0>)
endif()

# Hardening, in every build without sanitizers: the tests then run the shipped code, and dev and
# release share objects in the compiler cache. tests/tidy/check_elf.py verifies it in the programs.
if(ATOLL_SANITIZE STREQUAL "")
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:CXX>:-D_FORTIFY_SOURCE=2>
    $<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS> $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
    $<$<COMPILE_LANGUAGE:CXX>:-fstack-clash-protection> $<$<COMPILE_LANGUAGE:CXX>:-fcf-protection>)
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
