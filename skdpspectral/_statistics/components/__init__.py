"""Statistics from which principal components follow.

Each in a file of its own; ``principal_components`` shares a budget between them,
``mechanism`` chooses one by the parameters of an estimator (``strategies``).
"""
