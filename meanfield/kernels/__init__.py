"""Kernels and their sums over measures: by multipliers, directly, in cells, in harmonics.

docs/decisions/kernels.md says why its files are as they are.
"""
