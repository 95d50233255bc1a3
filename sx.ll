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
  %10 = mul i64 %1, 256
  %11 = add i64 %10, %8
  %12 = getelementptr float, ptr %9, i64 %11
  %13 = load <16 x float>, ptr %12, align 1
  %14 = freeze <16 x float> %13
  %15 = getelementptr i8, ptr %2, i64 0
  %16 = mul i64 %3, 256
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
define i32 @lamina_kernel(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, i64 %5, ptr %6) #0 {
entry:
  %zero = alloca i64, align 8
  store i64 0, ptr %zero, align 8
  %level = alloca [65536 x i8], align 64
  %level1 = alloca [65536 x i8], align 64
  %level2 = alloca [65536 x i8], align 64
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

cancelled:                                        ; preds = %loop9, %loop6, %loop4
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

loop4:                                            ; preds = %after29, %loop
  %24 = phi i64 [ %4, %loop ], [ %140, %after29 ]
  %25 = load atomic i32, ptr %6 monotonic, align 4
  %26 = icmp eq i32 %25, 0
  br i1 %26, label %on, label %cancelled

after5:                                           ; preds = %after29, %loop
  %27 = add i64 %22, 1
  %28 = icmp slt i64 %27, %3
  br i1 %28, label %loop, label %after3

on:                                               ; preds = %loop4
  %29 = add i64 %24, 256
  %30 = call i64 @llvm.smin.i64(i64 %29, i64 %5)
  %31 = sub i64 %30, %24
  %32 = add i64 %31, 15
  %33 = udiv i64 %32, 16
  %34 = add i64 %20, 16383
  %35 = sdiv i64 %34, 16384
  %36 = icmp sgt i64 %35, 1
  %37 = icmp slt i64 0, %35
  br i1 %37, label %loop6, label %after7

loop6:                                            ; preds = %after17, %on
  %38 = phi i64 [ 0, %on ], [ %99, %after17 ]
  %39 = load atomic i32, ptr %6 monotonic, align 4
  %40 = icmp eq i32 %39, 0
  br i1 %40, label %on8, label %cancelled

after7:                                           ; preds = %after17, %on
  br i1 %36, label %then20, label %after21

on8:                                              ; preds = %loop6
  %41 = mul i64 %38, 16384
  %42 = sub i64 %20, %41
  %43 = call i64 @llvm.smin.i64(i64 %42, i64 16384)
  %44 = icmp slt i64 0, %43
  br i1 %44, label %loop9, label %after10

loop9:                                            ; preds = %after15, %on8
  %45 = phi i64 [ 0, %on8 ], [ %91, %after15 ]
  %46 = phi i64 [ %41, %on8 ], [ %90, %after15 ]
  %47 = load atomic i32, ptr %6 monotonic, align 4
  %48 = icmp eq i32 %47, 0
  br i1 %48, label %on11, label %cancelled

after10:                                          ; preds = %after15, %on8
  %49 = phi i64 [ %41, %on8 ], [ %90, %after15 ]
  call void @fold_rows(ptr %level, i64 %43, i64 %33)
  br i1 %36, label %then16, label %after17

on11:                                             ; preds = %loop9
  %50 = mul i64 %46, %10
  %51 = add i64 0, %50
  %52 = getelementptr float, ptr %12, i64 %51
  %53 = mul i64 %10, 4
  %54 = and i64 %45, 63
  %55 = icmp slt i64 %45, 64
  %56 = sub i64 %30, %24
  %57 = and i64 %56, -16
  %58 = add i64 %24, %57
  %59 = icmp slt i64 %24, %58
  br i1 %59, label %loop12, label %after13

