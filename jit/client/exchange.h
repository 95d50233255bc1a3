// Memory that devices share with other libraries of the process: arrays cross without copies, and in the
// order in which the devices work.
//
// Contract: others know devices by DLPack's numbers, and streams by handles and by the small numbers that
// DLPack has for those of a kind of device. Nothing here waits on the host for what is enqueued. Any thread
// may call anything.
#ifndef LAMINA_JIT_CLIENT_EXCHANGE_H_
#define LAMINA_JIT_CLIENT_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/client/client.h"

namespace lamina::jit {

// Of a client whose devices others know.
class Exchange {
 public:
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // A device among DLPack's: its kind, and its number among these.
  struct Name {
    int32_t kind, number;
    bool operator==(const Name&) const = default;
  };
  static constexpr int32_t kHostKind = 1;
  // None: the one that others use where they name none.
  using TheirStream = std::optional<int64_t>;
  static constexpr TheirStream kNoStream = -1;

  virtual Name name_of(const Device& device) const = 0;
  // The device in whose memory that is; InvalidArgument where it is in none.
  virtual absl::StatusOr<Device*> owner_of(uint64_t at) const = 0;
  // What others know the place of a buffer as.
  virtual uint64_t place_of(const Buffer& buffer) const = 0;
  // What addresses of such elements must be multiples of, to be read in place.
  virtual int64_t alignment(int64_t element_bytes) const = 0;

  // What others enqueue on that stream from now on finds the contents; of kNoStream they see to that
  // themselves. InvalidArgument for a number that is none of a stream.
  virtual absl::Status hand_over(const Buffer& buffer, TheirStream stream) const = 0;
  // All that others do with a buffer that was handed over is enqueued: its memory serves for nothing else
  // before that has ended.
  virtual void hand_back(BufferRef buffer) const = 0;
  // The stream of ours on which the contents are found; none where there are no streams.
  virtual absl::StatusOr<TheirStream> stream_with(const Buffer& buffer) const = 0;

  // The stream of ours that others are to have wait for what they do with an array, before it is taken over
  // with kNoStream.
  virtual TheirStream stream_of(const Device& device) const = 0;
  // A buffer over memory of others, with what has been enqueued on `stream` of theirs so far. `release` (may
  // be empty) runs when nothing reads the memory any more, and at once where this fails: InvalidArgument
  // where that is no memory of the device, or no stream.
  virtual absl::StatusOr<BufferRef> take_over(Device& device, uint64_t at, int64_t bytes, TheirStream stream,
                                              std::function<void()> release) const = 0;

 protected:
  Exchange() = default;
  ~Exchange() = default;
};

// A buffer for as long as others have it.
class HandedOver {
 public:
  // InvalidArgument as Exchange::hand_over.
  static absl::StatusOr<HandedOver> make(BufferRef buffer, Exchange::TheirStream stream);
  HandedOver(HandedOver&&) = default;
  HandedOver& operator=(HandedOver&&) = delete;
  ~HandedOver();

  uint64_t place() const;
  const Buffer& buffer() const { return *buffer_; }

 private:
  explicit HandedOver(BufferRef buffer) : buffer_(std::move(buffer)) {}

  BufferRef buffer_;
};

// The device that others know by this name; InvalidArgument, in words, where it is none of ours.
absl::StatusOr<Device*> find_device(Exchange::Name name);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_EXCHANGE_H_
