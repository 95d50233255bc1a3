module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<3xi32> {
    %0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
    %2 = stablehlo.shift_left %arg2, %1 : tensor<3xi32>
    %3 = stablehlo.shift_right_logical %2, %arg2 : tensor<3xi32>
    %4 = stablehlo.shift_right_arithmetic %3, %1 : tensor<3xi32>
    return %4 : tensor<3xi32>
  }
}
