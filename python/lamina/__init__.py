"""Lamina: array programs recorded lazily, transformed, clustered and compiled.

``import lamina as lm``, ``import lamina.numpy as lnp``. Nothing here imports NumPy or loads LLVM.
"""
