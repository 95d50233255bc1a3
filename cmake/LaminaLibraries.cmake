# The programs and libraries made from the folders: tools, the C++ API, liblamina, the C++ examples.

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
target_precompile_headers(lamina_api REUSE_FROM lamina_headers)
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
# What both load when they run, not when they are made: lamina_module is all that Python loads.
if(TARGET lamina_core)
  add_custom_target(lamina_module DEPENDS lamina_core)
endif()
foreach(library lamina_llvm lamina_onednn)
  if(TARGET ${library})
    add_dependencies(lamina ${library})
    install(TARGETS ${library} LIBRARY DESTINATION lib COMPONENT cpp)
    if(TARGET lamina_core)
      add_dependencies(lamina_module ${library})
      install(TARGETS ${library} LIBRARY DESTINATION lamina COMPONENT python)
    endif()
  endif()
endforeach()

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
