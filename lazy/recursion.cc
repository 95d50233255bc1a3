#include "lazy/recursion.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <set>

#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::lazy {
namespace {

// Types can take a few others, one after the other, each beside a call inside.
constexpr int kRounds = 16;

const Typed kError{hlo::scalar_type(DType::kS32), false};
Lazy no_error() {
  hlo::Builder b;
  Lazy out{b.scalar_int(DType::kS32, 0), false};
  check(b.status());
  return out;
}

class Recursion;
// Those that this thread traces, from the outermost to the innermost.
std::vector<Recursion*>& open_recursions() {
  static thread_local std::vector<Recursion*> open;
  return open;
}

class Recursion {
 public:
  Recursion(const ControlNames& names, const RecursiveBody& body, std::vector<Lazy> given)
      : names_(names), body_(body), given_(std::move(given)) {
    for (const Lazy& x : given_) arguments_.push_back(typed(x));
    open_recursions().push_back(this);
    number_ = static_cast<int64_t>(open_recursions().size());
  }
  ~Recursion() { open_recursions().pop_back(); }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;

  int64_t round() const { return round_; }
  std::vector<Lazy> run(int64_t deepest) {
    find_types();
    const std::vector<Typed> all = with_error(*results_);
    std::vector<Lazy> operands = in_types(given_);
    std::vector<trace::RecursiveFunction> functions{{number_, region_, arguments_.size()}};
    functions.insert(functions.end(), members_.begin(), members_.end());
    if (open_recursions().size() == 1) {
      operands.insert(operands.end(), captured_.begin(), captured_.end());
      return recursion(functions, operands, all, deepest, 1);
    }
    // Within another: a function of the same loop, which it may call back to.
    Recursion& around = **(open_recursions().end() - 2);
    std::copy_if(outer_.begin(), outer_.end(), std::inserter(around.outer_, around.outer_.end()),
                 [&](const Recursion* r) { return r != &around; });
    around.members_.insert(around.members_.end(), functions.begin(), functions.end());
    operands.push_back(no_error());
    operands.insert(operands.end(), captured_.begin(), captured_.end());
    std::vector<Lazy> out = recursive_call(number_, operands, all);
    out.back() = no_error();
    return out;
  }

 private:
  static std::vector<Typed> with_error(std::vector<Typed> types) {
    types.push_back(kError);
    return types;
  }

  void find_types() {
    for (int round = 0; round < kRounds; ++round) {
      outer_.clear();
      members_.clear();
      const std::vector<Typed> before = arguments_;
      const std::vector<Typed> made = traced();
      if (results_) check_results(made);
      const bool settled = results_ && *results_ == made && arguments_ == before;
      results_ = made;
      if (settled) return;
    }
    throw Error(
        ErrorKind::kType,
        str_cat(names_.what, ": the types of what the function takes and gives change in every round"));
  }

  // Types of the results of the body, which becomes the region.
  std::vector<Typed> traced() {
    static std::atomic<int64_t> rounds{0};
    round_ = ++rounds;
    captured_.clear();
    const FlatFunction self = [this](const std::vector<Lazy>& x) { return call(x); };
    std::vector<Typed> made;
    try {
      region_ = lazy::region(
          [&](const std::vector<Lazy>& parameters) {
            std::vector<Lazy> out = body_(self, parameters);
            out.push_back(no_error());
            return out;
          },
          arguments_, &captured_, &made);
    } catch (const NoResultYet&) {
      if (!outer_.empty()) throw;
      throw Error(ErrorKind::kValue,
                  str_cat(names_.what,
                          ": the function calls itself on every path; there is none on which it "
                          "returns without: return a value in a branch of a cond before the call"));
    }
    made.pop_back();
    return made;
  }

  void check_results(const std::vector<Typed>& made) const {
    for (size_t i = 0; i < std::max(made.size(), results_->size()); ++i) {
      const std::string a = i < results_->size() ? text((*results_)[i]) : "nothing",
                        b = i < made.size() ? text(made[i]) : "nothing";
      if (i < made.size() && i < results_->size() && made[i].type->dims == (*results_)[i].type->dims)
        continue;
      throw Error(ErrorKind::kType, str_cat(names_.what, ": result ", static_cast<int64_t>(i), " is ", a,
                                            " on one path and ", b, " on another"));
    }
  }

  // A call of itself.
  std::vector<Lazy> call(const std::vector<Lazy>& given) {
    const std::vector<Recursion*>& open = open_recursions();
    const auto mine = std::find(open.begin(), open.end(), this);
    std::for_each(mine + 1, open.end(), [&](Recursion* inside) { inside->outer_.insert(this); });
    take_types(given);
    if (!results_) throw NoResultYet();
    std::vector<Lazy> operands = in_types(given);
    operands.push_back(no_error());
    std::vector<Lazy> out = recursive_call(number_, operands, with_error(*results_));
    out.pop_back();
    return out;
  }

  void take_types(const std::vector<Lazy>& given) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      Typed& now = arguments_[i];
      const Typed t = typed(given.at(i));
      if (t.type->dims != now.type->dims)
        throw Error(ErrorKind::kType,
                    str_cat(names_.what, ": ", names_.leaf(i), " is ", text(now), " in one call and ",
                            text(t), " in another; arguments keep their shapes"));
      const PromotedType p = promote(now.type->dtype, now.weak, t.type->dtype, t.weak);
      now = {hlo::array_type_or_die(p.dtype, now.type->dims), p.weak};
    }
  }

  std::vector<Lazy> in_types(const std::vector<Lazy>& given) const {
    hlo::Builder b;
    std::vector<Lazy> out;
    for (size_t i = 0; i < given.size(); ++i) {
      const Typed& t = arguments_[i];
      const Lazy& x = given[i];
      if (typed(x) == t)
        out.push_back(x);
      else if (t.weak)
        out.push_back(recast(b, x, t.type->dtype));
      else
        out.push_back({converted(b, x, t.type->dtype), false});
    }
    check(b.status());
    return out;
  }

  const ControlNames& names_;
  const RecursiveBody& body_;
  const std::vector<Lazy> given_;
  int64_t number_, round_ = 0;
  std::vector<Typed> arguments_;
  std::optional<std::vector<Typed>> results_;
  hlo::ComputationPtr region_;
  std::vector<Lazy> captured_;
  std::set<Recursion*> outer_;                     // those around it that are called from inside
  std::vector<trace::RecursiveFunction> members_;  // those inside
};

}  // namespace

int64_t recursion_key() { return open_recursions().empty() ? 0 : open_recursions().back()->round(); }

std::vector<Lazy> recursive(const ControlNames& arguments, const RecursiveBody& body, std::vector<Lazy> given,
                            int64_t deepest) {
  if (deepest < 1)
    throw Error(ErrorKind::kValue,
                str_cat(arguments.what, ": a depth is a number of calls, at least 1, not ", deepest));
  return Recursion(arguments, body, std::move(given)).run(deepest);
}

}  // namespace lamina::lazy
