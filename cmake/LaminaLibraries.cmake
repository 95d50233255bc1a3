# The libraries and programs made from the folders: liblamina_llvm (static LLVM inside, loaded with dlopen at
# the first compile).

if(LAMINA_LLVM)
  file(GLOB llvm_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/jit/codegen/*.cc)
  list(FILTER llvm_sources EXCLUDE REGEX "/(client|api).cc$")  # the side that loads it, and the interface
  if(llvm_sources)
    find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
    # Nothing is resolved from the loading program, so what both sides use is compiled into both.
    set(kernel_sources hlo/scalar/primitives.cc hlo/scalar/schedule.cc jit/kernel/choice.cc jit/kernel/grid.cc
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
    lamina_unity(lamina_llvm)
    lamina_optimize_less(lamina_llvm)
    target_compile_options(lamina_llvm PRIVATE -fno-rtti -ffunction-sections -fdata-sections)
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
  find_package(OpenMP COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    target_compile_definitions(lamina_onednn PRIVATE LAMINA_HAVE_OPENMP)
    target_link_libraries(lamina_onednn PRIVATE OpenMP::OpenMP_CXX)
  endif()
endif()

# The programs lamina-opt and lamina-run; what they share is a library of its own, which the tests link too.
add_library(lamina_tools STATIC ${CMAKE_SOURCE_DIR}/jit/tools/npy.cc ${CMAKE_SOURCE_DIR}/jit/tools/executors.cc
            ${CMAKE_SOURCE_DIR}/jit/tools/op_support.cc ${CMAKE_SOURCE_DIR}/jit/tools/ptx_listing.cc)
target_link_libraries(lamina_tools PUBLIC lamina_jit lamina_trace)
if(TARGET lamina_llvm)
  add_dependencies(lamina_tools lamina_llvm)
  target_compile_definitions(lamina_tools PRIVATE LAMINA_LLVM_PATH="$<TARGET_FILE:lamina_llvm>")
endif()
foreach(tool opt run)
  add_executable(lamina-${tool} ${CMAKE_SOURCE_DIR}/jit/tools/lamina_${tool}.cc)
  target_link_libraries(lamina-${tool} PRIVATE lamina_tools)
endforeach()

# The C++ API, which the Python module does without.
file(GLOB api_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lazy/api/*.cc)
add_library(lamina_api STATIC ${api_sources})
target_link_libraries(lamina_api PUBLIC lamina_lazy)
target_precompile_headers(lamina_api REUSE_FROM lamina_hlo)
lamina_unity(lamina_api)
lamina_optimize_less(lamina_api)

# liblamina: the C++ API with everything but LLVM inside; what it uses itself is hidden. It loads liblamina_llvm from
# its own folder.
add_library(lamina SHARED ${CMAKE_SOURCE_DIR}/cmake/liblamina.map)
set_target_properties(lamina PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME Lamina VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
target_link_libraries(lamina PRIVATE -Wl,--whole-archive lamina_api lamina_lazy -Wl,--no-whole-archive)
target_link_options(lamina PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/liblamina.map -Wl,--no-undefined)
target_include_directories(lamina INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/lazy/include>
  $<INSTALL_INTERFACE:include>)
target_compile_features(lamina INTERFACE cxx_std_20)

# find_package(Lamina): cmake --install BUILD --component cpp
include(CMakePackageConfigHelpers)
install(TARGETS lamina EXPORT LaminaTargets LIBRARY DESTINATION lib COMPONENT cpp)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lazy/include/lamina DESTINATION include COMPONENT cpp)
install(EXPORT LaminaTargets NAMESPACE Lamina:: DESTINATION lib/cmake/Lamina COMPONENT cpp)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LaminaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/LaminaConfig.cmake ${CMAKE_BINARY_DIR}/LaminaConfigVersion.cmake
  DESTINATION lib/cmake/Lamina COMPONENT cpp)
if(TARGET lamina_llvm)
  set_target_properties(lamina_llvm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
  add_dependencies(lamina lamina_llvm)
  install(TARGETS lamina_llvm LIBRARY DESTINATION lib COMPONENT cpp)
endif()

if(TARGET lamina_onednn)
  set_target_properties(lamina_onednn PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
  add_dependencies(lamina lamina_onednn)
  install(TARGETS lamina_onednn LIBRARY DESTINATION lib COMPONENT cpp)
endif()

# The C++ programs of examples/.
if(LAMINA_TESTS)
  find_package(ZLIB REQUIRED)
  file(GLOB examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.cc)
  foreach(source ${examples})
    get_filename_component(program ${source} NAME_WE)
    add_executable(example_${program} ${source})
    target_compile_options(example_${program} PRIVATE -Wall -Wextra -Werror)
    target_link_libraries(example_${program} PRIVATE lamina ZLIB::ZLIB)
    set_target_properties(example_${program} PROPERTIES OUTPUT_NAME ${program}
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
  endforeach()
endif()
