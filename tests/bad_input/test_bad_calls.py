"""Every bad call is refused: named, free of charge, nothing changed, nothing quoted.

One row per bad call, in the tables beside this file. What is charged all the same has
its mistake in a value, which is read once a fit is charged.
"""

from typing import NamedTuple

import bad_calls_accounting
import bad_calls_factors
import bad_calls_federated
import bad_calls_items
import bad_calls_lrs
import bad_calls_networks
import bad_calls_pca
import bad_calls_ridge
import bad_calls_scaler
import bad_calls_streams
import bad_calls_tables
import bad_calls_user_networks
import pytest
import sklearn
from bad_cases import Stage, bad, fault_of

from skdpspectral import PrivacyAccountant

# Warnings that come before the error.
LEAKS = "ignore::skdpspectral.PrivacyLeakWarning"
NAMELESS = "ignore:X does not have valid feature names"
CATALOG = "ignore:items=None:UserWarning"


class Table(NamedTuple):
    """Rows of one module, and what holds for all of them."""

    module: object
    ignored: tuple = (LEAKS, NAMELESS)
    # What no error may quote.
    secrets: tuple = ()
    # Whether scikit-learn's validation of parameters is not needed to name them.
    named_without_validation: bool = False
    # Whether the data are not searched for NaN and infinity either, and the mistakes
    # that nothing finds then.
    assume_finite: bool = False
    unseen: tuple = ()


TABLES = {
    "accounting": Table(bad_calls_accounting),
    "factors": Table(
        bad_calls_factors,
        (LEAKS, NAMELESS, CATALOG, "ignore:columns of X besides users:UserWarning"),
        bad_calls_items.SECRETS,
        assume_finite=True,
    ),
    "federated": Table(bad_calls_federated, secrets=(bad_calls_federated.SECRET,)),
    "items": Table(
        bad_calls_items,
        (LEAKS, NAMELESS, CATALOG),
        bad_calls_items.SECRETS,
        assume_finite=True,
    ),
    "lrs": Table(bad_calls_lrs),
    "networks": Table(
        bad_calls_networks,
        (LEAKS, "ignore:A column-vector y was passed"),
        ("7321",),
    ),
    "pca": Table(bad_calls_pca),
    "ridge": Table(
        bad_calls_ridge,
        (LEAKS, NAMELESS, "ignore:.* targets cannot be distinguished:UserWarning"),
        (bad_calls_ridge.SECRET,),
        assume_finite=True,
        unseen=("NaN", "infinity"),
    ),
    "scaler": Table(
        bad_calls_scaler,
        secrets=(bad_calls_scaler.SECRET,),
        assume_finite=True,
        unseen=("NaN", "infinity"),
    ),
    "streams": Table(
        bad_calls_streams,
        (),
        (bad_calls_streams.SECRET,),
        named_without_validation=True,
    ),
    "tables": Table(bad_calls_tables, secrets=(bad_calls_tables.SECRET,)),
    "user networks": Table(bad_calls_user_networks),
}


def as_parameters(names):
    """Return names of tables, with the warnings that come before errors ignored."""
    return [
        pytest.param(
            name, marks=[pytest.mark.filterwarnings(w) for w in TABLES[name].ignored]
        )
        for name in names
    ]


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    return {
        name: Stage(
            getattr(table.module, "Scene", bad_calls_pca.Scene), tmp_path_factory.mktemp
        )
        for name, table in TABLES.items()
    }


def check(cases, stage, secrets=(), named=True):
    faults = [
        (case.mistake, fault)
        for case in cases
        if (fault := fault_of(case, stage.scene(), secrets, named)) is not None
    ]
    assert not faults, "\n".join(f"{mistake}: {fault}" for mistake, fault in faults)


# A run at work tries one of so many rows.
ONE_OF = [5, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.dependencies])]