loop12:                                           ; preds = %loop12, %on11
  %60 = phi i64 [ %24, %on11 ], [ %73, %loop12 ]
  %61 = getelementptr float, ptr %52, i64 %60
  %62 = getelementptr float, ptr %61, i64 %53
  call void @llvm.prefetch.p0(ptr %62, i32 0, i32 3, i32 1)
  %63 = load <16 x float>, ptr %61, align 1
  %64 = sub i64 %60, %24
  %65 = getelementptr i8, ptr %level, i64 0
  %66 = mul i64 %54, 256
  %67 = add i64 %66, %64
  %68 = getelementptr float, ptr %65, i64 %67
  %69 = load <16 x float>, ptr %68, align 1
  %70 = freeze <16 x float> %69
  %71 = fadd <16 x float> %70, %63
  %.splatinsert = insertelement <16 x i1> poison, i1 %55, i64 0
  %.splat = shufflevector <16 x i1> %.splatinsert, <16 x i1> poison, <16 x i32> zeroinitializer
  %72 = select <16 x i1> %.splat, <16 x float> %63, <16 x float> %71
  store <16 x float> %72, ptr %68, align 1
  %73 = add i64 %60, 16
  %74 = icmp slt i64 %73, %58
  br i1 %74, label %loop12, label %after13

after13:                                          ; preds = %loop12, %on11
  %75 = icmp slt i64 %58, %30
  br i1 %75, label %loop14, label %after15

loop14:                                           ; preds = %loop14, %after13
  %76 = phi i64 [ %58, %after13 ], [ %88, %loop14 ]
  %77 = getelementptr float, ptr %52, i64 %76
  %78 = load float, ptr %77, align 1
  %79 = sub i64 %76, %24
  %80 = getelementptr i8, ptr %level, i64 0
  %81 = mul i64 %54, 256
  %82 = add i64 %81, %79
  %83 = getelementptr float, ptr %80, i64 %82
  %84 = load float, ptr %83, align 1
  %85 = freeze float %84
  %86 = fadd float %85, %78
  %87 = select i1 %55, float %78, float %86
  store float %87, ptr %83, align 1
  %88 = add i64 %76, 1
  %89 = icmp slt i64 %88, %30
  br i1 %89, label %loop14, label %after15

after15:                                          ; preds = %loop14, %after13
  %90 = add i64 %46, 1
  %91 = add i64 %45, 1
  %92 = icmp slt i64 %91, %43
  br i1 %92, label %loop9, label %after10

then16:                                           ; preds = %after10
  %93 = and i64 %38, 16383
  call void @push(ptr %level1, i64 %93, ptr %level, i64 %33)
  %94 = add i64 %93, 1
  %95 = add i64 %38, 1
  %96 = icmp eq i64 %95, %35
  %97 = icmp eq i64 %94, 16384
  %98 = or i1 %97, %96
  br i1 %98, label %then18, label %after19

after17:                                          ; preds = %after19, %after10
  %99 = add i64 %38, 1
  %100 = icmp slt i64 %99, %35
  br i1 %100, label %loop6, label %after7

then18:                                           ; preds = %then16
  call void @fold_rows(ptr %level1, i64 %94, i64 %33)
  %101 = sdiv i64 %38, 16384
  call void @push(ptr %level2, i64 %101, ptr %level1, i64 %33)
  br label %after19

after19:                                          ; preds = %then18, %then16
  br label %after17

then20:                                           ; preds = %after7
  %102 = add i64 %35, 16383
  %103 = sdiv i64 %102, 16384
  call void @fold_rows(ptr %level2, i64 %103, i64 %33)
  br label %after21

after21:                                          ; preds = %then20, %after7
  %104 = select i1 %36, ptr %level2, ptr %level
  %105 = getelementptr float, ptr %14, i64 0
  %106 = getelementptr float, ptr %16, i64 0
  %107 = sub i64 %30, %24
  %108 = and i64 %107, -16
  %109 = add i64 %24, %108
  %110 = icmp slt i64 %24, %109
  br i1 %110, label %loop22, label %after23

