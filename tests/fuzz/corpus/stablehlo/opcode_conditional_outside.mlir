module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xf32> {
    %0 = stablehlo.constant dense<2> : tensor<i32>
    %3 = "stablehlo.case"(%0) ({
      %1 = stablehlo.negate %arg0 : tensor<4x6xf32>
      stablehlo.return %1 : tensor<4x6xf32>
    }, {
      %2 = stablehlo.add %arg0, %arg0 : tensor<4x6xf32>
      stablehlo.return %2 : tensor<4x6xf32>
    }) : (tensor<i32>) -> tensor<4x6xf32>
    return %3 : tensor<4x6xf32>
  }
}
