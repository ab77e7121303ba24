"""Measured ratios, side by side in one process."""
