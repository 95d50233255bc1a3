module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x12xf32> {
    %0 = "stablehlo.concatenate"(%arg0, %arg0) <{dimension = 1 : i64}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
    return %0 : tensor<4x12xf32>
  }
}