@pytest.mark.parametrize("every", ONE_OF)
@pytest.mark.parametrize("name", as_parameters(TABLES))
def test_bad_calls(name, every, stages):
    table = TABLES[name]
    check(table.module.CASES[::every], stages[name], table.secrets)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("name", as_parameters(TABLES))
def test_privacy_does_not_rest_on_an_optional_validation(name, stages):
    """Mistakes are found, and cost nothing, where scikit-learn looks for none."""
    table = TABLES[name]
    cases = [c for c in table.module.CASES if c.mistake not in table.unseen]
    with sklearn.config_context(
        skip_parameter_validation=True, assume_finite=table.assume_finite
    ):
        check(cases, stages[name], named=table.named_without_validation)


# Tables whose mistakes are told apart: of another mistake, another message; and how
# many messages there are at least.
DIFFERENT = {
    "items": (["items"], 120),
    "factors": (["factors"], 120),
    "ridge": (["ridge"], 40),
    "scaler": (["scaler"], 40),
    "tables": (["tables"], 40),
    # They share names of mistakes; this scene has what all of them misuse.
    "lrs": (["pca", "lrs", "accounting"], 400),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", as_parameters(DIFFERENT))
def test_different_mistakes_have_different_messages(name, stages):
    tables, at_least = DIFFERENT[name]
    mistakes = {}
    for case in (case for table in tables for case in TABLES[table].module.CASES):
        # What does not fail, or fails in another way, fails test_bad_calls.
        try:
            case.call(stages[name].scene())
        except Exception as error:
            mistake = case.mistake.replace(" = ", ": ")
            mistakes.setdefault(str(error), set()).add(mistake)
    alike = {text: names for text, names in mistakes.items() if len(names) > 1}
    assert not alike, alike
    assert len(mistakes) > at_least


@pytest.mark.parametrize("name", as_parameters(TABLES))
def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(name, stages):
    """What `check_untouched` would miss, no test of a bad call would find."""
    scene = stages[name].scene()
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()
    scene.accountant = PrivacyAccountant()
    if name in ("networks", "streams", "user networks"):  # they fit anew
        scene.check_untouched()
    else:
        with pytest.raises(AssertionError, match="was lost"):
            scene.check_untouched()


class Spendable:
    charges = 0

    def check_untouched(self, charges=0):
        assert self.charges <= charges, "was charged"


def refuse(scene, message="clip_norm must be positive", error=ValueError, charges=0):
    scene.charges += charges
    raise error(message)


FAULTS = {
    "raised nothing": lambda scene: None,
    "raised KeyError": lambda scene: refuse(scene, error=KeyError),
    "names no": lambda scene: refuse(scene, "clip_norms must be positive"),
    "quotes": lambda scene: refuse(scene, "clip_norm must be positive: 7321.0625"),
    "was charged": lambda scene: refuse(scene, charges=1),
}


def test_every_fault_of_a_refusal_is_found():
    for fault, call in FAULTS.items():
        case = bad("radius", call, "clip_norm")
        assert fault_of(case, Spendable(), ["7321"]).startswith(fault)
    in_values = bad("NaN", FAULTS["was charged"], "clip_norm")._replace(charges=1)
    for case in (in_values, bad("radius", refuse, "clip_norm", "positive")):
        assert fault_of(case, Spendable(), ["7321"]) is None


def test_tables_keep_their_rows():
    """Many rows are made by loops, which a mistake in one of them would empty."""
    numbers = {name: len(table.module.CASES) for name, table in TABLES.items()}
    at_least = {"accounting": 140, "factors": 200, "federated": 140, "items": 210}
    at_least |= {
        "user networks": 85,
        "lrs": 450,
        "ridge": 60,
        "networks": 260,
        "pca": 310,
        "scaler": 50,
        "tables": 50,
        "streams": 100,
    }
    assert {name for name in TABLES if numbers[name] < at_least[name]} == set()
    calls = [case.call.__code__.co_names for case in bad_calls_factors.CASES]
    assert sum("DPMatrixFactorization" in names for names in calls) > 10
