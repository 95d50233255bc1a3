#include "lazy/control.h"

#include <algorithm>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/effects.h"
#include "lazy/location_text.h"
#include "trace/rules/loops.h"

namespace lamina::lazy {
namespace {

using hlo::Attr;

std::string text(const Lazy& x) { return lazy::text(typed(x)); }

// What an op of regions that `make` records gives, whose operands and results are carriers.
template <typename Make>
std::vector<Lazy> carried(const std::vector<Lazy>& operands, std::span<const Typed> results,
                          const Make& make) {
  hlo::GraphLock lock;
  hlo::Builder b;
  hlo::Values given;
  for (const Lazy& x : operands) given.push_back(carrier(b, x));
  check(b.status());
  hlo::Values made = make(b, given);
  check(b.status());
  note_recorded();
  std::vector<Lazy> out;
  for (size_t i = 0; i < made.size(); ++i)
    out.push_back(from_carrier(b, std::move(made[i]), results[i].type->dtype, results[i].weak));
  check(b.status());
  return out;
}
std::vector<Lazy> record_carried(hlo::Op op, const std::vector<Lazy>& operands,
                                 std::span<const Typed> results, const hlo::Attrs* attrs) {
  return carried(operands, results, [&](hlo::Builder& b, std::span<const Value> given) {
    return b.make_multi(op, given, attrs);
  });
}

// A number in the strong type that is wanted, if it takes that beside an array.
Lazy taking(hlo::Builder& b, Lazy x, const Typed& wanted) {
  if (wanted.weak || !x.weak) return x;
  const DType dtype = wanted.type->dtype;
  if (promote(x.value.dtype(), true, dtype, false).dtype != dtype) return x;
  return {converted(b, x, dtype), false};
}

// A function traced as a region.
struct Body {
  hlo::ComputationPtr region;
  std::vector<Lazy> captured;
  std::vector<Typed> results;
  std::vector<hlo::LocationId> made;  // where the results were
  bool effects = false;  // the region takes a token behind the types, and gives one behind the results

