#include "jit/program/engine.h"

namespace lamina::jit {

Engine& Engine::get() {
  static Engine* engine = new Engine;
  return *engine;
}

}  // namespace lamina::jit
