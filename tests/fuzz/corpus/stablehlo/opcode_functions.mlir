module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4x6xf32>
    %1 = stablehlo.log_plus_one %0 : tensor<4x6xf32>
    %2 = stablehlo.exponential_minus_one %1 : tensor<4x6xf32>
    %3 = stablehlo.logistic %2 : tensor<4x6xf32>
    %4 = stablehlo.cbrt %3 : tensor<4x6xf32>
    %5 = "chlo.erf"(%4) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %6 = stablehlo.tan %5 : tensor<4x6xf32>
    %7 = stablehlo.rsqrt %6 : tensor<4x6xf32>
    return %7 : tensor<4x6xf32>
  }
}
