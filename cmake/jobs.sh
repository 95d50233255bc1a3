#!/bin/sh
# Prints how many compile jobs to run: one per processor, each with 2 GiB of memory, at least one.
cpus=$(nproc)
memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
by_memory=$((memory_kib / (2 * 1024 * 1024)))
jobs=$((cpus < by_memory ? cpus : by_memory))
echo $((jobs > 1 ? jobs : 1))