  // `wanted` are types of the first results, which numbers take where they can.
  Body(const FlatFunction& f, const std::vector<Typed>& types, std::span<const Typed> wanted = {}) {
    region = lazy::region(
        [&](const std::vector<Lazy>& parameters) {
          std::vector<Lazy> out = f(parameters);
          hlo::Builder b;
          made.clear();
          for (const Lazy& x : out) made.push_back(x.value.node()->location());
          for (size_t i = 0; i < std::min(out.size(), wanted.size()); ++i)
            out[i] = taking(b, std::move(out[i]), wanted[i]);
          check(b.status());
          return out;
        },
        types, &captured, &results, true, &effects);
  }
  // On operands of the types, then the captured values.
  std::vector<Lazy> call(std::vector<Lazy> operands) const {
    if (!effects) return call_region(region, std::move(operands), results);
    operands.insert(operands.end() - static_cast<ptrdiff_t>(captured.size()), {last_token(), false});
    std::vector<Typed> all = results;
    all.push_back({token_of_effects(), false});
    std::vector<Lazy> out = call_region(region, std::move(operands), all, true);
    waiting_token() = out.back().value;
    out.pop_back();
    return out;
  }
};

// f's results, then the token after its effects, which begin with `token`.
std::vector<Lazy> with_token(const Lazy& token, const std::function<std::vector<Lazy>()>& f) {
  const TokenScope tokens(token.value);
  std::vector<Lazy> out = f();
  out.push_back({tokens.token(), false});
  return out;
}

// Takes the token that an op of regions gave.
void take_token(std::vector<Lazy>& results, size_t at) {
  waiting_token() = results[at].value;
  results.erase(results.begin() + static_cast<ptrdiff_t>(at));
}

void append_types(std::vector<Typed>* types, const std::vector<Lazy>& values) {
  for (const Lazy& v : values) types->push_back({v.value.type(), v.weak});
}

template <typename T>
std::vector<T> part(const std::vector<T>& all, size_t first, size_t last) {
  return {all.begin() + static_cast<int64_t>(first), all.begin() + static_cast<int64_t>(last)};
}
template <typename T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Numbers of the carry that come out with another element type, converted to it; whether there are any.
bool settle(std::vector<Lazy>& carry, const Body& body) {
  hlo::Builder b;
  bool changed = false;
  for (size_t i = 0; i < std::min(carry.size(), body.results.size()); ++i) {
    Lazy& x = carry[i];
    const Typed& out = body.results[i];
    const DType dtype = out.type->dtype;
    if (!x.weak || (x.value.dtype() == dtype && out.weak) || x.value.dims() != out.type->dims) continue;
    if (promote(x.value.dtype(), true, dtype, out.weak).dtype != dtype) continue;
    x = out.weak ? recast(b, x, dtype) : Lazy{converted(b, x, dtype), false};
    changed = true;
  }
  check(b.status());
  return changed;
}

// The body of a loop whose first parameters and results are the carry; its numbers take their types.
Body loop_body(const ControlNames& names, const Named& step, std::vector<Lazy>& carry,
               const std::vector<Typed>& slices) {
  auto traced = [&] {
    const std::vector<Typed> types = types_of(carry);
    return Body(step.f, joined(types, slices), types);
  };
  Body body = traced();
  // A leaf may take the type of one that has taken another: each round decides one at least.
  for (size_t i = 0; i <= carry.size() && settle(carry, body); ++i) body = traced();
  std::string wrong;
  for (size_t i = 0; i < carry.size(); ++i) {
    const std::string out = i < body.results.size() ? text(body.results[i]) : "nothing";
    if (i >= body.results.size() || body.results[i].type != carry[i].value.type())
      str_append(&wrong, wrong.empty() ? "" : "; ", "carry", names.leaf(i), " is ", text(carry[i]),
                 " going in but ", out, " coming out",
                 i < body.made.size() ? location_text(body.made[i]) : "");
  }
  if (!wrong.empty())
    throw Error(ErrorKind::kType, str_cat(names.what, ": ", step.name,
                                          " must return a carry of the type it was given: ", wrong));
  return body;
}

int64_t scan_length(const std::string& what, const std::vector<Lazy>& items, const LeafName& name,
                    std::optional<int64_t> length) {
  std::vector<std::pair<int64_t, std::string>> lengths;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].value.rank() == 0)
      throw Error(ErrorKind::kValue,
                  str_cat(what, " scans over axis 0, but xs", name(i), " is the scalar ", text(items[i])));
    const int64_t n = items[i].value.dims()[0];
    if (std::none_of(lengths.begin(), lengths.end(), [n](const auto& l) { return l.first == n; }))
      lengths.emplace_back(n, str_cat("xs", name(i), " ", text(items[i])));
  }
  if (lengths.size() > 1) {
    std::string all;
    for (const auto& [n, leaf] : lengths) str_append(&all, all.empty() ? "" : "; ", "length ", n, ": ", leaf);
    throw Error(ErrorKind::kValue, str_cat(what, " needs xs of one length along axis 0, but got ", all));
  }
  if (!length) {
    if (lengths.empty())
      throw Error(ErrorKind::kValue, str_cat(what, " needs `length` where xs holds no arrays"));
    return lengths[0].first;
  }
  if (*length < 0) throw Error(ErrorKind::kValue, str_cat(what, ": length ", *length, " is negative"));
  if (!lengths.empty() && lengths[0].first != *length)
    throw Error(ErrorKind::kValue, str_cat(what, ": length=", *length, " does not fit ", lengths[0].second,
                                           " of length ", lengths[0].first));
  return *length;
}

// A scalar of this element type.
Lazy integer(DType dtype, int64_t value) {
  return {number(dtype, hlo::Literal::scalar_int(dtype, value)->data()), false};
}

void need_integer_scalar(const std::string& what, std::string_view as, const Lazy& x) {
  if (x.value.rank() != 0 || !hlo::is_integer(x.value.dtype()))
    throw Error(ErrorKind::kType, str_cat(what, " needs ", as, ", not ", text(x)));
}

