; ModuleID = 'lamina'
source_filename = "lamina"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; Function Attrs: nounwind
define internal void @combine_rows(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i1 %5) #0 {
entry:
  %.splatinsert = insertelement <16 x i1> poison, i1 %5, i64 0
  %.splat = shufflevector <16 x i1> %.splatinsert, <16 x i1> poison, <16 x i32> zeroinitializer
  %6 = mul i64 %4, 16
  %7 = icmp slt i64 0, %6
  br i1 %7, label %loop, label %after

loop:                                             ; preds = %loop, %entry
  %8 = phi i64 [ 0, %entry ], [ %23, %loop ]
  %9 = getelementptr i8, ptr %0, i64 0
  %10 = mul i64 %1, 16
  %11 = add i64 %10, %8
  %12 = getelementptr float, ptr %9, i64 %11
  %13 = load <16 x float>, ptr %12, align 1
  %14 = freeze <16 x float> %13
  %15 = getelementptr i8, ptr %2, i64 0
  %16 = mul i64 %3, 16
  %17 = add i64 %16, %8
  %18 = getelementptr float, ptr %15, i64 %17
  %19 = load <16 x float>, ptr %18, align 1
  %20 = freeze <16 x float> %19
  %21 = fadd <16 x float> %14, %20
  %22 = select <16 x i1> %.splat, <16 x float> %20, <16 x float> %21
  store <16 x float> %22, ptr %12, align 1
  %23 = add i64 %8, 16
  %24 = icmp slt i64 %23, %6
  br i1 %24, label %loop, label %after

after:                                            ; preds = %loop, %entry
  ret void
}

; Function Attrs: nounwind
define internal void @fold_rows(ptr %0, i64 %1, i64 %2) #0 {
entry:
  %3 = call i64 @llvm.smin.i64(i64 %1, i64 64)
  br i1 true, label %loop, label %after

loop:                                             ; preds = %after2, %entry
  %4 = phi i64 [ 1, %entry ], [ %13, %after2 ]
  %5 = lshr i64 64, %4
  %6 = sub i64 %3, %5
  %7 = call i64 @llvm.smin.i64(i64 %5, i64 %6)
  %8 = icmp slt i64 0, %7
  br i1 %8, label %loop1, label %after2

after:                                            ; preds = %after2, %entry
  ret void

loop1:                                            ; preds = %loop1, %loop
  %9 = phi i64 [ 0, %loop ], [ %11, %loop1 ]
  %10 = add i64 %9, %5
  call void @combine_rows(ptr %0, i64 %9, ptr %0, i64 %10, i64 %2, i1 false)
  %11 = add i64 %9, 1
  %12 = icmp slt i64 %11, %7
  br i1 %12, label %loop1, label %after2

after2:                                           ; preds = %loop1, %loop
  %13 = add i64 %4, 1
  %14 = icmp slt i64 %13, 7
  br i1 %14, label %loop, label %after
}

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare i64 @llvm.smin.i64(i64, i64) #1

; Function Attrs: nounwind
define internal void @push(ptr %0, i64 %1, ptr %2, i64 %3) #0 {
entry:
  %4 = and i64 %1, 63
  %5 = icmp slt i64 %1, 64
  call void @combine_rows(ptr %0, i64 %4, ptr %2, i64 0, i64 %3, i1 %5)
  ret void
}

; Function Attrs: nounwind
define internal void @fold_lanes(ptr %0, i64 %1) #0 {
entry:
  %2 = call i64 @llvm.smin.i64(i64 %1, i64 64)
  br i1 true, label %loop, label %after

loop:                                             ; preds = %after2, %entry
  %3 = phi i64 [ 1, %entry ], [ %48, %after2 ]
  %4 = lshr i64 64, %3
  %5 = sub i64 %2, %4
  %6 = call i64 @llvm.smin.i64(i64 %4, i64 %5)
  %7 = icmp slt i64 0, %6
  br i1 %7, label %loop1, label %after2

