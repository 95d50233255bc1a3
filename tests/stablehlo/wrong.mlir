// The second claim does not hold, so lamina-run fails.
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.multiply %x, %x : tensor<2xf32>
  check.expect_eq_const %y, dense<[1.0, 4.0]> : tensor<2xf32>
  check.expect_almost_eq_const %y, dense<[1.0, 4.1]> : tensor<2xf32>
  return
}