// The leaves' types of all branches, where weak ones follow the strong ones.
std::vector<Typed> common_types(const ControlNames& names, const std::vector<Body>& bodies,
                                const std::vector<Named>& branches) {
  std::vector<Typed> common = bodies[0].results;
  for (size_t j = 1; j < bodies.size(); ++j) {
    const std::vector<Typed>& others = bodies[j].results;
    if (others.size() != common.size())
      throw Error(ErrorKind::kType, str_cat(names.what, ": ", branches[0].name, " returns ", common.size(),
                                            " arrays and ", branches[j].name, " ", others.size()));
    for (size_t k = 0; k < common.size(); ++k) {
      const DType dtype = common[k].type->dtype, other = others[k].type->dtype;
      const PromotedType both = dtype == other || common[k].weak || others[k].weak
                                    ? promote(dtype, common[k].weak, other, others[k].weak)
                                    : PromotedType{};
      const bool fits = dtype == other ||
                        ((common[k].weak || others[k].weak) && (both.dtype == dtype || both.dtype == other));
      if (common[k].type->dims != others[k].type->dims || !fits)
        throw Error(ErrorKind::kType,
                    str_cat(names.what, ": branches must return one type, but result", names.leaf(k), " is ",
                            text(bodies[0].results[k]), " from ", branches[0].name, " and ", text(others[k]),
                            " from ", branches[j].name));
      common[k] = {hlo::array_type_or_die(both.dtype, common[k].type->dims), both.weak};
    }
  }
  return common;
}

std::vector<Lazy> recorded_branch(const ControlNames& names, const Lazy& index,
                                  const std::vector<Named>& branches, const std::vector<Lazy>& operands) {
  const std::vector<Typed> types = types_of(operands);
  std::vector<Body> bodies;
  for (const Named& n : branches) bodies.emplace_back(n.f, types);
  const std::vector<Typed> common = common_types(names, bodies, branches);
  for (size_t j = 0; j < bodies.size(); ++j) {
    if (std::equal(common.begin(), common.end(), bodies[j].results.begin())) continue;
    bodies[j] = Body(
        [&](const std::vector<Lazy>& x) {
          std::vector<Lazy> out = branches[j].f(x);
          hlo::Builder b;
          for (size_t k = 0; k < out.size(); ++k) {
            const DType dtype = common[k].type->dtype;
            out[k] = common[k].weak ? recast(b, out[k], dtype) : Lazy{converted(b, out[k], dtype), false};
          }
          check(b.status());
          return out;
        },
        types);
  }
  // All branches take the operands and everything any of them captured, and a token if one has effects.
  std::vector<Lazy> captured;
  bool effects = false;
  for (const Body& body : bodies) {
    captured.insert(captured.end(), body.captured.begin(), body.captured.end());
    effects |= body.effects;
  }
  std::vector<Typed> results = common;
  if (effects) {
    captured.push_back({last_token(), false});
    results.push_back({token_of_effects(), false});
  }
  std::vector<hlo::ComputationPtr> regions;
  if (captured.empty()) {
    for (const Body& body : bodies) regions.push_back(body.region);
  } else {
    std::vector<Typed> all = types;
    append_types(&all, captured);
    size_t at = types.size();
    for (const Body& body : bodies) {
      const size_t end = at + body.captured.size();
      regions.push_back(Body(
                            [&](const std::vector<Lazy>& p) {
                              const auto call = [&] {
                                return body.call(joined(part(p, 0, types.size()), part(p, at, end)));
                              };
                              return effects ? with_token(p.back(), call) : call();
                            },
                            all)
                            .region);
      at = end;
    }
  }
  std::vector<Lazy> all{index};
  all.insert(all.end(), operands.begin(), operands.end());
  std::vector<Lazy> out = record_carried(hlo::Op::case_, joined(std::move(all), captured), results,
                                         hlo::intern_attrs({{Attr::branches, std::move(regions)}}));
  if (effects) take_token(out, common.size());
  run_effects();
  return out;
}

