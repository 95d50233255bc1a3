# The libraries that are loaded with dlopen when they are first needed: liblamina_llvm (static LLVM inside) at the first
# compile, liblamina_onednn.

if(LAMINA_LLVM)
  file(GLOB llvm_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/jit/codegen/*.cc)
  list(FILTER llvm_sources EXCLUDE REGEX "/(client|api).cc$")  # the side that loads it, and the interface
  if(llvm_sources)
    find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
    # Nothing is resolved from the loading program, so what both sides use is compiled into both.
    set(kernel_sources hlo/scalar/primitives.cc hlo/scalar/schedule.cc jit/kernel/choice.cc jit/kernel/grid.cc jit/kernel/grid_chain.cc jit/kernel/grid_held.cc
      jit/kernel/grid_sort.cc jit/kernel/grid_tiles.cc
      jit/kernel/kernel.cc jit/kernel/parse.cc jit/kernel/schedule.cc jit/kernel/verify.cc)
    list(TRANSFORM kernel_sources PREPEND ${CMAKE_SOURCE_DIR}/)
    # What makes code, which tests link as well.
    add_library(lamina_codegen OBJECT ${llvm_sources})
    target_link_libraries(lamina_codegen PUBLIC lamina_flags)
    target_include_directories(lamina_codegen SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(lamina_codegen PUBLIC ${LLVM_DEFINITIONS})
    target_compile_options(lamina_codegen PRIVATE -fno-rtti -ffunction-sections -fdata-sections)
    llvm_map_components_to_libnames(llvm_libs orcjit nativecodegen nvptxcodegen nvptxdesc nvptxinfo)
    target_link_libraries(lamina_codegen PUBLIC ${llvm_libs} absl::status absl::statusor absl::strings)
    lamina_unity(lamina_codegen)
    lamina_optimize_less(lamina_codegen)
    add_library(lamina_llvm MODULE ${CMAKE_SOURCE_DIR}/jit/codegen/api.cc ${kernel_sources})
    target_link_libraries(lamina_llvm PRIVATE lamina_codegen)
    # Batches of its own: the folders' are for all files of those.
    set_target_properties(lamina_llvm PROPERTIES UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${LAMINA_UNITY_FILES})
    lamina_optimize_less(lamina_llvm)
    target_compile_options(lamina_llvm PRIVATE -fno-rtti -ffunction-sections -fdata-sections)
    set_target_properties(lamina_llvm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
    target_link_options(lamina_llvm PRIVATE -Wl,--build-id=sha1 -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-s
      -Wl,--no-undefined)
  endif()
endif()

# liblamina_onednn: oneDNN behind a C interface, loaded with dlopen at the first product in `fast` numerics. Without
# oneDNN there is none, and Lamina's own code serves.
find_path(LAMINA_DNNL_INCLUDE dnnl.hpp)
find_library(LAMINA_DNNL dnnl)
if(LAMINA_DNNL_INCLUDE AND LAMINA_DNNL)
  add_library(lamina_onednn MODULE ${CMAKE_SOURCE_DIR}/jit/cpu/onednn/library.cc)
  target_include_directories(lamina_onednn SYSTEM PRIVATE ${LAMINA_DNNL_INCLUDE})
  target_link_libraries(lamina_onednn PRIVATE lamina_flags ${LAMINA_DNNL})
  set_target_properties(lamina_onednn PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
  find_package(OpenMP COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    target_compile_definitions(lamina_onednn PRIVATE LAMINA_HAVE_OPENMP)
    target_link_libraries(lamina_onednn PRIVATE OpenMP::OpenMP_CXX)
  endif()
endif()
