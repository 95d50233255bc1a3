// What a device is, for libraries that plan for one without having it.
#ifndef LAMINA_TESTS_JIT_DEVICE_PROPERTIES_H_
#define LAMINA_TESTS_JIT_DEVICE_PROPERTIES_H_

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/build_paths.h"

namespace lamina::testing {

// As cuDNN wrote them where there was one, and what later versions want to know besides.
inline std::string h100_properties() {
  std::ifstream file(std::string(kTestsFolder) + "/gpu/results/h100-2026-11-26.json");
  REQUIRE(file.good());
  std::stringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const size_t begin = text.find('{', text.find("\"device_properties\""));
  return text.substr(begin, text.find('}', begin) - begin) +
         ", \"memoryBusWidth\": 5120, \"oversizedSharedMemoryPerBlock\": 0}";
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_DEVICE_PROPERTIES_H_
