# mok_tests.cmake: one test program per folder of tests/, GPU programs, benchmarks, examples.
#   tests/A/B/*.cpp, *.c    -> mok_test_A_B, label unit, tests named A_B/SUITE.NAME
#   *_slow_test.cpp         -> mok_test_A_B_slow, label slow (not in `make check`, not sanitized)
#   tests/support/          -> fixtures for all of them: #include "support/NAME.hpp"
#   tests/gpu/NAME.cu       -> gpu/NAME, stands alone, run by tools/gpu_tests.sh where a GPU is
enable_testing()

set(mok_with_tests "${MOK_TESTS}")
if(MOK_PORTABLE)
  # No installed GoogleTest for this architecture: Debian ships its source.
  set(BUILD_GMOCK ON)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
  if(NOT TARGET GTest::gmock)
    add_library(GTest::gmock ALIAS gmock)
    add_library(GTest::gtest_main ALIAS gtest_main)
  endif()
elseif(NOT MOK_TESTS STREQUAL "OFF")
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    if(MOK_TESTS STREQUAL "AUTO")
      message(STATUS "Tests off: GoogleTest is not installed (tools/setup.sh test)")
      set(mok_with_tests OFF)
    else()
      message(FATAL_ERROR "GoogleTest is not installed: tools/setup.sh test")
    endif()
  endif()
endif()
if(mok_with_tests STREQUAL "OFF")
  return()
endif()
include(GoogleTest)
if(NOT MOK_PORTABLE)
  enable_language(C)  # tests/capi compiles mok.h as C
endif()

file(GLOB support_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp")
# The thread sanitizer looks at what has threads: the CPU machine and all below it.
string(COMPARE EQUAL "${MOK_SANITIZE}" "thread" mok_threads_only)
if(MOK_PORTABLE OR mok_threads_only)
  set(libraries_under_test mok_layer mok_cpu mok_comm mok_core mok_reference)
else()
  set(libraries_under_test ${mok_all_libraries})
endif()
mok_add_library(mok_test_support SOURCES ${support_sources} LINK ${libraries_under_test} GTest::gmock)
if(support_sources)
  set(visibility PUBLIC)
else()
  set(visibility INTERFACE)
endif()
target_include_directories(mok_test_support ${visibility} "${PROJECT_SOURCE_DIR}/tests")
target_compile_definitions(mok_test_support ${visibility}
                           MOK_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}/tests")

add_custom_target(mok_unit_tests)
set(mok_test_folder "${PROJECT_BINARY_DIR}/test_files")
file(MAKE_DIRECTORY "${mok_test_folder}")

# One program; label is unit or slow.
function(mok_add_test_program name folder label)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE mok_test_support GTest::gmock GTest::gtest_main mok_flags)
  if(TARGET mok AND NOT mok_threads_only)
    target_compile_definitions(${name} PRIVATE MOK_TEST_BINARY="$<TARGET_FILE:mok>")
    if(folder MATCHES "^cli")
      add_dependencies(${name} mok)
    endif()
  endif()
  if(label STREQUAL "unit")
    add_dependencies(mok_unit_tests ${name})
  endif()
  # PRE_TEST: the list of tests is read when ctest runs, so a build never runs a program.
  gtest_discover_tests(
    ${name}
    WORKING_DIRECTORY "${mok_test_folder}"
    NO_PRETTY_VALUES TEST_PREFIX "${folder}/"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS ${label} TIMEOUT 600)
endfunction()

file(GLOB_RECURSE test_sources RELATIVE "${PROJECT_SOURCE_DIR}/tests" CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/tests/*_test.cpp")
list(FILTER test_sources EXCLUDE REGEX "^(support|consumer|fuzz|hygiene|gpu)/")
if(MOK_PORTABLE)
  # What the Arm hosts must agree on: the shared headers and the CPU machine.
  list(FILTER test_sources INCLUDE REGEX "^(core|sync|route|program|cpu|comm|arm)/")
endif()
if(mok_threads_only)
  list(FILTER test_sources INCLUDE REGEX "^(core|sync|route|program|cpu|comm|layer|capi)/")
endif()
set(test_folders)
foreach(source IN LISTS test_sources)
  get_filename_component(folder "${source}" DIRECTORY)
  list(APPEND test_folders "${folder}")
endforeach()
list(REMOVE_DUPLICATES test_folders)
foreach(folder IN LISTS test_folders)
  string(REPLACE "/" "_" name "${folder}")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp"
       "${PROJECT_SOURCE_DIR}/tests/${folder}/*.c")
  set(slow_sources ${sources})
  list(FILTER slow_sources INCLUDE REGEX "_slow_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_slow_test\\.cpp$")
  if(sources)
    mok_add_test_program(mok_test_${name} ${name} unit ${sources})
  endif()
  if(slow_sources AND NOT MOK_PORTABLE)
    mok_add_test_program(mok_test_${name}_slow ${name} slow ${slow_sources})
  endif()
endforeach()

if(MOK_PORTABLE OR MOK_SANITIZE)
  return()
endif()

if(MOK_CUDA)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/gpu/*.cu")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(mok_gpu_${name} "${source}")
    target_link_libraries(mok_gpu_${name} PRIVATE ${mok_all_libraries} mok_flags)
    target_include_directories(mok_gpu_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    # Built here, run on a GPU machine that has no such libstdc++.
    target_link_options(mok_gpu_${name} PRIVATE -static-libstdc++ -static-libgcc)
    set_target_properties(mok_gpu_${name} PROPERTIES OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY
                                                     "${PROJECT_BINARY_DIR}/gpu")
  endforeach()
endif()

# bench/NAME_bench.cpp -> bench/NAME_bench; oneDNN is the rival where it is installed.
find_package(benchmark QUIET)
find_package(dnnl QUIET)
if(benchmark_FOUND)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*_bench.cpp")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(mok_${name} "${source}")
    target_link_libraries(mok_${name} PRIVATE ${mok_all_libraries} benchmark::benchmark mok_flags)
    target_include_directories(mok_${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
    if(TARGET DNNL::dnnl)
      target_link_libraries(mok_${name} PRIVATE DNNL::dnnl gomp)
      target_compile_definitions(mok_${name} PRIVATE MOK_WITH_ONEDNN=1)
    endif()
    set_target_properties(mok_${name} PROPERTIES OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY
                                                 "${PROJECT_BINARY_DIR}/bench")
  endforeach()
endif()
