module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x1xi8>) -> (tensor<3x1xi8> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<[[-128], [127], [0]]> : tensor<3x1xi8>
    %0 = stablehlo.add %arg0, %c : tensor<3x1xi8>
    return %0 : tensor<3x1xi8>
  }
}
