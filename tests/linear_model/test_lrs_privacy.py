"""What a private regression of users may depend on, exactly: with no noise at all."""

import copy
import pickle

import numpy as np
import pytest
from lrs_tools import alike, scripted, table
from release_tools import record_releases
from user_privacy import USERS, D, Fits, data

from skdpspectral import LRSRegressor, PrivacyLeakWarning
from skdpspectral.linear_model import PrivateRounds, UserIntercept

SETTINGS = {
    "usual": {},
    "no shared part": {"n_components": 0},
    "rank 3": {"n_components": 3, "sparsity": 2},
    "start alone": {"solver": PrivateRounds(n_rounds=1)},
    "one release from an array": {
        "solver": PrivateRounds(n_rounds=1, init=[[1.0, -2.0, 0.5, 0.0]])
    },
    "fixed weights": {"shared_weights": "fixed"},
    "fixed weights, no intercept": {"shared_weights": "fixed", "fit_intercept": False},
    "no intercept": {"fit_intercept": False, "n_components": 2},
    "public clips": {
        "solver": PrivateRounds(2, curvature_clip_norm=1.0, gradient_clip_norm=0.5)
    },
    "one public clip": {
        "solver": PrivateRounds(2, gradient_clip_norm=2.0),
        "fit_intercept": False,
    },
    "replaced": {"neighbors": "replace-one"},
    "replaced, public clips": {
        "neighbors": "replace-one",
        "solver": PrivateRounds(2, curvature_clip_norm=10.0, gradient_clip_norm=1.0),
        "n_components": 3,
    },
    "threads": {"n_jobs": 2, "n_components": 2},
    "no sparse part": {"sparsity": 0},
    "no ridges": {"ridge_shared": 0.0, "ridge_sparse": 0.0, "n_components": 2},
    "public scale": {"scale": [1.0, 10.0, 0.1, 3.0]},
    "levels": {"fit_intercept": UserIntercept(prior=2.0, ridge=3.0)},
    "all features": {
        "sparsity": None,
        "fit_intercept": UserIntercept(ridge=1.0),
        "n_components": 2,
    },
    "offsets": {"fit_intercept": UserIntercept(offset_feature=2)},
}


def regressor(name, **parameters):
    return LRSRegressor(
        **{
            "user_feature": 0,
            "verbose": 1,
            "solver": PrivateRounds(n_rounds=2),
            **SETTINGS[name],
            **parameters,
        }
    )


# -- nothing depends on a user but what is released ------------------------------------


