# mok_fuzz.cmake: tests/fuzz/NAME_fuzz.cpp becomes the libFuzzer program mok_fuzz_NAME.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  add_executable(mok_fuzz_${name} "${source}")
  target_link_libraries(mok_fuzz_${name} PRIVATE mok_io mok_core mok_flags)
  target_link_options(mok_fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(mok_fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                    "${PROJECT_BINARY_DIR}/fuzz")
endforeach()

# The seed corpus: make_seeds FOLDER writes FOLDER/NAME.
add_executable(mok_make_seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/make_seeds.cpp")
target_link_libraries(mok_make_seeds PRIVATE mok_io mok_core mok_flags)
