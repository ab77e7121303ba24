"""The command line: case files, sweeps, commands, and the page of a run."""
