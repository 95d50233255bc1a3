// The clients there are.
#include "jit/cpu/client.h"

namespace lamina::jit {

Client& host() { return CpuClient::get(); }

}  // namespace lamina::jit
