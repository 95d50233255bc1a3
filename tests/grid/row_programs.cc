#include "tests/grid/row_programs.h"

namespace lamina::grid {

using hlo::Value;

std::vector<RowProgram> row_programs(hlo::DType type, const hlo::Dims& dims) {
  hlo::Builder b;
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  hlo::Dims others;
  for (int64_t d = 0; d < last; ++d) others.push_back(d);
  const auto parameter = [&](const hlo::Dims& of) { return hlo::make_parameter(*hlo::array_type(type, of)); };
  const auto spread = [&](const Value& row) { return b.broadcast_in_dim(row, dims, others); };
  const auto along = [&](const Value& v) { return b.broadcast_in_dim(v, dims, {{last}}); };
  const auto sum = [&](const Value& v) { return b.reduce_sum(v, {{last}}); };
  const auto mean = [&](const Value& v) {
    const Value s = sum(v);
    return b.divide(s, b.full_like(s, static_cast<double>(dims.back())));
  };
  const Value x = parameter(dims), slope = parameter(dims), scale = parameter({dims.back()});
  std::vector<RowProgram> out;
  const auto add = [&](const char* name, const std::vector<Value>& in, const Value& result, int arrays) {
    out.push_back({name, *hlo::Computation::make(in, {{result}}), arrays, 1});
  };

  const Value top = b.reduce(x, hlo::Op::maximum, b.scalar(type, -1e30), {{last}});
  const Value shifted = b.subtract(x, spread(top)), e = b.exponential(shifted), total = sum(e);
  const Value softmax = b.divide(e, spread(total));
  add("softmax", {x}, softmax, 1);
  add("log_softmax", {x}, b.subtract(shifted, spread(b.log(total))), 1);
  add("logsumexp and its map", {x}, b.subtract(x, spread(b.add(b.log(total), top))), 1);
  add("gradient of softmax", {x, slope},
      b.multiply(softmax, b.subtract(slope, spread(sum(b.multiply(slope, softmax))))), 2);
  add("gradient of log_softmax", {x, slope}, b.subtract(slope, b.multiply(softmax, spread(sum(slope)))), 2);

  const Value centred = b.subtract(x, spread(mean(x)));
  const Value variance = mean(b.multiply(centred, centred));
  const Value factor = b.rsqrt(b.add(variance, b.full_like(variance, 1e-5)));
  const Value normal = b.multiply(centred, spread(factor));
  add("layer norm", {x, scale}, b.multiply(normal, along(scale)), 1);
  const Value scaled = b.multiply(slope, along(scale));
  const Value tilt = b.subtract(b.subtract(scaled, spread(mean(scaled))),
                                b.multiply(normal, spread(mean(b.multiply(scaled, normal)))));
  add("gradient of layer norm", {x, slope, scale}, b.multiply(tilt, spread(factor)), 2);
  return out;
}

}  // namespace lamina::grid
