# The Python binding lamina._core, from python/*.cc.
#
# pybind11 comes from the Python environment (pip), found by asking its interpreter: pass
# -DPython3_EXECUTABLE=.venv/bin/python. LAMINA_PYTHON_INPLACE puts the binding and liblamina_llvm into
# python/lamina, so that PYTHONPATH=python runs the tree as it is; otherwise they stay in <build>/python/lamina.

if(LAMINA_PYTHON)
  file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/*.cc)
  if(python_sources)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
    set(Python_EXECUTABLE ${Python3_EXECUTABLE})
    execute_process(COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir OUTPUT_VARIABLE pybind11_DIR
      OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE pybind11_missing)
    if(pybind11_missing)
      message(FATAL_ERROR "${Python3_EXECUTABLE} has no pybind11: run `make setup`, or build with -DLAMINA_PYTHON=OFF")
    endif()
    set(PYBIND11_FINDPYTHON ON)
    find_package(pybind11 3 REQUIRED CONFIG)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)  # a batch of files sees most of what it would
    pybind11_add_module(lamina_core MODULE ${python_sources})
    target_link_libraries(lamina_core PRIVATE lamina_lazy)
    lamina_unity(lamina_core)
    lamina_optimize_less(lamina_core)
    target_precompile_headers(lamina_core PRIVATE <pybind11/pybind11.h> <pybind11/functional.h> <pybind11/stl.h>
      ${LAMINA_COMMON_HEADERS})
    target_link_options(lamina_core PRIVATE -Wl,--exclude-libs,ALL)

    set_target_properties(lamina_core PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${LAMINA_LIBRARY_DIR})
    install(TARGETS lamina_core LIBRARY DESTINATION lamina COMPONENT python)
  endif()
endif()
