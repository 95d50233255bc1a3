module @f {
  func.func public @main(%arg0: tensor<4xf8E4M3FNUZ>, %arg1: tensor<4xi4>) -> (tensor<4xf8E4M3FNUZ>, tensor<4xf8E8M0FNU>, tensor<4xf8E5M2>, tensor<4xi4>, tensor<4xui2>, tensor<f8E4M3FNUZ>) {
    %0 = stablehlo.constant dense<[2.4e+02, 0x80, 0.0e+00, 5.0e-01]> : tensor<4xf8E4M3FNUZ>
    %1 = stablehlo.add %arg0, %0 : tensor<4xf8E4M3FNUZ>
    %2 = stablehlo.constant dense<[1.1754944e-38, 2.3509887e-38, 4.7019774e-38, 9.403955e-38]> : tensor<4xf8E8M0FNU>
    %3 = stablehlo.multiply %2, %2 : tensor<4xf8E8M0FNU>
    %4 = stablehlo.constant dense<[0x7F, 0xFF, 0x7C, 1.5258789e-05]> : tensor<4xf8E5M2>
    %12 = "stablehlo.sort"(%4) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%5: tensor<f8E5M2>, %6: tensor<f8E5M2>):
      %7 = "stablehlo.compare"(%5, %6) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f8E5M2>, tensor<f8E5M2>) -> tensor<i1>
      %8 = "stablehlo.compare"(%6, %6) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f8E5M2>, tensor<f8E5M2>) -> tensor<i1>
      %9 = "stablehlo.compare"(%5, %5) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f8E5M2>, tensor<f8E5M2>) -> tensor<i1>
      %10 = stablehlo.and %8, %9 : tensor<i1>
      %11 = stablehlo.or %7, %10 : tensor<i1>
      stablehlo.return %11 : tensor<i1>
    }) : (tensor<4xf8E5M2>) -> tensor<4xf8E5M2>
    %13 = stablehlo.constant dense<[0.0e+00, 5.0e-01, 1.0e+00, 1.5e+00]> : tensor<4xf4E2M1FN>
    %14 = "stablehlo.convert"(%13) : (tensor<4xf4E2M1FN>) -> tensor<4xi4>
    %15 = stablehlo.add %14, %arg1 : tensor<4xi4>
    %16 = "stablehlo.convert"(%arg1) : (tensor<4xi4>) -> tensor<4xui2>
    %17 = "stablehlo.convert"(%arg0) : (tensor<4xf8E4M3FNUZ>) -> tensor<4xf32>
    %18 = "stablehlo.dot_general"(%17, %17) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    %19 = "stablehlo.convert"(%18) : (tensor<f32>) -> tensor<f8E4M3FNUZ>
    return %1, %3, %12, %15, %16, %19 : tensor<4xf8E4M3FNUZ>, tensor<4xf8E8M0FNU>, tensor<4xf8E5M2>, tensor<4xi4>, tensor<4xui2>, tensor<f8E4M3FNUZ>
  }
}
