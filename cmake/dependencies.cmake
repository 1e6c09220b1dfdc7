# Everything the project stands on, found once and named with what to install where it is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(cxxopts REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(STB REQUIRED IMPORTED_TARGET stb)

# oneDNN. Debian's CMake package for it asks for OpenCL's headers, which nothing here needs.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES
  IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})

# oneDNN's threads are OpenMP's; what the runtime computes itself shares them.
if(NOT WP_FUZZ)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# The interposer goes into processes that may have no liburing of their own, so it takes the static
# library where there is one.
find_library(LIBURING_STATIC liburing.a)

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  message(STATUS "CUDA Toolkit ${CUDAToolkit_VERSION}: found, used from the runtime on")
else()
  message(STATUS "CUDA Toolkit: not found, GPU parts are not built")
endif()

if(WP_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(WP_BENCH)
  find_package(benchmark REQUIRED)
endif()