std::vector<Lazy> branch(const ControlNames& names, const Lazy& index, const std::vector<Named>& branches,
                         const std::vector<Lazy>& operands) {
  try {
    return recorded_branch(names, index, branches, operands);
  } catch (const NoResultYet&) {
    for (const Named& other : branches) {
      try {
        return other.f(operands);
      } catch (const NoResultYet&) {
      }
    }
    throw;
  }
}

// The carry where the body of a loop waits for results.
template <typename Loop>
std::vector<Lazy> or_carry(const std::vector<Lazy>& carry, const Loop& loop) {
  try {
    return loop();
  } catch (const NoResultYet&) {
    return carry;
  }
}

}  // namespace

std::vector<Lazy> call_region(const hlo::ComputationPtr& region, std::vector<Lazy> operands,
                              std::span<const Typed> results, bool effects) {
  if (effects)
    return record_carried(hlo::Op::call, operands, results, hlo::intern_attrs({{Attr::body, region}}));
  return carried(operands, results,
                 [&](hlo::Builder& b, std::span<const Value> given) { return b.call(region, given); });
}

std::vector<Lazy> inline_region(const hlo::ComputationPtr& region, const std::vector<Lazy>& operands,
                                std::span<const Typed> results) {
  return carried(operands, results, [&](hlo::Builder& b, std::span<const Value> given) {
    return hlo::inline_computation(b, *region, given);
  });
}

std::vector<Lazy> scan(const ControlNames& names, const Named& step, std::vector<Lazy> carry,
                       const std::vector<Lazy>& items, const LeafName& item_name,
                       std::optional<int64_t> length, bool reverse) {
  const int64_t steps = scan_length(names.what, items, item_name, length);
  std::vector<Typed> slices;
  for (const Lazy& x : items) {
    const hlo::Type* t = x.value.type();
    slices.push_back({hlo::array_type_or_die(t->dtype, std::span(t->dims).subspan(1)), x.weak});
  }
  Body body = loop_body(names, step, carry, slices);
  // Carries: the user's, the token if there are effects, and what the body captured, which stays as it is.
  const size_t n = carry.size(), mine = n + (body.effects ? 1 : 0), kept = mine + body.captured.size();
  std::vector<Typed> results = types_of(carry);
  hlo::ComputationPtr region = body.region;
  if (body.effects) {
    carry.push_back({last_token(), false});
    results.push_back({token_of_effects(), false});
  }
  if (kept > n) {
    append_types(&results, body.captured);
    region = Body(
                 [&](const std::vector<Lazy>& p) {
                   const std::vector<Lazy> unchanged = part(p, mine, kept);
                   const auto call = [&] {
                     std::vector<Lazy> inner = joined(part(p, 0, n), part(p, kept, p.size()));
                     return body.call(joined(std::move(inner), unchanged));
                   };
                   std::vector<Lazy> out = body.effects ? with_token(p[n], call) : call();
                   const std::vector<Lazy> token = part(out, out.size() - (mine - n), out.size());
                   out.resize(out.size() - token.size());
                   return joined(joined(joined(part(out, 0, n), token), unchanged), part(out, n, out.size()));
                 },
                 joined(results, slices))
                 .region;
  }
  for (size_t k = n; k < body.results.size(); ++k) {
    const hlo::Type* t = body.results[k].type;
    hlo::Dims dims{steps};
    dims.insert(dims.end(), t->dims.begin(), t->dims.end());
    results.push_back({check(hlo::array_type(t->dtype, dims)), body.results[k].weak});
  }
  std::vector<Lazy> out =
      record_carried(hlo::Op::scan, joined(joined(std::move(carry), body.captured), items), results,
                     hlo::intern_attrs({{Attr::body, std::move(region)},
                                        {Attr::num_carry, static_cast<int64_t>(kept)},
                                        {Attr::length, steps},
                                        {Attr::reverse, reverse}}));
  out.erase(out.begin() + static_cast<int64_t>(mine), out.begin() + static_cast<int64_t>(kept));
  if (body.effects) take_token(out, n);
  run_effects();
  return out;
}

