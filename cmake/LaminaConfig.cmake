# find_package(Lamina) gives the target Lamina::Lamina.
include(${CMAKE_CURRENT_LIST_DIR}/LaminaTargets.cmake)
