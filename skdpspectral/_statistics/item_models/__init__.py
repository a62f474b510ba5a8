"""Models of items from users' ratings: offsets in two rounds, then factors.

In every round a user answers with one vector of norm at most one, made from their own
ratings and earlier releases; the sum over users is released with noise.
"""
