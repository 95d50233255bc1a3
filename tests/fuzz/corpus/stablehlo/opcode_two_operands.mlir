module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = stablehlo.exponential %arg0 : tensor<4x6xf32>
    %1 = stablehlo.atan2 %arg0, %0 : tensor<4x6xf32>
    %2 = stablehlo.power %0, %1 : tensor<4x6xf32>
    %3 = stablehlo.remainder %2, %0 : tensor<4x6xf32>
    %4 = stablehlo.sign %3 : tensor<4x6xf32>
    return %4 : tensor<4x6xf32>
  }
}
