func.func @main(%a: tensor<4x!quant.uniform<u8:f16, 0.1:128>>, %i: tensor<!quant.uniform<u8:f16, 0.1:128>>) -> tensor<f16> {
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0] : (tensor<4x!quant.uniform<u8:f16, 0.1:128>>, tensor<!quant.uniform<u8:f16, 0.1:128>>) -> tensor<!quant.uniform<u8:f16, 0.1:128>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<!quant.uniform<u8:f16, 0.1:128>>) -> tensor<f16>
  return %1 : tensor<f16>
}
