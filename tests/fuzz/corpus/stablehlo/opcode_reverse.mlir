module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 1>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
