"""Kernels and their sums over measures: by multipliers, directly, in cells, in harmonics."""
