module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x6xi1> {
    %0 = "stablehlo.compare"(%arg0, %arg0) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    return %0 : tensor<4x6xi1>
  }
}