std::vector<Lazy> in_batches(const std::string& what, const FlatFunction& scanned,
                             const FlatFunction& batched, const std::vector<Lazy>& items,
                             const LeafName& item_name, int64_t batch) {
  if (batch < 1) throw Error(ErrorKind::kValue, str_cat(what, ": a batch has at least 1 row, not ", batch));
  const int64_t rows = scan_length(what, items, item_name, {}), whole = rows - rows % batch;
  hlo::Builder b;
  // The carriers of `all`, which `change` gets with their dimensions.
  const auto changed = [&b](const std::vector<Lazy>& all, const auto& change) {
    std::vector<Lazy> out;
    for (const Lazy& x : all)
      out.push_back(from_carrier(b, change(carrier(b, x), x.value.dims()), x.value.dtype(), x.weak));
    check(b.status());
    return out;
  };
  const auto rows_of = [&](const std::vector<Lazy>& all, int64_t first, int64_t last) {
    return changed(all, [&](const Value& x, Dims dims) {
      Dims start(dims.size(), 0);
      start[0] = first;
      dims[0] = last;
      return b.slice(x, start, dims);
    });
  };
  std::vector<Lazy> out;
  if (whole > 0) {
    const std::vector<Lazy> cut = changed(rows_of(items, 0, whole), [&](const Value& x, Dims dims) {
      dims[0] = batch;
      dims.insert(dims.begin(), whole / batch);
      return b.reshape(x, dims);
    });
    out = changed(scanned(cut), [&](const Value& y, Dims dims) {
      dims.erase(dims.begin());
      dims[0] = whole;
      return b.reshape(y, dims);
    });
    if (whole == rows) return out;
  }
  const std::vector<Lazy> rest = batched(rows_of(items, whole, rows));
  if (whole == 0) return rest;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = from_carrier(b, b.concatenate({{carrier(b, out[i]), carrier(b, rest.at(i))}}, 0),
                          out[i].value.dtype(), out[i].weak);
  check(b.status());
  return out;
}

namespace {

// A loop whose test has effects: the test's outcome is one more carry, in front, asked for once before the
// loop and at the end of each step.
std::vector<Lazy> tested_ahead(const ControlNames& names, const Named& test, const Named& body,
                               std::vector<Lazy> carry) {
  const auto rest = [](const std::vector<Lazy>& p) { return part(p, 1, p.size()); };
  const Named known{[](const std::vector<Lazy>& p) { return part(p, 0, 1); }, test.name};
  const Named step{[&](const std::vector<Lazy>& p) {
                     const std::vector<Lazy> next = body.f(rest(p));
                     return joined(test.f(next), next);
                   },
                   body.name};
  const ControlNames inner{names.what, [&](size_t k) { return names.leaf(k - 1); }};
  return rest(while_loop(inner, known, step, joined(test.f(carry), carry)));
}

std::vector<Lazy> recorded_loop(const ControlNames& names, const Named& test, const Named& body,
                                std::vector<Lazy> carry, std::optional<int64_t> checkpoint) {
  const Body step = loop_body(names, body, carry, {});
  const std::vector<Typed> types = types_of(carry);
  const Body go(test.f, types);
  if (go.results.size() != 1 || go.results[0].type != hlo::scalar_type(DType::kBool)) {
    std::string got;
    for (const Typed& t : go.results) str_append(&got, got.empty() ? "" : ", ", text(t));
    throw Error(ErrorKind::kType, str_cat(names.what, ": ", test.name, " must return one bool scalar, not ",
                                          got.empty() ? "nothing" : got));
  }
  if (go.effects) return tested_ahead(names, test, body, std::move(carry));
  const size_t n = carry.size(), mine = n + (step.effects ? 1 : 0), first = mine + go.captured.size();
  if (step.effects) carry.push_back({last_token(), false});
  const std::vector<Lazy> operands = joined(joined(std::move(carry), go.captured), step.captured);
  const std::vector<Typed> all = types_of(operands);
  hlo::ComputationPtr test_region = go.region, body_region = step.region;
  if (operands.size() > n) {
    test_region =
        Body([&](const std::vector<Lazy>& p) { return go.call(joined(part(p, 0, n), part(p, mine, first))); },
             all)
            .region;
    body_region =
        Body(
            [&](const std::vector<Lazy>& p) {
              const auto call = [&] { return step.call(joined(part(p, 0, n), part(p, first, p.size()))); };
              return joined(step.effects ? with_token(p[n], call) : call(), part(p, mine, p.size()));
            },
            all)
            .region;
  }
  std::vector<hlo::Attrs::Entry> entries{{Attr::cond, std::move(test_region)},
                                         {Attr::body, std::move(body_region)}};
  if (checkpoint) entries.emplace_back(Attr::length, *checkpoint);
  std::vector<Lazy> out =
      record_carried(hlo::Op::while_, operands, all, hlo::intern_attrs(std::move(entries)));
  if (step.effects) take_token(out, n);
  out.resize(n);
  run_effects();
  return out;
}

}  // namespace