loop22:                                           ; preds = %loop22, %after21
  %111 = phi i64 [ %24, %after21 ], [ %123, %loop22 ]
  %112 = sub i64 %111, %24
  %113 = getelementptr i8, ptr %104, i64 0
  %114 = add i64 0, %112
  %115 = getelementptr float, ptr %113, i64 %114
  %116 = load <16 x float>, ptr %115, align 1
  %117 = freeze <16 x float> %116
  %118 = load float, ptr %105, align 1
  %.splatinsert24 = insertelement <16 x float> poison, float %118, i64 0
  %.splat25 = shufflevector <16 x float> %.splatinsert24, <16 x float> poison, <16 x i32> zeroinitializer
  %119 = fadd <16 x float> %117, %.splat25
  %120 = icmp eq i64 %20, 0
  %.splatinsert26 = insertelement <16 x i1> poison, i1 %120, i64 0
  %.splat27 = shufflevector <16 x i1> %.splatinsert26, <16 x i1> poison, <16 x i32> zeroinitializer
  %121 = select <16 x i1> %.splat27, <16 x float> %.splat25, <16 x float> %119
  %122 = getelementptr float, ptr %106, i64 %111
  store <16 x float> %121, ptr %122, align 1
  %123 = add i64 %111, 16
  %124 = icmp slt i64 %123, %109
  br i1 %124, label %loop22, label %after23

after23:                                          ; preds = %loop22, %after21
  %125 = icmp slt i64 %109, %30
  br i1 %125, label %loop28, label %after29

loop28:                                           ; preds = %loop28, %after23
  %126 = phi i64 [ %109, %after23 ], [ %138, %loop28 ]
  %127 = sub i64 %126, %24
  %128 = getelementptr i8, ptr %104, i64 0
  %129 = add i64 0, %127
  %130 = getelementptr float, ptr %128, i64 %129
  %131 = load float, ptr %130, align 1
  %132 = freeze float %131
  %133 = load float, ptr %105, align 1
  %134 = fadd float %132, %133
  %135 = icmp eq i64 %20, 0
  %136 = select i1 %135, float %133, float %134
  %137 = getelementptr float, ptr %106, i64 %126
  store float %136, ptr %137, align 1
  %138 = add i64 %126, 1
  %139 = icmp slt i64 %138, %30
  br i1 %139, label %loop28, label %after29

after29:                                          ; preds = %loop28, %after23
  %140 = add i64 %24, 256
  %141 = icmp slt i64 %140, %5
  br i1 %141, label %loop4, label %after5
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite)
declare void @llvm.prefetch.p0(ptr nocapture readonly, i32 immarg, i32 immarg, i32 immarg) #2

attributes #0 = { nounwind "min-legal-vector-width"="512" "no-builtins" "prefer-vector-width"="512" "target-cpu"="znver4" "target-features"="+64bit,+adx,+aes,+avx,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,+avx512vpopcntdq,+bmi,+bmi2,+clflushopt,+clwb,+clzero,+cmov,+crc32,+cx16,+cx8,+evex512,+f16c,+fma,+fsgsbase,+fxsr,+gfni,+invpcid,+lzcnt,+mmx,+movbe,+pclmul,+popcnt,+prfchw,+rdpid,+rdrnd,+rdseed,+sahf,+sha,+shstk,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,+vaes,+vpclmulqdq,+xsave,+xsavec,+xsaveopt,+xsaves,-amx-bf16,-amx-complex,-amx-fp16,-amx-int8,-amx-tile,-avx10.1-256,-avx10.1-512,-avx512fp16,-avx512vp2intersect,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,-ccmp,-cf,-cldemote,-cmpccxadd,-egpr,-enqcmd,-fma4,-hreset,-kl,-lwp,-movdir64b,-movdiri,-mwaitx,-ndd,-pconfig,-pku,-ppx,-prefetchi,-ptwrite,-push2pop2,-raoint,-rdpru,-rtm,-serialize,-sgx,-sha512,-sm3,-sm4,-tbm,-tsxldtrk,-uintr,-usermsr,-waitpkg,-wbnoinvd,-widekl,-xop" }
attributes #1 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #2 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite) }
