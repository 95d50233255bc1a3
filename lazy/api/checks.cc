// Checks of C++ programs, and what they tell.
#include "hlo/passes/checks.h"

#include <deque>
#include <utility>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "lamina/checks.h"
#include "lamina/ops.h"
#include "lazy/api/callbacks.h"
#include "lazy/api/index_checks.h"
#include "lazy/checkify.h"
#include "lazy/effects.h"
#include "lazy/nan_check.h"

namespace lamina::detail {
namespace {

using hlo::Attr;

// What failed, by number, above 0. Messages without values are kept, of those with values the last ones.
class Messages {
 public:
  // Of a message without values: always the same.
  int32_t number(const std::string& text) {
    std::lock_guard lock(mutex_);
    int32_t& known = numbers_.try_emplace(text, 0).first->second;
    if (known == 0) texts_.try_emplace(known = ++last_, text);
    return known;
  }
  int32_t failed(std::string text) {
    std::lock_guard lock(mutex_);
    texts_.try_emplace(++last_, std::move(text));
    with_values_.push_back(last_);
    if (with_values_.size() > kKept) {
      texts_.erase(with_values_.front());
      with_values_.pop_front();
    }
    return last_;
  }
  std::string text(int32_t number) {
    std::lock_guard lock(mutex_);
    const auto found = texts_.find(number);
    return found == texts_.end() ? "a check failed, too long ago for its message to be kept" : found->second;
  }

 private:
  static constexpr size_t kKept = 4096;
  hlo::Mutex mutex_{hlo::LockRank::kCallbacks};
  int32_t last_ = 0;
  HashMap<std::string, int32_t> numbers_;
  HashMap<int32_t, std::string> texts_;
  std::deque<int32_t> with_values_;
};
Messages& messages() {
  static constinit hlo::Once<Messages> all;
  return all.get();
}

std::string place(const std::source_location& where) {
  return str_cat(" (`check` failed at ", where.file_name(), ":", static_cast<int64_t>(where.line()), ")");
}

std::string with_values(const std::string& message, const Tensor* first, size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(elements_text(first[i], 0));
  return filled("check", message, texts);
}

}  // namespace

bool& checking_indices() {
  thread_local bool on = false;
  return on;
}

namespace {

void record_check(const Tensor& holds, std::string message, const std::vector<Tensor>& values, ErrorKind kind,
                  std::source_location where) {
  located(where, [&] {
    if (holds.ndim() != 0)
      fail(ErrorKind::kType,
           str_cat("check takes a scalar, not ", describe(lazy_of(holds)), "; use all() of it"));
    const size_t count = values.size();
    filled("check", message, std::vector<std::string>(count));  // whether it fits is known now
    const int32_t number =
        messages().number(str_cat(count ? message : with_values(message, nullptr, 0), place(where)));
    // As part of a result it gets the values, and gives the number of what they say; else a token, whether it
    // holds, and the values.
    FlatFunction run = [message = std::move(message), count, kind, where](const std::vector<Tensor>& in) {
      if (in.size() == count)
        return std::vector<Tensor>{
            Tensor(messages().failed(with_values(message, in.data(), count) + place(where)))};
      if (!in.at(1).item<bool>()) throw PlacedError(kind, with_values(message, in.data() + 2, count), where);
      return std::vector<Tensor>{in.at(0)};
    };
    const Tensor truth = holds.dtype() == DType::boolean ? holds : holds != 0;
    std::vector<lazy::Lazy> operands{callback_operand(std::move(run)), strong(lazy_of(truth))};
    for (const Tensor& t : values) operands.push_back(strong(lazy_of(t)));
    lazy::record_effect(
        std::move(operands),
        hlo::intern_attrs({{Attr::call_target_name, std::string(hlo::kCppCheckTarget)},
                           {Attr::has_side_effect, true},
                           {Attr::result_types, std::vector<const hlo::Type*>{lazy::token_of_effects()}},
                           {Attr::index, static_cast<int64_t>(number)}}));
    return 0;
  });
}

}  // namespace

void flat_check(const Tensor& holds, std::string message, const std::vector<Tensor>& values,
                std::source_location where) {
  record_check(holds, std::move(message), values, ErrorKind::kValue, where);
}

void check_index(const Tensor& at, int64_t size, int64_t axis, const std::source_location& where) {
  const Tensor all = at.astype(DType::int64), low = min(all), high = max(all);
  record_check((low >= -size) & (high < size),
               str_cat("index {} is out of bounds for axis ", axis, " with size ", size),
               {lamina::where(high >= size, high, low)}, ErrorKind::kIndex, where);
}

std::vector<Tensor> flat_checked(const FlatFunction& f, const std::vector<Tensor>& arguments, bool user,
                                 bool nan, bool division, bool index, std::source_location where) {
  return located(where, [&] {
    const ChecksScope indices({.nan = lazy::nan_checks(), .index = checking_indices() || index});
    const lazy::Checks checks{user, nan, division, [](const std::string& what, const std::string& at) {
                                const std::string text =
                                    what == "nan" ? "a NaN from " : "a division by zero in ";
                                return static_cast<int64_t>(messages().number(text + at));
                              }};
    return tensors(lazy::checked(inner(f), lazies(arguments), checks));
  });
}

std::string check_messages(const Tensor& numbers) {
  const std::vector<int32_t> all = numbers.to_host<int32_t>();
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == 0) continue;
    if (numbers.ndim() == 0) return messages().text(all[i]);
    std::string at;
    int64_t rest = static_cast<int64_t>(i);
    for (auto size = numbers.shape().rbegin(); size != numbers.shape().rend(); rest /= *size++)
      at = str_cat(rest % *size, at.empty() ? "" : ", ", at);
    str_append(&out, out.empty() ? "" : "\n", "at mapped index ", at, ": ", messages().text(all[i]));
  }
  return out;
}

}  // namespace lamina::detail

namespace lamina {

ChecksScope::ChecksScope(Checks checks)
    : saved_{std::exchange(lazy::nan_checks(), checks.nan),
             std::exchange(detail::checking_indices(), checks.index)} {}
ChecksScope::~ChecksScope() {
  lazy::nan_checks() = saved_.nan;
  detail::checking_indices() = saved_.index;
}

}  // namespace lamina
