"""Parameters of networks, named flatly and put into the strategies that have them."""

from sklearn.base import clone

from skdpspectral.neural_network import AlternatingAdam, UserNetwork


def _moved(parameters, name, default):
    """Put what a strategy has into it: a copy of the one given, or the default."""
    rest, own = dict(parameters), {}
    for key in default.get_params():
        if key in rest:
            own[key] = rest.pop(key)
    if own:
        rest[name] = clone(rest.get(name, default)).set_params(**own)
    return rest


def of_users(parameters):
    """Return parameters of LRSMLPRegressor."""
    parameters = _moved(parameters, "user_network", UserNetwork())
    return _moved(parameters, "solver", AlternatingAdam())
