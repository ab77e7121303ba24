"""meanfield: spectral solvers for the mean-field limit of self-attention on circle and spheres.

Source of the model and of all equation numbers: Geshkovski, Letrouit, Polyanskiy, Rigollet,
"A mathematical perspective on Transformers", arXiv 2312.10794.
"""

from __future__ import annotations

import importlib
import logging
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import lazy_loader

from meanfield._checks import did_you_mean
from meanfield._shown import Shown

# `__init__.pyi` has what is public; nothing of it is imported before it is used
_loaded, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

try:
    __version__ = version("meanfield-attention")
except PackageNotFoundError:
    __version__ = "unknown"


# the package shows its log records only to programs that ask for them; what a user must see is a
# warning
logging.getLogger(__name__).addHandler(logging.NullHandler())


def _load_plot() -> ModuleType:
    return importlib.import_module("meanfield.plot")


Shown._plot = _load_plot


def __getattr__(name: str) -> object:
    """Import a public name; its home is the package: pickles and tracebacks survive a move."""
    if name not in __all__:
        meant = "" if name.startswith("_") else did_you_mean(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
    part = _loaded(name)
    if hasattr(part, "__module__"):
        part.__module__ = __name__
    return globals().setdefault(name, part)


def __dir__() -> list[str]:
    """The public names, without the rooms that importing them has opened."""
    return sorted([*__all__, "__version__"])
