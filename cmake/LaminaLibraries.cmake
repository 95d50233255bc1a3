# The libraries and programs made from the folders: liblamina_llvm (static LLVM inside, loaded with dlopen at
# the first compile).

if(LAMINA_LLVM)
  file(GLOB llvm_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/jit/cpu/llvm/*.cc)
  if(llvm_sources)
    find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
    # Nothing is resolved from the loading program, so what both sides use is compiled into both.
    add_library(lamina_llvm MODULE ${llvm_sources} ${CMAKE_SOURCE_DIR}/hlo/scalar/schedule.cc)
    target_link_libraries(lamina_llvm PRIVATE lamina_flags)
    target_include_directories(lamina_llvm SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(lamina_llvm PRIVATE ${LLVM_DEFINITIONS})
    target_compile_options(lamina_llvm PRIVATE -fno-rtti -ffunction-sections -fdata-sections)
    llvm_map_components_to_libnames(llvm_libs orcjit nativecodegen)
    target_link_libraries(lamina_llvm PRIVATE ${llvm_libs})
    target_link_options(lamina_llvm PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-s
      -Wl,--no-undefined)
  endif()
endif()

# The programs lamina-opt and lamina-run; what they share is a library of its own, which the tests link too.
add_library(lamina_tools STATIC ${CMAKE_SOURCE_DIR}/jit/tools/npy.cc ${CMAKE_SOURCE_DIR}/jit/tools/executors.cc)
target_link_libraries(lamina_tools PUBLIC lamina_jit)
foreach(tool opt run)
  add_executable(lamina-${tool} ${CMAKE_SOURCE_DIR}/jit/tools/lamina_${tool}.cc)
  target_link_libraries(lamina-${tool} PRIVATE lamina_tools)
endforeach()
