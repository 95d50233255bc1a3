!q = !quant.uniform<i8<-127:127>:f32, 5.000000e-01:3>
func.func @main(%a: tensor<2x3x!q>, %w: tensor<3x2x!quant.uniform<i8:f32:1, {0.25, 2.0}>>) -> tensor<2x2x!q> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<2x3x!q>, tensor<3x2x!quant.uniform<i8:f32:1, {0.25, 2.0}>>) -> tensor<2x2x!q>
  %1 = stablehlo.tanh %0 : tensor<2x2x!q>
  return %1 : tensor<2x2x!q>
}
