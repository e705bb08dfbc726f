# mok_cuda.cmake: turns the CUDA language on where the preset asks for it.
if(NOT MOK_CUDA)
  message(STATUS "CUDA off: CPU only")
  return()
endif()

include(find_nvcc)
if(NOT CMAKE_CUDA_COMPILER)
  mok_find_nvcc(mok_nvcc)
  if(NOT mok_nvcc)
    message(FATAL_ERROR "nvcc was not found ($CUDACXX, PATH, /usr/local/cuda/bin, site-packages): "
                        "use the preset cpu, or set CUDACXX")
  endif()
  set(CMAKE_CUDA_COMPILER "${mok_nvcc}" CACHE FILEPATH "CUDA compiler")
endif()
# The toolkit as Python packages has lib/ where nvcc looks for lib64/.
if(CMAKE_CUDA_COMPILER MATCHES "/nvidia/cu13/bin/nvcc$")
  get_filename_component(mok_cuda_root "${CMAKE_CUDA_COMPILER}" DIRECTORY)
  get_filename_component(mok_cuda_root "${mok_cuda_root}" DIRECTORY)
  set(ENV{CUDAFLAGS} "$ENV{CUDAFLAGS} -L${mok_cuda_root}/lib")
endif()

set(CMAKE_CUDA_ARCHITECTURES "${MOK_CUDA_ARCHITECTURES}")
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake 3.25.1 does not know that nvcc has C++20. (CUDA takes the level of C++ where it has none.)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
# What g++ searches anyway must not be named again: -isystem would change the order for nvcc's g++.
list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
message(STATUS "CUDA on: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, ${CMAKE_CUDA_COMPILER}")

# Registers and spills of every kernel go to OBJECT.ptxas.txt beside the object, not to the terminal.
set(CMAKE_CUDA_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/nvcc_launcher.sh" ${MOK_CCACHE})
