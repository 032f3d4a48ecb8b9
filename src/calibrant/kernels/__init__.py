"""The project's compiled loops. Importing this folder imports no compiler; the first use of a loop does."""

from calibrant._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
