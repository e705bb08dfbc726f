# find_nvcc.cmake: where nvcc is: $CUDACXX, PATH, the usual install folder, Python's site-packages.
# Included by the build, and run as a script (cmake -P) by tools/common.sh; the script prints the path,
# or nothing. CMake's own check_language(CUDA) looks at the first two places only.

function(mok_find_nvcc out)
  set(${out} "" PARENT_SCOPE)
  if(NOT "$ENV{CUDACXX}" STREQUAL "")
    find_program(from_environment NAMES "$ENV{CUDACXX}" NO_CACHE)
    if(from_environment)
      set(${out} "${from_environment}" PARENT_SCOPE)
      return()
    endif()
  endif()
  find_program(nvcc NAMES nvcc NO_CACHE PATHS /usr/local/cuda/bin)
  if(nvcc)
    set(${out} "${nvcc}" PARENT_SCOPE)
    return()
  endif()
  set(roots "$ENV{VIRTUAL_ENV}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.venv" "$ENV{HOME}/.local"
            /usr/local /usr)
  foreach(root IN LISTS roots)
    file(GLOB found "${root}/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"
         "${root}/lib/python3*/dist-packages/nvidia/cu13/bin/nvcc")
    if(found)
      list(GET found 0 nvcc)
      set(${out} "${nvcc}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  # A Python that lives elsewhere says itself where its packages are.
  find_program(python NAMES python3 NO_CACHE)
  if(python)
    execute_process(
      COMMAND "${python}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
      OUTPUT_VARIABLE purelib
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(EXISTS "${purelib}/nvidia/cu13/bin/nvcc")
      set(${out} "${purelib}/nvidia/cu13/bin/nvcc" PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  mok_find_nvcc(nvcc)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${nvcc}")
endif()