after:                                            ; preds = %after2, %entry
  %8 = getelementptr i8, ptr %0, i64 0
  %9 = getelementptr float, ptr %8, i64 0
  %10 = load <16 x float>, ptr %9, align 1
  %11 = freeze <16 x float> %10
  %12 = shufflevector <16 x float> %11, <16 x float> poison, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %.splatinsert5 = insertelement <16 x i64> poison, i64 %2, i64 0
  %.splat6 = shufflevector <16 x i64> %.splatinsert5, <16 x i64> poison, <16 x i32> zeroinitializer
  %13 = icmp slt <16 x i64> <i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23>, %.splat6
  %14 = fadd <16 x float> %11, %12
  %15 = select <16 x i1> %13, <16 x float> %14, <16 x float> %11
  %16 = shufflevector <16 x float> %15, <16 x float> poison, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1, i32 2, i32 3>
  %.splatinsert7 = insertelement <16 x i64> poison, i64 %2, i64 0
  %.splat8 = shufflevector <16 x i64> %.splatinsert7, <16 x i64> poison, <16 x i32> zeroinitializer
  %17 = icmp slt <16 x i64> <i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19>, %.splat8
  %18 = fadd <16 x float> %15, %16
  %19 = select <16 x i1> %17, <16 x float> %18, <16 x float> %15
  %20 = shufflevector <16 x float> %19, <16 x float> poison, <16 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0, i32 1>
  %.splatinsert9 = insertelement <16 x i64> poison, i64 %2, i64 0
  %.splat10 = shufflevector <16 x i64> %.splatinsert9, <16 x i64> poison, <16 x i32> zeroinitializer
  %21 = icmp slt <16 x i64> <i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17>, %.splat10
  %22 = fadd <16 x float> %19, %20
  %23 = select <16 x i1> %21, <16 x float> %22, <16 x float> %19
  %24 = shufflevector <16 x float> %23, <16 x float> poison, <16 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 0>
  %.splatinsert11 = insertelement <16 x i64> poison, i64 %2, i64 0
  %.splat12 = shufflevector <16 x i64> %.splatinsert11, <16 x i64> poison, <16 x i32> zeroinitializer
  %25 = icmp slt <16 x i64> <i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16>, %.splat12
  %26 = fadd <16 x float> %23, %24
  %27 = select <16 x i1> %25, <16 x float> %26, <16 x float> %23
  %28 = getelementptr i8, ptr %0, i64 0
  %29 = getelementptr float, ptr %28, i64 0
  store <16 x float> %27, ptr %29, align 1
  ret void

loop1:                                            ; preds = %loop1, %loop
  %30 = phi i64 [ 0, %loop ], [ %46, %loop1 ]
  %31 = add i64 %30, %4
  %32 = getelementptr i8, ptr %0, i64 0
  %33 = add i64 0, %30
  %34 = getelementptr float, ptr %32, i64 %33
  %35 = load <16 x float>, ptr %34, align 1
  %36 = freeze <16 x float> %35
  %37 = getelementptr i8, ptr %0, i64 0
  %38 = add i64 0, %31
  %39 = getelementptr float, ptr %37, i64 %38
  %40 = load <16 x float>, ptr %39, align 1
  %41 = freeze <16 x float> %40
  %.splatinsert = insertelement <16 x i64> poison, i64 %2, i64 0
  %.splat = shufflevector <16 x i64> %.splatinsert, <16 x i64> poison, <16 x i32> zeroinitializer
  %.splatinsert3 = insertelement <16 x i64> poison, i64 %31, i64 0
  %.splat4 = shufflevector <16 x i64> %.splatinsert3, <16 x i64> poison, <16 x i32> zeroinitializer
  %42 = add <16 x i64> %.splat4, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %43 = icmp slt <16 x i64> %42, %.splat
  %44 = fadd <16 x float> %36, %41
  %45 = select <16 x i1> %43, <16 x float> %44, <16 x float> %36
  store <16 x float> %45, ptr %34, align 1
  %46 = add i64 %30, 16
  %47 = icmp slt i64 %46, %6
  br i1 %47, label %loop1, label %after2

after2:                                           ; preds = %loop1, %loop
  %48 = add i64 %3, 1
  %49 = icmp slt i64 %48, 3
  br i1 %49, label %loop, label %after
}

; Function Attrs: nounwind
define i32 @lamina_kernel(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5, ptr %6) #0 {
entry:
  %zero = alloca i64, align 8
  store i64 0, ptr %zero, align 8
  %level = alloca [4096 x i8], align 64
  %level1 = alloca [4096 x i8], align 64
  %level2 = alloca [4096 x i8], align 64
  %7 = getelementptr i64, ptr %1, i64 1
  %8 = load i64, ptr %7, align 8
  %9 = getelementptr i64, ptr %1, i64 2
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr ptr, ptr %0, i64 0
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr ptr, ptr %0, i64 1
  %14 = load ptr, ptr %13, align 8
  %15 = getelementptr ptr, ptr %0, i64 2
  %16 = load ptr, ptr %15, align 8
  br label %start

start:                                            ; preds = %entry
  %17 = icmp slt i64 %4, %5
  %18 = icmp slt i64 %2, %3
  %19 = and i1 %18, %17
  br i1 %19, label %then, label %after

cancelled:                                        ; preds = %loop6, %loop4
  ret i32 1

then:                                             ; preds = %start
  %20 = mul i64 1, %8
  %21 = icmp slt i64 %2, %3
  br i1 %21, label %loop, label %after3

after:                                            ; preds = %after3, %start
  ret i32 0

