"""Numbers of one instant: energies, dissipation and speed of a measure, distances of two.

docs/decisions/functionals.md says why its files are as they are.
"""
