// Host callbacks of C++.
#include "lazy/effects.h"

#include <cstring>
#include <iostream>
#include <memory>

#include "hlo/custom_call.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/passes/checks.h"
#include "lazy/api/callbacks.h"
#include "lazy/api/flat.h"
#include "lazy/axes.h"
#include "lazy/scopes.h"

namespace lamina {
namespace {

using detail::fail;
using detail::FlatFunction;
using hlo::Attr;

absl::Status call_cpp(std::span<const hlo::LiteralPtr> in,
                      std::span<const std::shared_ptr<hlo::Literal>> out);

// The functions that programs call, by the number in their operand.
struct Callbacks {
  Callbacks() {
    for (const std::string_view target : {hlo::kCppTarget, hlo::kCppCheckTarget, hlo::kCppFailedTarget})
      lazy::check(hlo::register_custom_call(std::string(target), call_cpp));
  }
  hlo::Mutex mutex{hlo::LockRank::kCallbacks};
  uint64_t last = 0;
  HashMap<uint64_t, FlatFunction> functions;
};
Callbacks& callbacks() {
  static constinit hlo::Once<Callbacks> table;
  return table.get();
}

std::optional<FlatFunction> find_callback(uint64_t number) {
  Callbacks& all = callbacks();
  std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(number);
  return found == all.functions.end() ? std::nullopt : std::optional(found->second);
}

// Runs the function that the first operand stands for; what it computes is no part of what is being recorded
// around the run.
absl::Status call_cpp(std::span<const hlo::LiteralPtr> in,
                      std::span<const std::shared_ptr<hlo::Literal>> out) {
  const std::optional<FlatFunction> f = find_callback(static_cast<uint64_t>(in[0]->int_at(0)));
  if (!f) return absl::NotFoundError("a host callback was deleted before its program");
  const lazy::ScopesSuspended scopes(0, 0);
  const lazy::AxesScope axes({});
  const lazy::TokenScope effects{hlo::Value()};
  const detail::ServingScope users_code(false);
  std::vector<Tensor> arguments;
  for (const hlo::LiteralPtr& l : in.subspan(1))
    arguments.push_back(detail::tensor_of(lazy::from_host(l->dtype(), l->dims(), l->data())));
  const std::vector<Tensor> results = (*f)(arguments);
  if (results.size() != out.size())
    fail(ErrorKind::kType, str_cat("the callback returned ", static_cast<int64_t>(results.size()),
                                   " tensors where ", static_cast<int64_t>(out.size()), " were described"));
  for (size_t i = 0; i < out.size(); ++i) {
    const hlo::Type& wanted = *out[i]->type();
    const Tensor given =
        results[i].weakly_typed() ? results[i].astype(detail::from_hlo(wanted.dtype)) : results[i];
    const lazy::Lazy& x = detail::lazy_of(given);
    if (x.value.type() != &wanted)
      fail(ErrorKind::kType,
           str_cat("the callback returned ", detail::describe(x), " as result ", static_cast<int64_t>(i),
                   " where ", hlo::to_string(wanted), " was described"));
    const jit::ArrayPtr array = lazy::array(x.value);
    if (out[i]->bytes() > 0) std::memcpy(out[i]->data(), lazy::host_bytes(*array), out[i]->bytes());
  }
  return absl::OkStatus();
}

const char* method_of(CallbackLanes lanes) {
  return lanes == CallbackLanes::kExpanded ? "expand_dims" : "broadcast_all";
}

}  // namespace

namespace detail {

// Its number, in a buffer that takes it out of the table.
lazy::Lazy callback_operand(FlatFunction f) {
  Callbacks& all = callbacks();
  auto number = std::make_unique<uint64_t>();
  {
    std::lock_guard lock(all.mutex);
    *number = ++all.last;
    all.functions.try_emplace(*number, std::move(f));
  }
  uint64_t* const data = number.release();
  const auto release = [data] {
    Callbacks& table = callbacks();
    std::optional<FlatFunction> dropped;  // what it holds is let go of outside the lock
    {
      std::lock_guard lock(table.mutex);
      const auto found = table.functions.find(*data);
      dropped = std::move(found->second);
      table.functions.erase(found);
    }
    delete data;
  };
  return {lazy::from_foreign(hlo::DType::kU64, {}, data, release), false};
}

std::string filled(const char* what, const std::string& format, const std::vector<std::string>& texts) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i], after = i + 1 < format.size() ? format[i + 1] : '\0';
    if ((c == '{' || c == '}') && after == c) {
      out += c;
      ++i;
    } else if (c == '{' && after == '}') {
      if (next < texts.size()) out += texts[next];
      ++next;
      ++i;
    } else if (c == '{' || c == '}') {
      fail(ErrorKind::kValue, str_cat(what, ": '", format, "' has a brace that is neither {} nor doubled"));
    } else {
      out += c;
    }
  }
  if (next != texts.size())
    fail(ErrorKind::kValue, str_cat(what, ": '", format, "' has ", static_cast<int64_t>(next), " places for ",
                                    static_cast<int64_t>(texts.size()), " values"));
  return out;
}

std::vector<Tensor> flat_callback(FlatFunction f, const std::vector<Tensor>& arguments,
                                  const std::vector<Tensor>& like, bool effect, CallbackLanes lanes,
                                  std::source_location where) {
  return located(where, [&] {
    std::vector<const hlo::Type*> types;
    if (effect) types.push_back(lazy::token_of_effects());
    for (const Tensor& t : like) types.push_back(lazy_of(t).value.type());
    if (effect) {
      // Its token goes through.
      f = [run = std::move(f)](const std::vector<Tensor>& in) {
        std::vector<Tensor> out{in.at(0)};
        for (Tensor& t : run(std::vector<Tensor>(in.begin() + 1, in.end()))) out.push_back(std::move(t));
        return out;
      };
    }
    std::vector<lazy::Lazy> operands{callback_operand(std::move(f))};
    for (const Tensor& t : arguments) operands.push_back(strong(lazy_of(t)));
    std::vector<hlo::Attrs::Entry> attrs{{Attr::call_target_name, std::string(hlo::kCppTarget)},
                                         {Attr::result_types, std::move(types)}};
    if (effect) {
      attrs.emplace_back(Attr::has_side_effect, true);
      return tensors(lazy::record_effect(std::move(operands), hlo::intern_attrs(std::move(attrs))));
    }
    if (lanes != CallbackLanes::kOneByOne)
      attrs.emplace_back(Attr::vmap_method, std::string(method_of(lanes)));
    return tensors(lazy::record(hlo::Op::custom_call, operands, hlo::intern_attrs(std::move(attrs))));
  });
}

void flat_print(std::string format, const std::vector<Tensor>& arguments, std::source_location where) {
  located(where, [&] {
    filled("debug_print", format,
           std::vector<std::string>(arguments.size()));  // whether it fits is known now
    return 0;
  });
  const FlatFunction print = [format = std::move(format)](const std::vector<Tensor>& values) {
    std::vector<std::string> texts;
    for (const Tensor& t : values) texts.push_back(elements_text(t, 0));
    std::cout << filled("debug_print", format, texts) + '\n' << std::flush;
    return std::vector<Tensor>();
  };
  flat_callback(print, arguments, {}, true, CallbackLanes::kOneByOne, where);
}

void run_effects() { lazy::run_effects(); }

}  // namespace detail

}  // namespace lamina
