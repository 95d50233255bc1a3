#!/bin/sh
# as_avx2.sh COMMAND...: runs the command as on a machine with AVX2 alone; where this machine is one, the command would
# do what it does without this, and the exit status is 77.
grep -qw avx512f /proc/cpuinfo || { echo "as_avx2: left out, this machine has no more than AVX2"; exit 77; }
LAMINA_ISA=avx2 exec "$@"
