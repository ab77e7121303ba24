"""d/dt of a measure under a dynamics: where data and physics meet."""
