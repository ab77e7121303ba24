"""Numbers of one instant: energies, dissipation and speed of a measure, distances of two."""
