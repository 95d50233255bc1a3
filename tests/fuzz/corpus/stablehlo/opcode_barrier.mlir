module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> (tensor<4x6xf32>, tensor<f32>) {
    %0 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %1:2 = "stablehlo.optimization_barrier"(%arg0, %0) : (tensor<4x6xf32>, tensor<f32>) -> (tensor<4x6xf32>, tensor<f32>)
    return %1#0, %1#1 : tensor<4x6xf32>, tensor<f32>
  }
}
