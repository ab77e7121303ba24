"""Distances between measures: a distance is between two measures, and never runs."""
