module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = stablehlo.constant dense<1.0e-02> : tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %2 = stablehlo.divide %arg0, %1 : tensor<4x6xf32>
    %3 = stablehlo.round_nearest_afz %2 : tensor<4x6xf32>
    %4 = stablehlo.round_nearest_even %2 : tensor<4x6xf32>
    %5 = stablehlo.add %3, %4 : tensor<4x6xf32>
    return %5 : tensor<4x6xf32>
  }
}