FITS = Fits(regressor)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore:this LRSRegressor is not private")
def test_all_that_is_public_is_a_function_of_the_releases(name):
    FITS.check_that_releases_decide(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore:this LRSRegressor is not private")
def test_a_user_moves_every_sum_by_their_own_vector_and_no_other_number(name):
    model, moves = FITS.moves(name)
    for mechanism in model.privacy_.mechanisms:
        one_user = mechanism.charged_sensitivity
        if mechanism.name != "start":
            one_user /= 1 + (model.neighbors == "replace-one")
        else:
            one_user /= np.sqrt(1 + (model.neighbors == "replace-one"))
        assert 0.1 < moves[mechanism.name] <= one_user
        if mechanism.name.startswith("median"):
            assert moves[mechanism.name] == 0.5 * np.sqrt(np.prod(mechanism.shape))
        else:
            # The charge is no more generous than the grid is coarse.
            assert one_user <= 1.01


@pytest.mark.parametrize("copies", [2, 7])
def test_a_user_counts_no_more_for_rows_that_are_repeated(copies):
    """Without ridges, rows many times over are the same model and the same vector."""
    rows, y = alike(1, 3, D, seed=5)[1]
    often = np.tile(rows, (copies, 1)), np.tile(y, copies)
    exact = []
    for user in ((rows, y), often):
        # So long a unit that nothing is clipped: clipping hides a missing 1 / m.
        model = regressor(
            "no ridges",
            solver=PrivateRounds(2, curvature_clip_norm=1e3, gradient_clip_norm=1e3),
        )
        with scripted() as asked:
            model.set_params(sparsity=0, verbose=0).fit(*data(user, users={}))
        exact.append(asked)
    once, repeated = (asked["moments_1"] for asked in exact)
    assert 1e-6 < np.linalg.norm(once) < 1.0
    grid = model.privacy_["moments_1"].grid
    np.testing.assert_allclose(repeated, once, atol=1.01 * grid, rtol=0.0)


@pytest.mark.parametrize("kind", ["at rest at once", "never at rest"])
@pytest.mark.parametrize("n_rounds", [1, 4])
def test_the_number_of_releases_is_as_planned_for_any_data(kind, n_rounds):
    users = alike(8, 6, D)
    if kind == "at rest at once":
        users = {user: (rows, rows @ np.ones(D)) for user, (rows, _) in users.items()}
    model = regressor("public clips", epsilon=1e6, noise_seed=0)
    model.set_params(solver__n_rounds=n_rounds, sparsity=0, verbose=0)
    # At so little noise, U is the same again and again where it can be.
    with record_releases() as released:
        model.fit(*table(users))
    assert model.n_iter_ == len(released) == n_rounds
    assert list(released) == [m.name for m in model.privacy_.mechanisms]


# -- what is handed on -----------------------------------------------------------------

_NAMES = [f"user-{i}-of-the-secret-list" for i in range(9)]
_NUMBERS = [7_340_000_000_017 + 1000 * i for i in range(9)]


def secrets_of(model):
    """Bytes and decimal text of all that belongs to users."""
    personal, found = model._personal, []
    coefs = [model.get_coef(user) for user in model._test_ids]
    parts = (personal.weights, personal.sparse, personal.intercepts, *coefs)
    # Fixed weights are public, and so are coefficients beside a sparse part.
    public = {0.0, 1.0, *model.coef_.tolist()}
    for number in np.concatenate([np.ravel(part) for part in parts]).tolist():
        if number not in public:
            found += [number.hex().encode(), repr(number).encode()]
            found += [np.float64(number).tobytes(), np.float64(number).tobytes()[::-1]]
    return found


@pytest.mark.parametrize("ids", [_NAMES, _NUMBERS], ids=["strings", "numbers"])
@pytest.mark.parametrize("name", ["usual", "no shared part", "rank 3", "fixed weights"])
def test_nothing_that_is_handed_on_holds_anything_of_a_user(name, ids, tmp_path):
    X, y = table(USERS)
    users = np.array(ids)[X[:, 0].astype(int) - 1]
    model = regressor(name, ridge_sparse=0.1).set_params(user_feature=None, verbose=0)
    model.fit(X[:, 1:], y, users=users)
    model._test_ids = ids
    wanted = secrets_of(model)
    for user in ids:
        wanted += [str(user).encode(), str(user).encode("utf-16-le")]
        wanted += [] if isinstance(user, str) else [np.int64(user).tobytes()]
    assert len(wanted) > 50
    handed_on = [repr(model).encode(), str(model.privacy_).encode()]
    for published in (model.publish(), model.publish().publish()):
        file = tmp_path / "model.npz"
        published.save(file)
        with np.load(file) as archive:
            handed_on += [archive[key].tobytes() for key in archive.files]
        handed_on += [file.read_bytes(), pickle.dumps(published)]
        handed_on += [pickle.dumps(copy.deepcopy(published)), repr(published).encode()]
        assert not hasattr(published, "_personal")
        assert {k for k in vars(published) if k not in published.get_params()} == {
            key for key in vars(model) if key.endswith("_")
        }
    handed_on.append(LRSRegressor.load(file).privacy_.to_json().encode())
    for secret in wanted:
        assert not any(secret in public for public in handed_on), secret
    # The estimator itself does hold them, which it says when it is pickled.
    with pytest.warns(PrivacyLeakWarning, match="models of its users"):
        whole = pickle.dumps(model)
    assert sum(secret in whole for secret in wanted) >= len(wanted) / 8
