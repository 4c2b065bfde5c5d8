"""PUMP: run unmodified CUDA programs that need more GPU memory than there is."""

from importlib.metadata import version

__version__ = version("pump")
