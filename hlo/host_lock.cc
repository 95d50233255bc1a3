#include "hlo/host_lock.h"

#include <atomic>

namespace lamina::hlo {
namespace {
std::atomic<const HostLock*> current{nullptr};
}  // namespace

void set_host_lock(const HostLock* lock) { current.store(lock, std::memory_order_release); }
const HostLock* host_lock() { return current.load(std::memory_order_acquire); }

}  // namespace lamina::hlo
