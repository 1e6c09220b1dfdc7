# Everything the project stands on, found once and named with what to install where it is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(NCURSESW REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(cxxopts REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(STB REQUIRED IMPORTED_TARGET stb)

# All that formats links weightpager_fmt. cmake/fmt.cc is written for fmt 9; with other releases, every
# file that formats compiles fmt's functions again.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(weightpager_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cc)
else()
  add_library(weightpager_fmt INTERFACE)
  target_link_libraries(weightpager_fmt INTERFACE fmt::fmt-header-only)
endif()

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

# CBC solves integer programs; without it, networks that are not series-parallel get no plan.
pkg_check_modules(CBC QUIET IMPORTED_TARGET cbc)
set(WP_HAS_CBC ${CBC_FOUND})
message(STATUS "CBC: ${WP_HAS_CBC} (coinor-libcbc-dev)")

# The interposer goes into processes that may have no liburing of their own, so it takes the static
# library where there is one.
find_library(LIBURING_STATIC liburing.a)

# CUDA: its compiler and the part of its runtime that is linked in. The driver and cuBLAS are looked
# for when a GPU is first used, so that one weightpager serves machines with and without them.
set(WP_HAS_CUDA FALSE)
if(NOT WP_CUDA STREQUAL "OFF" AND NOT WP_FUZZ)
  include(CheckLanguage)
  find_package(CUDAToolkit 12.5 QUIET)
  check_language(CUDA)
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    set(WP_HAS_CUDA TRUE)
  elseif(WP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WP_CUDA is ON, and CUDA 12.5 or later was not found: install nvcc, or name it "
                        "with -DCMAKE_CUDA_COMPILER=PATH")
  endif()
endif()
if(WP_HAS_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Ampere and Hopper, and what the driver compiles for later ones.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25 does not know yet that nvcc has C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}: found, --device cuda is built (WP_CUDA=${WP_CUDA})")
else()
  message(STATUS "CUDA: not built (WP_CUDA=${WP_CUDA}), --device cuda will say so")
endif()

if(WP_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(WP_BENCH)
  find_package(benchmark REQUIRED)
endif()
