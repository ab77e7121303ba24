"""Two-token correlations from uniform starts: tokens, and closures of the hierarchy (8.1)."""

from meanfield.studies.correlations.study import two_token_correlation

__all__ = ["two_token_correlation"]
