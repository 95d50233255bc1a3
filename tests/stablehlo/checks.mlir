// Every public function without parameters is run; all claims hold.
module @checks {
  func.func public @collatz() {
    %n = stablehlo.constant dense<27> : tensor<i64>
    %zero = stablehlo.constant dense<0> : tensor<i64>
    %one = stablehlo.constant dense<1> : tensor<i64>
    %two = stablehlo.constant dense<2> : tensor<i64>
    %three = stablehlo.constant dense<3> : tensor<i64>
    %expected = stablehlo.constant dense<111> : tensor<i64>
    %0:2 = stablehlo.while(%a = %n, %steps = %zero) : tensor<i64>, tensor<i64>
    cond {
      %1 = stablehlo.compare GT, %a, %one, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.remainder %a, %two : tensor<i64>
      %2 = stablehlo.compare EQ, %1, %zero, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %3 = "stablehlo.if"(%2) ({
        %5 = stablehlo.divide %a, %two : tensor<i64>
        stablehlo.return %5 : tensor<i64>
      }, {
        %5 = stablehlo.multiply %a, %three : tensor<i64>
        %6 = stablehlo.add %5, %one : tensor<i64>
        stablehlo.return %6 : tensor<i64>
      }) : (tensor<i1>) -> tensor<i64>
      %4 = stablehlo.add %steps, %one : tensor<i64>
      stablehlo.return %3, %4 : tensor<i64>, tensor<i64>
    }
    check.expect_eq_const %0#0, dense<1> : tensor<i64>
    stablehlo.custom_call @check.expect_eq(%0#1, %expected) {has_side_effect = true} : (tensor<i64>, tensor<i64>) -> ()
    return
  }
  func.func public @matrices() {
    %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    check.expect_eq_const %0, dense<[[7.0, 10.0], [15.0, 22.0]]> : tensor<2x2xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = stablehlo.sqrt %1 : tensor<2xf32>
    check.expect_almost_eq_const %2, dense<[4.690416, 5.656854]> : tensor<2xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<2xf32>
    check.expect_close %3, %1, max_ulp_difference = 2 : tensor<2xf32>, tensor<2xf32>
    return
  }
}
