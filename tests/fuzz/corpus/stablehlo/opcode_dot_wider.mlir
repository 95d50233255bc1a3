module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<4x4xf32> {
    %0 = "stablehlo.convert"(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %1 = "stablehlo.convert"(%0) : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %2 = "stablehlo.dot_general"(%1, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}
