"""Types of signatures."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "ArrayLike", "Coefficients", "Indices", "Integers", "NDArray", "Rng"]

Array = NDArray[np.float64]
# real or complex, as the space has them
Coefficients = NDArray[Any]
Indices = NDArray[np.intp]
Integers = NDArray[np.int64]
# what is random: a seed, or a generator that goes on
Rng = int | np.random.Generator
