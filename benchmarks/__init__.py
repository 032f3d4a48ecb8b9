"""Measured claims, one module each: `python -m benchmarks [name ...]`."""