loop:                                             ; preds = %after5, %then
  %22 = phi i64 [ %2, %then ], [ %27, %after5 ]
  %23 = icmp slt i64 %4, %5
  br i1 %23, label %loop4, label %after5

after3:                                           ; preds = %after5, %then
  br label %after

loop4:                                            ; preds = %after22, %loop
  %24 = phi i64 [ %4, %loop ], [ %127, %after22 ]
  %25 = load atomic i32, ptr %6 monotonic, align 4
  %26 = icmp eq i32 %25, 0
  br i1 %26, label %on, label %cancelled

after5:                                           ; preds = %after22, %loop
  %27 = add i64 %22, 1
  %28 = icmp slt i64 %27, %3
  br i1 %28, label %loop, label %after3

on:                                               ; preds = %loop4
  %29 = add i64 %20, 16383
  %30 = sdiv i64 %29, 16384
  %31 = icmp sgt i64 %30, 1
  %32 = icmp slt i64 0, %30
  br i1 %32, label %loop6, label %after7

loop6:                                            ; preds = %after18, %on
  %33 = phi i64 [ 0, %on ], [ %110, %after18 ]
  %34 = load atomic i32, ptr %6 monotonic, align 4
  %35 = icmp eq i32 %34, 0
  br i1 %35, label %on8, label %cancelled

after7:                                           ; preds = %after18, %on
  br i1 %31, label %then21, label %after22

on8:                                              ; preds = %loop6
  %36 = mul i64 %33, 16384
  %37 = sub i64 %20, %36
  %38 = call i64 @llvm.smin.i64(i64 %37, i64 16384)
  %39 = udiv i64 %36, %8
  %40 = mul i64 %39, %8
  %41 = sub i64 %36, %40
  %42 = sub i64 %8, 1
  %43 = add i64 %41, %38
  %44 = add i64 %43, %42
  %45 = udiv i64 %44, %8
  %46 = icmp slt i64 0, %45
  br i1 %46, label %loop9, label %after10

loop9:                                            ; preds = %after12, %on8
  %47 = phi i64 [ 0, %on8 ], [ %71, %after12 ]
  %48 = phi i64 [ 0, %on8 ], [ %54, %after12 ]
  %49 = icmp eq i64 %47, 0
  %50 = select i1 %49, i64 %41, i64 0
  %51 = sub i64 %38, %48
  %52 = sub i64 %8, %50
  %53 = call i64 @llvm.smin.i64(i64 %52, i64 %51)
  %54 = add i64 %48, %53
  %55 = mul i64 %24, %10
  %56 = add i64 0, %55
  %57 = getelementptr float, ptr %12, i64 %56
  %58 = sub i64 %50, %48
  %59 = and i64 %48, -64
  %60 = icmp slt i64 %59, %54
  br i1 %60, label %loop11, label %after12

after10:                                          ; preds = %after12, %on8
  %61 = phi i64 [ 0, %on8 ], [ %54, %after12 ]
  call void @fold_lanes(ptr %level, i64 %38)
  br i1 %31, label %then17, label %after18

loop11:                                           ; preds = %after16, %loop9
  %62 = phi i64 [ %59, %loop9 ], [ %102, %after16 ]
  %63 = call i64 @llvm.smax.i64(i64 %62, i64 %48)
  %64 = add i64 %62, 64
  %65 = call i64 @llvm.smin.i64(i64 %64, i64 %54)
  %66 = icmp eq i64 %62, 0
  %67 = sub i64 %65, %63
  %68 = and i64 %67, -16
  %69 = add i64 %63, %68
  %70 = icmp slt i64 %63, %69
  br i1 %70, label %loop13, label %after14

after12:                                          ; preds = %after16, %loop9
  %71 = add i64 %47, 1
  %72 = icmp slt i64 %71, %45
  br i1 %72, label %loop9, label %after10

loop13:                                           ; preds = %loop13, %loop11
  %73 = phi i64 [ %63, %loop11 ], [ %85, %loop13 ]
  %74 = add i64 %73, %58
  %75 = getelementptr float, ptr %57, i64 %74
  %76 = load <16 x float>, ptr %75, align 1
  %77 = sub i64 %73, %62
  %78 = getelementptr i8, ptr %level, i64 0
  %79 = add i64 0, %77
  %80 = getelementptr float, ptr %78, i64 %79
  %81 = load <16 x float>, ptr %80, align 1
  %82 = freeze <16 x float> %81
  %83 = fadd <16 x float> %82, %76
  %.splatinsert = insertelement <16 x i1> poison, i1 %66, i64 0
  %.splat = shufflevector <16 x i1> %.splatinsert, <16 x i1> poison, <16 x i32> zeroinitializer
  %84 = select <16 x i1> %.splat, <16 x float> %76, <16 x float> %83
  store <16 x float> %84, ptr %80, align 1
  %85 = add i64 %73, 16
  %86 = icmp slt i64 %85, %69
  br i1 %86, label %loop13, label %after14

