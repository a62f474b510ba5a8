"""Pipelines of private steps under one budget and one guarantee."""

from ._pipeline import PrivatePipeline, make_private_pipeline

__all__ = ["PrivatePipeline", "make_private_pipeline"]
