"""Sums of e^{<Mx,y>} with any matrix M, between harmonics in y and harmonics in x."""

from meanfield.bilinear.circle import CircleBilinear
from meanfield.bilinear.scores import largest_score, score_matrix
from meanfield.bilinear.sphere import SphereBilinear

__all__ = ["CircleBilinear", "SphereBilinear", "largest_score", "score_matrix"]
