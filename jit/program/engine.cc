#include "jit/program/engine.h"

#include "hlo/once.h"

namespace lamina::jit {

Engine& Engine::get() {
  static constinit hlo::Once<Engine> engine;
  return engine.get([] { return new Engine; });
}

}  // namespace lamina::jit
