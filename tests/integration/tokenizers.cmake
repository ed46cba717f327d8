# SPDX-License-Identifier: Apache-2.0
# Our tokenizers against AutoTokenizer on our exported directories, in the environment of scripts/setup --oracles;
# skipped with a message if it is missing.
if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(_oracles $ENV{XDG_CACHE_HOME}/atoll/oracles-1)
else()
  set(_oracles $ENV{HOME}/.cache/atoll/oracles-1)
endif()
set(_out ${CMAKE_CURRENT_BINARY_DIR}/tokenizers)
add_test(NAME oracle_tokenizers COMMAND sh -c
  "python=${_oracles}/bin/python; [ -x $python ] || { echo 'skipped: no '$python'; scripts/setup --oracles installs it'; exit 77; }; \
rm -rf ${_out} && mkdir -p ${_out} && $<TARGET_FILE:common_text_test> --gtest_filter='*WritesOracleInputs' || exit 1; \
for d in ${_out}/*; do set -- $@ $d $d/expected.jsonl; done; exec $python ${CMAKE_CURRENT_SOURCE_DIR}/oracle_tokenizer.py $@")
set_tests_properties(oracle_tokenizers PROPERTIES LABELS integration TIMEOUT 180 SKIP_RETURN_CODE 77
  ENVIRONMENT "OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1;ATOLL_ORACLE_OUT=${_out};ATOLL_TEST_DATA=${PROJECT_SOURCE_DIR}/../shared/data")
