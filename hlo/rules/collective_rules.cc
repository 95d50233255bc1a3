// Collectives: what the lanes of a named axis exchange (see ops.def).
//
// The vmap of the axis replaces them (trace/rules/collective.cc); without a vmap (or a mesh) there is no
// value.
#include <algorithm>

#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

constexpr std::string_view kReductions[] = {"add", "maximum", "minimum"};

int64_t group_size(const Attrs& a) {
  const int64_t size = a.integer(Attr::group_size);
  return size == 0 ? a.integer(Attr::axis_size) : size;
}

// --- types ---

absl::Status check_collective(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t[1] != scalar_type(DType::kS32)) return invalid("the lane must be s32[], not ", to_string(*t[1]));
  if (a.string(Attr::axis_name).empty()) return invalid("names no axis");
  const int64_t n = a.integer(Attr::axis_size), g = a.integer(Attr::group_size);
  if (n < 0) return invalid("axis_size ", n, " is negative");
  const Dims& groups = a.ints(Attr::replica_groups);
  if (groups.empty() != (g == 0) || g < 0) return invalid("replica_groups and group_size belong together");
  if (groups.empty()) return absl::OkStatus();
  LAMINA_RETURN_IF_ERROR(check_length("replica_groups", groups, n));
  LAMINA_RETURN_IF_ERROR(check_dims("replica_groups", groups, n));
  if (n % g != 0) return invalid("groups of ", g, " lanes do not divide an axis of ", n);
  return absl::OkStatus();
}

absl::Status check_exchanged(std::string_view what, const Type* t, int64_t d, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_dims(what, std::span(&d, 1), t->rank()));
  if (t->dims[d] != group_size(a))
    return invalid(what, " ", d, " of size ", t->dims[d], " must have one element for each of ",
                   group_size(a), " lanes of axis '", a.string(Attr::axis_name), "'");
  return absl::OkStatus();
}

TypeOr all_reduce_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_collective(t, a));
  const std::string& kind = a.string(Attr::reduction);
  if (std::find(std::begin(kReductions), std::end(kReductions), kind) == std::end(kReductions))
    return invalid("reduction is add, maximum or minimum, not '", kind, "'");
  return t[0];
}

TypeOr all_gather_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_collective(t, a));
  const int64_t d = a.integer(Attr::dimension);
  LAMINA_RETURN_IF_ERROR(check_dims("dimension", std::span(&d, 1), t[0]->rank() + 1));
  Dims out = t[0]->dims;
  out.insert(out.begin() + d, group_size(a));
  return array_type(t[0]->dtype, out);
}

TypeOr reduce_scatter_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_collective(t, a));
  const int64_t d = a.integer(Attr::dimension);
  LAMINA_RETURN_IF_ERROR(check_exchanged("dimension", t[0], d, a));
  Dims out = t[0]->dims;
  out.erase(out.begin() + d);
  return array_type(t[0]->dtype, out);
}

TypeOr all_to_all_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_collective(t, a));
  const int64_t split = a.integer(Attr::split_dimension), concat = a.integer(Attr::concat_dimension);
  LAMINA_RETURN_IF_ERROR(check_exchanged("split_dimension", t[0], split, a));
  LAMINA_RETURN_IF_ERROR(check_dims("concat_dimension", std::span(&concat, 1), t[0]->rank()));
  Dims out = t[0]->dims;
  out.erase(out.begin() + split);
  out.insert(out.begin() + concat, group_size(a));
  return array_type(t[0]->dtype, out);
}

TypeOr permute_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_collective(t, a));
  const Dims& sources = a.ints(Attr::sources);
  const int64_t n = a.integer(Attr::axis_size);
  LAMINA_RETURN_IF_ERROR(check_length("sources", sources, n));
  Dims given;
  for (int64_t s : sources)
    if (s != -1) given.push_back(s);
  LAMINA_RETURN_IF_ERROR(check_dims("sources", given, n));
  return t[0];
}

absl::Status eval_collective(const Node& node, EvalIn, EvalOut) {
  return absl::FailedPreconditionError(str_cat(node.def().name, " over the axis '",
                                               node.attrs().string(Attr::axis_name),
                                               "' has a value only within the vmap that has this axis_name"));
}

}  // namespace

void add_collective_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type) {
    table[op].type = type;
    table[op].eval = eval_collective;
  };
  row(Op::all_gather, all_gather_type);
  row(Op::all_reduce, all_reduce_type);
  row(Op::all_to_all, all_to_all_type);
  row(Op::collective_permute, permute_type);
  row(Op::reduce_scatter, reduce_scatter_type);
}

}  // namespace lamina::hlo
