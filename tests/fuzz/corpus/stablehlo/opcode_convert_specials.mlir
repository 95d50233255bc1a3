module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<5xi32> {
    %0 = stablehlo.constant dense<[0x7FC00000, 0xFFC00000, -0.0e+00, 0x7F800000, -1.0e+20]> : tensor<5xf32>
    %1 = "stablehlo.convert"(%0) : (tensor<5xf32>) -> tensor<5xi32>
    return %1 : tensor<5xi32>
  }
}
