"""Statistics from which principal components follow.

One file a mechanism, and the combination that shares a budget between them.
"""
