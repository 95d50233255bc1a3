module @e {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<3xi32>) -> tensor<3x6xf32> {
    %0 = "stablehlo.reshape"(%arg2) : (tensor<3xi32>) -> tensor<3x1xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>, indices_are_sorted = false}> : (tensor<4x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
    return %1 : tensor<3x6xf32>
  }
}