after14:                                          ; preds = %loop13, %loop11
  %87 = icmp slt i64 %69, %65
  br i1 %87, label %loop15, label %after16

loop15:                                           ; preds = %loop15, %after14
  %88 = phi i64 [ %69, %after14 ], [ %100, %loop15 ]
  %89 = add i64 %88, %58
  %90 = getelementptr float, ptr %57, i64 %89
  %91 = load float, ptr %90, align 1
  %92 = sub i64 %88, %62
  %93 = getelementptr i8, ptr %level, i64 0
  %94 = add i64 0, %92
  %95 = getelementptr float, ptr %93, i64 %94
  %96 = load float, ptr %95, align 1
  %97 = freeze float %96
  %98 = fadd float %97, %91
  %99 = select i1 %66, float %91, float %98
  store float %99, ptr %95, align 1
  %100 = add i64 %88, 1
  %101 = icmp slt i64 %100, %65
  br i1 %101, label %loop15, label %after16

after16:                                          ; preds = %loop15, %after14
  %102 = add i64 %62, 64
  %103 = icmp slt i64 %102, %54
  br i1 %103, label %loop11, label %after12

then17:                                           ; preds = %after10
  %104 = and i64 %33, 16383
  call void @push(ptr %level1, i64 %104, ptr %level, i64 1)
  %105 = add i64 %104, 1
  %106 = add i64 %33, 1
  %107 = icmp eq i64 %106, %30
  %108 = icmp eq i64 %105, 16384
  %109 = or i1 %108, %107
  br i1 %109, label %then19, label %after20

after18:                                          ; preds = %after20, %after10
  %110 = add i64 %33, 1
  %111 = icmp slt i64 %110, %30
  br i1 %111, label %loop6, label %after7

then19:                                           ; preds = %then17
  call void @fold_rows(ptr %level1, i64 %105, i64 1)
  %112 = sdiv i64 %33, 16384
  call void @push(ptr %level2, i64 %112, ptr %level1, i64 1)
  br label %after20

after20:                                          ; preds = %then19, %then17
  br label %after18

then21:                                           ; preds = %after7
  %113 = add i64 %30, 16383
  %114 = sdiv i64 %113, 16384
  call void @fold_rows(ptr %level2, i64 %114, i64 1)
  br label %after22

after22:                                          ; preds = %then21, %after7
  %115 = select i1 %31, ptr %level2, ptr %level
  %116 = getelementptr float, ptr %14, i64 0
  %117 = getelementptr i8, ptr %115, i64 0
  %118 = getelementptr float, ptr %117, i64 0
  %119 = load float, ptr %118, align 1
  %120 = freeze float %119
  %121 = load float, ptr %116, align 1
  %122 = fadd float %120, %121
  %123 = icmp eq i64 %20, 0
  %124 = select i1 %123, float %121, float %122
  %125 = add i64 0, %24
  %126 = getelementptr float, ptr %16, i64 %125
  store float %124, ptr %126, align 1
  %127 = add i64 %24, 1
  %128 = icmp slt i64 %127, %5
  br i1 %128, label %loop4, label %after5
}

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare i64 @llvm.smax.i64(i64, i64) #1

attributes #0 = { nounwind "min-legal-vector-width"="512" "no-builtins" "prefer-vector-width"="512" "target-cpu"="znver4" "target-features"="+64bit,+adx,+aes,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+bmi,+bmi2,+clflushopt,+clwb,+clzero,+cmov,+crc32,+cx16,+cx8,+evex512,+f16c,+fma,+fsgsbase,+fxsr,+gfni,+invpcid,+lzcnt,+mmx,+movbe,+pclmul,+popcnt,+prfchw,+rdpid,+rdrnd,+rdseed,+sahf,+sha,+shstk,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,+xsave,+xsavec,+xsaveopt,+xsaves,-amx-bf16,-amx-complex,-amx-fp16,-amx-int8,-amx-tile,-avx10.1-256,-avx10.1-512,-avx512fp16,-avx512vp2intersect,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-ccmp,-cf,-cldemote,-cmpccxadd,-egpr,-enqcmd,-fma4,-hreset,-kl,-lwp,-movdir64b,-movdiri,-mwaitx,-ndd,-pconfig,-pku,-ppx,-prefetchi,-ptwrite,-push2pop2,-raoint,-rdpru,-rtm,-serialize,-sgx,-sha512,-sm3,-sm4,-tbm,-tsxldtrk,-uintr,-usermsr,-waitpkg,-wbnoinvd,-widekl,-xop" }
attributes #1 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
