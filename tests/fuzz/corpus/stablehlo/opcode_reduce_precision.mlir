module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = "stablehlo.reduce_precision"(%arg0) <{exponent_bits = 4 : i32, mantissa_bits = 3 : i32}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
