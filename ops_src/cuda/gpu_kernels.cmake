# Adds the kernels for GPUs to the op library where there is nvcc; included by CMakeLists.txt.
#
# GRAPH_OPT_CUDA is AUTO (where nvcc is), ON (it must be there) or OFF. The CUDA runtime is linked
# statically, and looks for a driver only when a kernel first runs: the library loads on machines
# without one. No contraction, as in the loops over rows.
set(GRAPH_OPT_CUDA "AUTO" CACHE STRING "Kernels for GPUs: AUTO (where nvcc is), ON or OFF")
set_property(CACHE GRAPH_OPT_CUDA PROPERTY STRINGS AUTO ON OFF)

# The architectures of `wanted` that nvcc knows, newer ones have dropped 70; none where there is no
# nvcc, or not all of the toolkit that is needed.
function(find_gpu_architectures wanted found)
  set(${found} "" PARENT_SCOPE)
  find_program(GRAPH_OPT_NVCC NAMES nvcc HINTS ENV CUDA_PATH PATH_SUFFIXES bin)
  find_package(CUDAToolkit QUIET)
  if(NOT GRAPH_OPT_NVCC OR NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static)
    return()
  endif()
  find_path(GRAPH_OPT_CUB cub/device/device_radix_sort.cuh
            PATHS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl NO_DEFAULT_PATH)
  execute_process(
    COMMAND ${GRAPH_OPT_NVCC} --list-gpu-arch
    OUTPUT_VARIABLE known
    ERROR_QUIET
    RESULT_VARIABLE failed)
  if(failed OR NOT GRAPH_OPT_CUB)
    return()
  endif()
  foreach(architecture ${wanted})
    if(known MATCHES "compute_${architecture}[^0-9]")
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
  set(${found} "${architectures}" PARENT_SCOPE)
endfunction()

if(NOT GRAPH_OPT_CUDA STREQUAL "OFF")
  find_gpu_architectures("70;80;90" gpu_architectures)
  if(gpu_architectures)
    set(CMAKE_CUDA_ARCHITECTURES ${gpu_architectures})
    include(CheckLanguage)
    check_language(CUDA)
  endif()
endif()

if(gpu_architectures AND CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  add_library(graph_opt_cuda OBJECT cuda/group_embedding_cuda.cu)
  target_include_directories(graph_opt_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(graph_opt_cuda PRIVATE -fmad=false -Xcompiler=-Wall,-Wextra)
  set_target_properties(
    graph_opt_cuda
    PROPERTIES CUDA_STANDARD 17
               CUDA_STANDARD_REQUIRED ON
               CUDA_RUNTIME_LIBRARY Static
               CUDA_VISIBILITY_PRESET hidden
               POSITION_INDEPENDENT_CODE ON)
  file(GLOB functors_on_device CONFIGURE_DEPENDS cuda/*.cc)
  file(GLOB kernels_on_device CONFIGURE_DEPENDS kernels/*/*_gpu.cc)
  target_sources(graph_opt_functors PRIVATE ${functors_on_device})
  target_sources(graph_opt_ops PRIVATE ${kernels_on_device} $<TARGET_OBJECTS:graph_opt_cuda>)
  target_sources(graph_opt_objects PRIVATE $<TARGET_OBJECTS:graph_opt_cuda>)
  foreach(library graph_opt_ops graph_opt_serving)
    target_link_libraries(${library} PRIVATE CUDA::cudart_static)
  endforeach()
  message(STATUS "Kernels for GPUs: ${gpu_architectures}")
elseif(GRAPH_OPT_CUDA STREQUAL "ON")
  message(FATAL_ERROR "GRAPH_OPT_CUDA is ON, and there is no CUDA toolkit that can be used")
else()
  message(STATUS "Kernels for GPUs: none")
endif()
