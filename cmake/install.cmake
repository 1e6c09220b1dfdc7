# What `cmake --install` puts where beside the weightpager command, and how others find it: the library with
# its public header for CMake (find_package(weightpager) gives weightpager::weightpager) and for pkg-config,
# and the interposer that `weightpager run` preloads. The tree can be moved as a whole after installing.
#
# The library's name carries the number of its ABI (libweightpager.so.0), which is raised whenever a
# program that was linked against it before would no longer run. Before version 1 a minor release may
# change the API, so find_package accepts the same minor version only.
if(TARGET weightpager_preload)
  # Nobody links against it; `weightpager run` looks for the interposer here, beside its own bin folder, and the interposer
  # for its plugin beside itself.
  install(TARGETS weightpager_preload weightpager_control_plugin LIBRARY DESTINATION lib/weightpager)
endif()

# The kernel module's source, for `dkms add /usr/local/src/weightpager-1` and `dkms install weightpager/1`.
install(FILES kmod/weightpager.c kmod/weightpager_uapi.h kmod/Kbuild kmod/Makefile kmod/dkms.conf kmod/COPYING
  DESTINATION src/weightpager-1)

if(NOT TARGET weightpager_shared)
  return()
endif()

include(CMakePackageConfigHelpers)

set(WP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weightpager)
set_target_properties(weightpager_shared PROPERTIES
  OUTPUT_NAME weightpager EXPORT_NAME weightpager VERSION ${PROJECT_VERSION} SOVERSION 0
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libweightpager.map)
target_link_options(weightpager_shared PRIVATE
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/libweightpager.map)
# weightpager.hpp gives out std::span.
target_compile_features(weightpager_shared INTERFACE cxx_std_20)
if(NOT TARGET weightpager::weightpager)
  add_library(weightpager::weightpager ALIAS weightpager_shared)
endif()

install(TARGETS weightpager_shared EXPORT weightpagerTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY pager/include/weightpager DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

# For CMake.
install(EXPORT weightpagerTargets NAMESPACE weightpager:: DESTINATION ${WP_CMAKE_DIR})
configure_package_config_file(cmake/weightpagerConfig.cmake.in
  ${PROJECT_BINARY_DIR}/weightpagerConfig.cmake INSTALL_DESTINATION ${WP_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weightpagerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weightpagerConfig.cmake
  ${PROJECT_BINARY_DIR}/weightpagerConfigVersion.cmake DESTINATION ${WP_CMAKE_DIR})

# For pkg-config. The prefix is found from where the file lies.
set(WP_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH WP_PC_TO_PREFIX /prefix/${WP_PC_DIR} /prefix)
configure_file(cmake/weightpager.pc.in ${PROJECT_BINARY_DIR}/weightpager.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weightpager.pc DESTINATION ${WP_PC_DIR})
