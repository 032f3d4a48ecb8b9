"""Reports: what is measured, as one self-contained page, a JSON document or Markdown.

What they can't use raises a CalibrantError that says where and why.
"""

from calibrant._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
