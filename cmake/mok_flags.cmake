# mok_flags.cmake: language level, warnings, floating-point rules, sanitizers and ccache for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)  # the C ABI's test
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(MOK_CCACHE ccache)
if(MOK_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MOK_CCACHE}")
endif()

# -ffp-contract=off: a fused multiply-add rounds once instead of twice, so the compiler's choice would
# change bits between engines and between host and device. Code that wants one calls fma itself.
add_library(mok_flags INTERFACE)
target_compile_options(
  mok_flags
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion>
    $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
    # std::bit_cast and other constexpr functions are called from device code.
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--fmad=false;-lineinfo;-Xptxas=-v;-Xcompiler=-ffp-contract=off,-Wall,-Wextra,-Wshadow>)
if(MOK_WERROR)
  target_compile_options(
    mok_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
                        $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>)
endif()

# g++ 12 sees an overlap in "text" + std::string that cannot be.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(mok_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

if(MOK_SANITIZE)
  # Instrumented code makes g++ 12 warn about paths that do not exist.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(mok_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
  endif()
  add_compile_options(-fsanitize=${MOK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MOK_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# tl::expected is one header folder. A cross compiler must not see the host's other headers, so it
# gets a folder that holds only that one.
find_package(tl-expected REQUIRED)
add_library(mok_expected INTERFACE)
if(CMAKE_CROSSCOMPILING)
  get_target_property(tl_include tl::expected INTERFACE_INCLUDE_DIRECTORIES)
  list(GET tl_include 0 tl_include)
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/sysinclude")
  file(CREATE_LINK "${tl_include}/tl" "${PROJECT_BINARY_DIR}/sysinclude/tl" SYMBOLIC)
  target_include_directories(mok_expected SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/sysinclude")
else()
  target_link_libraries(mok_expected INTERFACE tl::expected)
endif()

find_package(Threads REQUIRED)
