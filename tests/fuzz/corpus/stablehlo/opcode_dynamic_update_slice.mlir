module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 2>, strides = array<i64: 1, 1>}> : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.constant dense<2> : tensor<i32>
    %2 = "stablehlo.dynamic_update_slice"(%arg0, %0, %1, %1) : (tensor<4x6xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }
}
