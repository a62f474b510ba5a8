"""What the theory of the papers says of errors: pure functions of public numbers.

They are for plans and figures: how much more a measured error is than what no private
method can go below, or what a closed form says of it. No guarantee rests on them, and
rates are known up to constants.
"""

from ._rates import minimax_rate, stream_covariance_error

__all__ = ["minimax_rate", "stream_covariance_error"]
