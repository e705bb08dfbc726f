# mok_libraries.cmake: one static library per layer of src/, and the command.

# A library of the given sources; without sources (the folder is still empty) an interface library, so
# that everything that names it still configures.
function(mok_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${name} PRIVATE MOK_VERSION="${PROJECT_VERSION}")
    target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE mok_flags)
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}/include"
                                                 "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${name} INTERFACE ${arg_LINK})
  endif()
endfunction()

# The sources below each folder of src/, with the given endings.
function(mok_sources out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS;ENDINGS")
  set(patterns)
  foreach(folder IN LISTS arg_FOLDERS)
    foreach(ending IN LISTS arg_ENDINGS)
      list(APPEND patterns "${PROJECT_SOURCE_DIR}/src/${folder}/*.${ending}")
    endforeach()
  endforeach()
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${patterns})
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# Error texts alone, so that the reference can return a Status and still link nothing of the program.
set(status_source "${PROJECT_SOURCE_DIR}/src/core/status.cpp")
mok_add_library(mok_status SOURCES ${status_source} LINK mok_expected)

mok_sources(sources FOLDERS core sync route program ENDINGS cpp)
list(REMOVE_ITEM sources ${status_source})
mok_add_library(mok_core SOURCES ${sources} LINK mok_status mok_expected)

# The reference sees core types by include only (tests/hygiene/reference_links.py proves it).
mok_sources(sources FOLDERS reference ENDINGS cpp)
mok_add_library(mok_reference SOURCES ${sources} LINK mok_status mok_expected Threads::Threads)

mok_sources(sources FOLDERS comm ENDINGS cpp)
mok_add_library(mok_comm SOURCES ${sources} LINK mok_core Threads::Threads)

mok_sources(sources FOLDERS cpu sim ENDINGS cpp)
mok_add_library(mok_cpu SOURCES ${sources} LINK mok_core mok_comm Threads::Threads)

mok_sources(sources FOLDERS layer capi ENDINGS cpp)
mok_add_library(mok_layer SOURCES ${sources} LINK mok_cpu mok_comm mok_core Threads::Threads)

set(mok_all_libraries mok_layer mok_cpu mok_comm mok_core)

if(MOK_CUDA)
  find_package(CUDAToolkit REQUIRED)
  mok_sources(sources FOLDERS cuda ENDINGS cu cpp)
  mok_add_library(mok_cuda SOURCES ${sources} LINK mok_core mok_comm CUDA::cudart_static)
  list(PREPEND mok_all_libraries mok_cuda)
endif()

if(MOK_PORTABLE)
  return()
endif()

find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
# The archive, so that the binary runs on a machine without the package.
find_library(MOK_XXHASH NAMES libxxhash.a xxhash REQUIRED)

mok_sources(sources FOLDERS io ENDINGS cpp)
mok_add_library(mok_io SOURCES ${sources} LINK mok_core nlohmann_json::nlohmann_json
                fmt::fmt-header-only "${MOK_XXHASH}")
list(PREPEND mok_all_libraries mok_io)

if(MOK_FUZZ)
  return()
endif()

# The command: everything but main.cpp is a library, so that tests reach it.
find_package(CLI11 REQUIRED)
mok_sources(sources FOLDERS cli ENDINGS cpp)
list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
mok_add_library(mok_cli SOURCES ${sources} LINK ${mok_all_libraries} mok_reference CLI11::CLI11)
list(PREPEND mok_all_libraries mok_cli)
list(APPEND mok_all_libraries mok_reference)

file(GLOB main_source CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
if(main_source)
  add_executable(mok ${main_source})
  target_compile_definitions(mok PRIVATE MOK_VERSION="${PROJECT_VERSION}")
  target_link_libraries(mok PRIVATE mok_cli mok_flags)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    # The GPU machine has neither this libstdc++ nor this distribution.
    target_link_options(mok PRIVATE -static-libstdc++ -static-libgcc)
    file(RELATIVE_PATH binary "${PROJECT_SOURCE_DIR}/build" "${PROJECT_BINARY_DIR}/mok")
    add_custom_command(
      TARGET mok
      POST_BUILD
      COMMAND "${CMAKE_COMMAND}" -E create_symlink "${binary}" "${PROJECT_SOURCE_DIR}/build/mok"
      VERBATIM)
  endif()
endif()
