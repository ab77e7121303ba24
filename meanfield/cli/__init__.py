"""The command line: case files, sweeps, commands, and the page of a run.

docs/decisions/cli.md says why its files are as they are.
"""
