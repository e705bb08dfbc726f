# mok_install.cmake: the library that others link (mok::mok), its headers and its CMake package.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# All of core, comm, cpu and layer in one archive, from the objects that are already compiled.
set(objects)
foreach(library IN ITEMS mok_status mok_core mok_comm mok_cpu mok_layer)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endif()
endforeach()
if(NOT objects)
  return()
endif()
add_library(mok_library STATIC ${objects})
set_target_properties(mok_library PROPERTIES OUTPUT_NAME mok EXPORT_NAME mok LINKER_LANGUAGE CXX)
target_compile_features(mok_library INTERFACE cxx_std_20)
target_include_directories(
  mok_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(mok_library PUBLIC tl::expected Threads::Threads)
add_library(mok::mok ALIAS mok_library)

set(mok_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mok")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/mok-config.cmake.in" "${PROJECT_BINARY_DIR}/mok-config.cmake"
  INSTALL_DESTINATION "${mok_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mok-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(TARGETS mok_library EXPORT mok_targets)
if(TARGET mok)
  install(TARGETS mok)
endif()
install(EXPORT mok_targets NAMESPACE mok:: FILE mok-targets.cmake DESTINATION "${mok_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/mok-config.cmake" "${PROJECT_BINARY_DIR}/mok-config-version.cmake"
        DESTINATION "${mok_package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
