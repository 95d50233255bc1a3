module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<8x6xf32> {
    %0 = stablehlo.constant dense<1.0e+00> : tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_low = array<i64: -1, 1>, edge_padding_high = array<i64: 2, -1>, interior_padding = array<i64: 1, 0>}> : (tensor<4x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}
