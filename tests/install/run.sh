#!/bin/sh
# run.sh BUILD: installs the library of a build folder, builds the project beside this script against it, and runs it.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --component cpp --prefix "$work/prefix" >/dev/null
if grep -rlE '#include "?<?(llvm|absl|cuda|pybind11|hlo|jit)' "$work/prefix/include"; then
  echo "a public header includes what users do not have" >&2
  exit 1
fi
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"
"$work/build/train_mlp"
# The whole API costs a compiler little.
lines=$(echo '#include <lamina/lamina.h>' | c++ -std=c++20 -I "$work/prefix/include" -x c++ -E - | grep -v '^#' | grep -vc '^[[:space:]]*$')
echo "lamina/lamina.h: $lines preprocessed lines"
[ "$lines" -le 40000 ]
