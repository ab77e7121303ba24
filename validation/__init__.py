"""Claims about meanfield, each held against a closed form or a second representation."""
