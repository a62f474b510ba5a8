"""Directions that many users' regressions share: with a budget, and without one.

With a budget users answer releases one after another, each from their own rows and
earlier releases alone; what they answer is summed, with noise.
"""

from .directions import SharedDirections
from .exact import ExactDirections
from .model import SharedModel
from .users import Users

__all__ = ["ExactDirections", "SharedDirections", "SharedModel", "Users"]