std::vector<Lazy> while_loop(const ControlNames& names, const Named& test, const Named& body,
                             std::vector<Lazy> carry, std::optional<int64_t> checkpoint) {
  if (checkpoint && *checkpoint < 1 && *checkpoint != trace::kRootOfSteps)
    throw Error(ErrorKind::kValue,
                str_cat(names.what, ": checkpoint is a number of states, at least 1, not ", *checkpoint));
  return or_carry(carry, [&] { return recorded_loop(names, test, body, carry, checkpoint); });
}

namespace {

// The loop as a while_loop. To the body the counter is one of the `numbers`, or an array of the bounds' type.
std::vector<Lazy> counted(const ControlNames& names, const Named& body, std::vector<Lazy> bounds,
                          bool numbers, std::vector<Lazy> carry, std::optional<int64_t> checkpoint) {
  const DType dtype = bounds[0].value.dtype();
  const Named test{
      [](const std::vector<Lazy>& p) {
        return std::vector<Lazy>{elementwise(hlo::Op::compare, {{p[0], p[1]}},
                                             hlo::intern_attrs({{Attr::direction, std::string("LT")}}))};
      },
      body.name};
  const Named step{[&](const std::vector<Lazy>& p) {
                     std::vector<Lazy> inner = p;
                     inner.erase(inner.begin() + 1);
                     inner[0].weak = numbers;
                     std::vector<Lazy> out{elementwise(hlo::Op::add, {{p[0], integer(dtype, 1)}}), p[1]};
                     return joined(std::move(out), body.f(inner));
                   },
                   body.name};
  const ControlNames inner{names.what, [&](size_t k) { return names.leaf(k - 2); }};
  std::vector<Lazy> out = while_loop(inner, test, step, joined(std::move(bounds), carry), checkpoint);
  out.erase(out.begin(), out.begin() + 2);
  return out;
}

}  // namespace

std::vector<Lazy> fori_loop(const ControlNames& names, const Named& body, int64_t lower, int64_t upper,
                            std::vector<Lazy> carry, std::optional<int64_t> checkpoint) {
  const bool narrow = lower >= INT32_MIN && upper <= INT32_MAX;
  const DType dtype = narrow ? DType::kS32 : DType::kS64;
  if (checkpoint)
    return counted(names, body, {integer(dtype, lower), integer(dtype, upper)}, true, std::move(carry),
                   checkpoint);
  const Named step{[&](const std::vector<Lazy>& p) {
                     // To the body the counter is a number, as that of a loop of the language is.
                     std::vector<Lazy> mine = p;
                     mine[0].weak = true;
                     std::vector<Lazy> out = body.f(mine);
                     out.insert(out.begin(), elementwise(hlo::Op::add, {{p[0], integer(dtype, 1)}}));
                     return out;
                   },
                   body.name};
  // The counter in front of the user's carry is not the user's.
  const ControlNames inner{names.what, [&](size_t k) { return names.leaf(k - 1); }};
  return or_carry(carry, [&] {
    std::vector<Lazy> out = scan(inner, step, joined({integer(dtype, lower)}, carry), {}, {},
                                 std::max<int64_t>(upper - lower, 0), false);
    out.erase(out.begin());
    return out;
  });
}

