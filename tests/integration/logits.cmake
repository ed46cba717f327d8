# SPDX-License-Identifier: Apache-2.0
# Our model against transformers, in the environment of scripts/setup --oracles; skipped with a message if it is
# missing.
add_executable(oracle_logits_writer oracle_logits_writer.cc)
target_compile_options(oracle_logits_writer PRIVATE ${ATOLL_WARNINGS})
target_include_directories(oracle_logits_writer PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(oracle_logits_writer PRIVATE atoll_worker_model atoll_common_format atoll_common_text)

if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(_oracles $ENV{XDG_CACHE_HOME}/atoll/oracles-1)
else()
  set(_oracles $ENV{HOME}/.cache/atoll/oracles-1)
endif()
# The environment may be created after the build folder: the test itself chooses its Python.
add_test(NAME oracle_logits COMMAND sh -c
  "python=${_oracles}/bin/python; [ -x $python ] || { echo 'skipped: no '$python'; scripts/setup --oracles installs it'; exit 77; }; exec $python ${CMAKE_CURRENT_SOURCE_DIR}/oracle_logits.py $<TARGET_FILE:oracle_logits_writer>")
set_tests_properties(oracle_logits PROPERTIES LABELS integration TIMEOUT 180 SKIP_RETURN_CODE 77
  ENVIRONMENT "OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1")
add_test(NAME oracle_eval COMMAND sh -c
  "python=${_oracles}/bin/python; [ -x $python ] || { echo 'skipped: no '$python'; scripts/setup --oracles installs it'; exit 77; }; exec $python ${CMAKE_CURRENT_SOURCE_DIR}/oracle_eval.py $<TARGET_FILE:atoll-worker> $<TARGET_FILE:oracle_logits_writer>")
set_tests_properties(oracle_eval PROPERTIES LABELS integration TIMEOUT 180 SKIP_RETURN_CODE 77
  ENVIRONMENT "OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1")
