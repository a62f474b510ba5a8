"""Kernels of principal components: moments, leading vectors, ranks, power steps."""
