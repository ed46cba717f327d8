# SPDX-License-Identifier: Apache-2.0
# The real programs, driven by Python's standard library (atoll_harness.py). One ctest per file. Each scene has its
# own folder below build/<preset>/tests/integration/scenes, which stays for inspection until the next run.
set(_scenes ${CMAKE_CURRENT_BINARY_DIR}/scenes)
# The tests wait for processes more than they compute: as many run at a time as there are cores, long ones first. A
# label after the timeout replaces "integration".
function(atoll_program_test name timeout)
  set(label integration ${ARGN})
  list(GET label -1 label)
  add_test(NAME integration.${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set_tests_properties(integration.${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} COST ${timeout} SKIP_RETURN_CODE 77
    ENVIRONMENT "ATOLL_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};ATOLL_SCRATCH=${_scenes};ATOLL_TEST_DATA=${PROJECT_SOURCE_DIR}/../shared/data;PYTHONDONTWRITEBYTECODE=1")
endfunction()

# The library by which clock_jumps.py moves the programs' wall clock.
add_library(moved_clock MODULE moved_clock.cc)
target_link_libraries(moved_clock PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(moved_clock PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(moved_clock PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# The library by which slow_disk.py slows the coordinator's disk.
add_library(slow_disk MODULE slow_disk.cc)
target_link_libraries(slow_disk PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(slow_disk PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(slow_disk PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# The library by which failing_reads.py makes reads fail.
add_library(failing_reads MODULE failing_reads.cc)
target_link_libraries(failing_reads PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(failing_reads PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(failing_reads PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# The library by which crash_points.py records and breaks the coordinator's disk calls.
add_library(durable_calls MODULE durable_calls.cc)
target_link_libraries(durable_calls PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(durable_calls PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(durable_calls PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

atoll_program_test(idle_coordinator 60)
atoll_program_test(version 60)
atoll_program_test(service_manager 60)
atoll_program_test(bad_input 180)
atoll_program_test(interrupted 120)
atoll_program_test(signals 240)
atoll_program_test(standard_streams 240)
atoll_program_test(refused_resources 300)
atoll_program_test(refused_state 120)
atoll_program_test(unusual_names 240)
atoll_program_test(wrong_revision 60)
atoll_program_test(run_end_to_end 240)
atoll_program_test(utilization 120)
atoll_program_test(eval_tasks 240)
atoll_program_test(coordinator_killed 300)
atoll_program_test(coordinator_frozen 300)
atoll_program_test(crash_points 300)
atoll_program_test(audit 300)
atoll_program_test(backup 300)
atoll_program_test(running_backup 300)
atoll_program_test(restored_elsewhere 300)
atoll_program_test(two_builds 240)
atoll_program_test(worker_killed 240)
atoll_program_test(sigterm 240)
atoll_program_test(bad_input_run 240)
atoll_program_test(damaged_state 240)
atoll_program_test(full_disk 240)
atoll_program_test(slow_disk 240)
atoll_program_test(failing_reads 300)
atoll_program_test(silent_bit 240)
atoll_program_test(faulty_coordinator 240)
atoll_program_test(faulty_wires 420)
atoll_program_test(disk_budget 240)
atoll_program_test(streamed_data 240)
atoll_program_test(job_control 300)
atoll_program_test(several_jobs 300)
atoll_program_test(two_sockets 120)
atoll_program_test(mutual_tls 240)
atoll_program_test(others_parameters 240)
atoll_program_test(enrolment 240)
atoll_program_test(joining 240)
atoll_program_test(revocation 240)
atoll_program_test(passphrase 120)
atoll_program_test(authority_rotation 240)
atoll_program_test(before_joining 240)
atoll_program_test(owner_pause 240)
atoll_program_test(island 300)
atoll_program_test(island_of_four 300)
atoll_program_test(hostile_peers 240)
atoll_program_test(door 240)
atoll_program_test(secrets 240)
atoll_program_test(clock_jumps 240)
atoll_program_test(clock_rates 240)
atoll_program_test(join_storm 240)
atoll_program_test(prometheus_scrape 180)
atoll_program_test(watch_terminal 180)
atoll_program_test(study 240)
atoll_program_test(packages 900)
atoll_program_test(link_faults 1800 long)
atoll_program_test(flood 900 long)
atoll_program_test(coordinator_moves 900 long)
atoll_program_test(out_of_memory 900 long)
atoll_program_test(memory_cgroup 900 long)
atoll_program_test(ten_minute_pause 1200 long)
atoll_program_test(island_stopped 900 long)

# Every point of crash_points; most of the time is spent on points with separate runs.
add_test(NAME long.crash_points COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/crash_points.py)
set_tests_properties(long.crash_points PROPERTIES LABELS long TIMEOUT 10800 SKIP_RETURN_CODE 77 PROCESSORS 2
  ENVIRONMENT "ATOLL_CRASH_POINTS=0;ATOLL_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};ATOLL_SCRATCH=${_scenes}/long;PYTHONDONTWRITEBYTECODE=1")

# Each flood of door.py for half a minute.
add_test(NAME long.door COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/door.py)
set_tests_properties(long.door PROPERTIES LABELS long TIMEOUT 3600 SKIP_RETURN_CODE 77 PROCESSORS 2
  ENVIRONMENT "ATOLL_DOOR_SECONDS=30;ATOLL_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};ATOLL_SCRATCH=${_scenes}/long;PYTHONDONTWRITEBYTECODE=1")

# Seeded faults on a run of eight workers (scripts/soak): one minute here, five in the long tests.
function(atoll_soak_test name label minutes timeout)
  add_test(NAME ${name} COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/scripts/soak --minutes ${minutes}
    --bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --scratch ${_scenes}/${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} COST ${timeout}
    ENVIRONMENT "ATOLL_SCRATCH=${_scenes};PYTHONDONTWRITEBYTECODE=1")
endfunction()
atoll_soak_test(integration.soak integration 1 600)
atoll_soak_test(long.soak long 5 1200)

# transformers on the exports of run_end_to_end; tokenizers.cmake defines _oracles, the environment.
add_test(NAME integration.oracle_export COMMAND sh -c
  "python=${_oracles}/bin/python; [ -x $python ] || { echo 'skipped: no '$python'; scripts/setup --oracles installs it'; exit 77; }; exec $python ${CMAKE_CURRENT_SOURCE_DIR}/oracle_export.py ${_scenes}/run_end_to_end")
set_tests_properties(integration.run_end_to_end PROPERTIES FIXTURES_SETUP exported_run)
set_tests_properties(integration.oracle_export PROPERTIES FIXTURES_REQUIRED exported_run LABELS integration TIMEOUT 180
  SKIP_RETURN_CODE 77 ENVIRONMENT "OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1")