std::vector<Lazy> fori_loop(const ControlNames& names, const Named& body, const Lazy& lower,
                            const Lazy& upper, std::vector<Lazy> carry, std::optional<int64_t> checkpoint) {
  std::vector<Lazy> bounds{lower, upper};
  for (const Lazy& x : bounds)
    if (x.value.rank() != 0 || hlo::is_bool(x.value.dtype()) || hlo::is_complex(x.value.dtype()))
      throw Error(ErrorKind::kType, str_cat(names.what, " needs real scalars as bounds, not ", text(x)));
  const bool numbers = lower.weak && upper.weak;
  hlo::Builder b;
  promote_operands(b, bounds);
  check(b.status());
  for (Lazy& x : bounds) x = {x.value, false};
  return counted(names, body, std::move(bounds), numbers, std::move(carry), checkpoint);
}

std::vector<Lazy> switch_case(const ControlNames& names, const Lazy& index,
                              const std::vector<Named>& branches, const std::vector<Lazy>& operands) {
  need_integer_scalar(names.what, "an integer scalar as its index", index);
  if (branches.empty()) throw Error(ErrorKind::kValue, str_cat(names.what, " needs at least one branch"));
  if (branches.size() == 1) return branches[0].f(operands);
  hlo::Builder b;
  // Wide enough for any number of branches, whatever the index' type.
  const DType wide = hlo::is_signed(index.value.dtype()) ? DType::kS64 : DType::kU64;
  const Value limited =
      b.make(hlo::Op::clamp, {{b.scalar_int(wide, 0), converted(b, index, wide),
                               b.scalar_int(wide, static_cast<int64_t>(branches.size()) - 1)}});
  const Lazy chosen{b.convert(limited, DType::kS32), false};
  check(b.status());
  return branch(names, chosen, branches, operands);
}

std::vector<Lazy> cond(const ControlNames& names, const Lazy& predicate, const Named& if_true,
                       const Named& if_false, const std::vector<Lazy>& operands) {
  if (predicate.value.rank() != 0)
    throw Error(ErrorKind::kType, str_cat(names.what, " needs a scalar condition, not ", text(predicate),
                                          "; choose between arrays element by element instead"));
  hlo::Builder b;
  const Value& x = predicate.wide ? predicate.wide : predicate.value;
  const Value holds = hlo::is_bool(x.dtype()) ? x : b.compare(x, b.zeros_like(x), "NE");
  const Lazy chosen{b.convert(holds, DType::kS32), false};
  check(b.status());
  return branch(names, chosen, {if_false, if_true}, operands);
}

std::vector<Lazy> recursive_call(int64_t function, const std::vector<Lazy>& operands,
                                 std::span<const Typed> results) {
  return carried(operands, results, [&](hlo::Builder& b, std::span<const Value> given) {
    std::vector<const hlo::Type*> types;
    for (const Typed& t : results.first(results.size() - 1))
      types.push_back(hlo::array_type_or_die(carrier_type(t.type->dtype, t.weak), t.type->dims));
    return trace::recursive_call(b, function, given, types);
  });
}

std::vector<Lazy> recursion(std::span<const trace::RecursiveFunction> functions,
                            const std::vector<Lazy>& operands, std::span<const Typed> results,
                            int64_t deepest, int64_t too_deep) {
  return carried(operands, results, [&](hlo::Builder& b, std::span<const Value> given) {
    return trace::record_recursion(b, functions, given, deepest, too_deep);
  });
}

}  // namespace lamina::lazy
