"""Trained Transformers: their hidden states, read from files and held against their matrices.

docs/decisions/trained.md says why its files are as they are.
"""

import lazy_loader

# `__init__.pyi` lists what is public
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
