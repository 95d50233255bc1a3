#!/bin/sh
# bundle.sh BUILD: packs what run.py needs on a machine with a GPU, but without a compiler, LLVM or network, as
# BUILD/lamina-gpu.tar.xz. The C and C++ libraries of this machine go along, but for those of the system.
set -eu
build=$1
here=$(dirname "$0")
out=$build/lamina-gpu
rm -rf "$out"
mkdir -p "$out/lib"
llvm=$(find "$build/.." "$here/../../python/lamina" -maxdepth 3 -name liblamina_llvm.so | head -n 1)
cp "$build/tests/lamina_tests" "$build/tests/bench/cuda_bench" "$llvm" "$here/run.py" "$out/"
for file in "$out/lamina_tests" "$out/cuda_bench" "$out/liblamina_llvm.so"; do
  ldd "$file" | awk '$3 ~ /^\// {print $3}'
done | sort -u | while read -r library; do
  case $(basename "$library") in
    libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | ld-linux*) ;;
    *) cp -L "$library" "$out/lib/" ;;
  esac
done
find "$out" -type f ! -name '*.py' -exec strip --strip-unneeded {} + 2>/dev/null || true
tar -C "$build" -cJf "$build/lamina-gpu.tar.xz" lamina-gpu
echo "$build/lamina-gpu.tar.xz: $(du -k "$build/lamina-gpu.tar.xz" | cut -f1) KiB"
