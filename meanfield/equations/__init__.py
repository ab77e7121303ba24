"""d/dt of a measure under a dynamics: where data and physics meet.

docs/decisions/equations.md says why its files are as they are.
"""
