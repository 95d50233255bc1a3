# Helpers shared by every folder's target.

# Uses ccache and mold where the machine has them; neither is required.
function(lamina_use_ccache_and_mold)
  find_program(LAMINA_CCACHE ccache)
  if(LAMINA_CCACHE)
    # Without these ccache keeps nothing that was compiled with a precompiled header.
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${LAMINA_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} PARENT_SCOPE)
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher} PARENT_SCOPE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
  endif()
  # A cross compiler may not find it though the machine has it.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold LAMINA_LINKS_WITH_MOLD)
  if(LAMINA_LINKS_WITH_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endfunction()

# The numerics contract (docs) forbids contraction and fast-math in every target.
add_library(lamina_flags INTERFACE)
target_compile_options(lamina_flags INTERFACE
  -Wall -Wextra -Werror -ffp-contract=off -fno-fast-math -fno-math-errno)
# g++ 12 reports overlapping copies in `"literal" + std::string` that do not exist (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(lamina_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(lamina_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/lazy/include>)

# What most files of the folders include and no change of this project touches: a third of a compile is reading it.
set(LAMINA_COMMON_HEADERS
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/container/inlined_vector.h>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <algorithm> <array> <atomic> <cmath>
  <complex> <cstdint> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view>
  <utility> <variant> <vector>)

set(LAMINA_COMMON_LIBRARIES absl::status absl::statusor absl::flat_hash_map absl::flat_hash_set absl::inlined_vector
  absl::strings absl::str_format absl::span Threads::Threads)

# They are compiled once, as part of a library of nothing else.
function(lamina_common_headers)
  file(WRITE ${CMAKE_BINARY_DIR}/headers.cc "")
  add_library(lamina_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cc)
  target_link_libraries(lamina_headers PRIVATE lamina_flags ${LAMINA_COMMON_LIBRARIES})
  target_precompile_headers(lamina_headers PRIVATE ${LAMINA_COMMON_HEADERS})
endfunction()

# lamina_unity(TARGET): where CMAKE_UNITY_BUILD is set (preset release), the files of each folder are compiled a few
# at a time, since most of a compile is what all of them include: names in unnamed namespaces are unique in a folder.
function(lamina_unity target)
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source ${sources})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE folder)
    cmake_path(REMOVE_FILENAME folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT folder IN_LIST folders)
      list(APPEND folders ${folder})
      set(count 0)
    endif()
    math(EXPR batch "${count} / ${LAMINA_UNITY_FILES}")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes all but the first file of a batch for a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
set(LAMINA_UNITY_FILES 12)
# Files that define macros for what they include, overload the names of others, or take as long as all others of
# their folder.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/hlo/scalar/kernels_baseline.cc ${CMAKE_SOURCE_DIR}/hlo/scalar/kernels_fma.cc
  ${CMAKE_SOURCE_DIR}/hlo/scalar/complex.cc ${CMAKE_SOURCE_DIR}/jit/cpu/gemm_kernels.cc
  ${CMAKE_SOURCE_DIR}/jit/cpu/gemm_kernels_avx2.cc ${CMAKE_SOURCE_DIR}/jit/cpu/gemm_kernels_avx512.cc
  ${CMAKE_SOURCE_DIR}/jit/cpu/sort_kernels_avx2.cc ${CMAKE_SOURCE_DIR}/jit/cpu/sort_kernels_avx512.cc
  ${CMAKE_SOURCE_DIR}/hlo/linalg/host_lanes.cc ${CMAKE_SOURCE_DIR}/hlo/linalg/host_lanes_eigen.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# lamina_optimize_less(TARGET): no loop of it works on elements, and the last optimizations would take a fifth of its
# compile for nothing.
function(lamina_optimize_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
endfunction()

# lamina_optimize_little(TARGET): what it does is done once for a text, or once at all.
function(lamina_optimize_little target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  # There g++ 12 sees strings copied beyond their ends that are not, too.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow)
  endif()
endfunction()

# lamina_folder(NAME [DEPENDS folder...] [LESS subfolder...] [LITTLE subfolder...]): a static library of every .cc file
# of the folder and its subfolders, except those that belong to other targets (tools, the LLVM library, the C++ API).
# LESS and LITTLE subfolders are libraries of their own, optimized so: not those that a call goes through.
function(lamina_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LESS;LITTLE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/tools/|/codegen/|/cpu/onednn/|/lazy/api/")
  if(name STREQUAL "jit")
    list(APPEND sources ${CMAKE_SOURCE_DIR}/jit/codegen/client.cc)
  endif()
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/${name}_empty.cc "")
    set(sources ${CMAKE_BINARY_DIR}/${name}_empty.cc)
  endif()
  foreach(part LESS LITTLE)
    set(${part})
    foreach(folder ${ARG_${part}})
      set(found ${sources})
      list(FILTER found INCLUDE REGEX "/${name}/${folder}/")
      list(REMOVE_ITEM sources ${found})
      list(APPEND ${part} ${found})
    endforeach()
  endforeach()
  add_library(lamina_${name} STATIC ${sources})
  target_link_libraries(lamina_${name} PUBLIC lamina_flags ${LAMINA_COMMON_LIBRARIES})
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(lamina_${name} PUBLIC lamina_${dep})
  endforeach()
  target_precompile_headers(lamina_${name} REUSE_FROM lamina_headers)
  lamina_unity(lamina_${name})
  if(NOT name MATCHES "hlo|jit")
    lamina_optimize_less(lamina_${name})
  endif()
  foreach(part LESS LITTLE)
    if(${part})
      string(TOLOWER lamina_${name}_${part} library)
      add_library(${library} STATIC ${${part}})
      target_link_libraries(${library} PUBLIC lamina_${name})
      target_precompile_headers(${library} REUSE_FROM lamina_headers)
      lamina_unity(${library})
      cmake_language(CALL lamina_optimize_${part} ${library})
      target_link_libraries(lamina_${name} PUBLIC ${library})
    endif()
  endforeach()
endfunction()
