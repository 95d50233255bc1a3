#include "jit/client/exchange.h"

namespace lamina::jit {
namespace {

const Exchange* exchange_of(const Buffer& buffer) { return buffer.memory().client().exchange(); }

}  // namespace

absl::StatusOr<HandedOver> HandedOver::make(BufferRef buffer, Exchange::TheirStream stream) {
  const Exchange* const exchange = exchange_of(*buffer);
  if (!exchange)
    return absl::InvalidArgumentError("other libraries do not know " + buffer->memory().device().name());
  if (absl::Status s = exchange->hand_over(*buffer, stream); !s.ok()) return s;
  return HandedOver(std::move(buffer));
}

HandedOver::~HandedOver() {
  if (!buffer_) return;
  const Exchange& exchange = *exchange_of(*buffer_);
  exchange.hand_back(std::move(buffer_));
}

uint64_t HandedOver::place() const { return exchange_of(*buffer_)->place_of(*buffer_); }

}  // namespace lamina::jit
