"""Replays: a fit on neighboring data is given the releases of a fit on the first.

All noise is drawn in ``skdpspectral._release``. A :class:`Tape` takes its place: on
data A it notes what each release would be without noise, and what was released; on the
neighbor B it returns the releases of A. So all later steps see the same, and

* the difference of both values of a release, over the sensitivity that was charged for
  it, is the realized share of its cost: at most 1;
* everything else must be equal, to the byte: attributes, what is published and saved,
  predictions, texts, warnings, lines, errors, plans that are charged.
"""

import contextlib
import copy
import io
import itertools
import math
import pickle
import random
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import cloudpickle
import numpy as np
from sklearn.base import BaseEstimator

from skdpspectral import PrivacyBudgetError
from skdpspectral._base.estimator import PrivateEstimator
from skdpspectral._release import noise
from skdpspectral._release.noise import mirror_lower, round_to_integers
from skdpspectral.decomposition import _federated_pca
from skdpspectral.federation import _groups as _group_client
from skdpspectral.mechanisms import (
    CorrelatedGaussian,
    ExponentialMechanism,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    SampledGaussian,
)
from skdpspectral.model_selection._vote import Ballot
from skdpspectral.pipeline import PrivatePipeline

# Ratios are of numbers on a grid, and of sums of squares of these.
ROUNDING = 1e-12
SHADED = "a budget that is used up"


# -- what is released ------------------------------------------------------------------


class Asked(NamedTuple):
    """One call of what draws noise: its mechanism, exact grid numbers, and answer."""

    mechanism: Any
    exact: np.ndarray | None
    released: np.ndarray
    # Streams: which one, and its filter before any step.
    stream: int | None = None
    shaping: Any = None
    # Who was in the sample of this step; None without samples.
    sample: np.ndarray | None = None
    # Whether its noise is that of a public seed, as of trials on made-up rows.
    seeded: bool = False


class Above(list):
    """Values that were released of each column, as an array of no shape."""

    shape = ()


@dataclass
class Counts:
    """Counts of the values of each column, in steps of a grid."""

    grid: float
    counts: list

    def __sub__(self, other):
        """Return differences of the counts of values that occur in both."""
        pairs = zip(self.counts, other.counts, strict=True)
        both = [one[v] - two[v] for one, two in pairs for v in one.keys() & two.keys()]
        return np.array(both, dtype=float) / self.grid


@dataclass
class Tape:
    """Takes the place of all noise, and gives the answers of another tape if asked."""

    given: "Tape | None" = None
    # Whether charges pass; without, each raises as a used-up budget does.
    budget: bool = True
    # Whether noise has the keys that it has without a tape.
    fresh: bool = False
    asked: list = field(default_factory=list)
    charged: list = field(default_factory=list)
    plans: list = field(default_factory=list)
    # Costs of these; of clients, the largest, since a row is with one of them.
    mus: list = field(default_factory=list)
    # Blocks that vote make fits of their own, of which nothing leaves but the votes.
    in_block: bool = False
    apart: str | None = None
    n_generators: int = 0
    seeded: list = field(default_factory=list)
    n_streams: int = 0
    last_sample: np.ndarray | None = None
    # Of each sample: its size, of how many units, and the plan's rate.
    sizes: list = field(default_factory=list)

    def generator(self, noise_seed=None):
        """Return the next generator: the same one in each replay."""
        self.n_generators += 1
        if self.fresh:
            made = _noise_generator(noise_seed)
            self.seeded += [made] * (noise_seed is not None)
            return made
        return noise.generator_of_key(self.n_generators)

    def charge(self, plan, accountant=None, noise_seed=None):
        """Note a plan, and refuse it if there is no budget."""
        self.plans.append(plan)
        self.mus.append(plan.mu_beside_curves)
        self.charged.append(plan.to_json())
        if not self.budget:
            raise PrivacyBudgetError(SHADED)
        if accountant is not None:
            accountant.charge(plan)

    def answer(self, asked):
        """Note what was asked for; return its answer, or that of the other tape."""
        place = len(self.asked)
        if self.given is not None and self.apart is None:
            others = self.given.asked
            same = place < len(others) and (
                others[place].mechanism == asked.mechanism
                and others[place].released.shape == asked.released.shape
                and _alike(others[place].sample, asked.sample)
            )
            if same:
                asked = asked._replace(released=others[place].released)
            else:
                self.apart = f"release {place}, {asked.mechanism.name!r}"
        self.asked.append(asked)
        return asked.released.copy()

    # -- in the place of functions of the package ------------------------------------

    def add_noise(self, mechanism, value, generator):
        """Stand for ``_add_noise`` of planned releases."""
        exact = None
        if hasattr(mechanism, "grid"):
            exact = mirror_lower(value.copy("F")) if mechanism.symmetric else +value
            exact = exact.copy()
            round_to_integers(exact, mechanism.grid)
        released = _add_noise(mechanism, value, generator).copy()
        asked = Asked(mechanism, exact, released, seeded=self._has_seed(generator))
        value[...] = self.answer(asked)
        return value

    def _has_seed(self, generator):
        return any(generator is one for one in self.seeded)

    def above(self, mechanism, counts, generator):
        """Stand for what names the values whose noisy counts are above a threshold."""
        released = Above(_above(mechanism, counts, generator))
        if any(list(one) != sorted(one) for one in released):
            self.apart = "an order"
        exact = Counts(mechanism.grid, counts) if hasattr(mechanism, "grid") else None
        given = self.answer(Asked(mechanism, exact, released))
        if self.given is not None and self.apart is None:
            own = [set(one) - set(two) for one, two in zip(given, counts, strict=True)]
            if any(own):  # what is left to the probability of failure
                self.apart = f"a value that does not occur, of {mechanism.name!r}"
        return list(given)

    def begin_stream(self, noise, mechanism, shaping, generator):
        """Stand for the constructor of correlated noise."""
        seeded = self._has_seed(generator)
        noise._replayed = self.n_streams, mechanism, copy.deepcopy(shaping), seeded
        self.n_streams += 1
        _begin_stream(noise, mechanism, shaping, generator)

    def add_to(self, noise, rows, position):
        """Stand for what adds correlated noise to rows."""
        stream, mechanism, shaping, seeded = noise._replayed
        exact = rows.copy()
        round_to_integers(exact, mechanism.grid)
        _add_to(noise, rows, position)
        sample, self.last_sample = self.last_sample, None
        rows[...] = self.answer(
            Asked(mechanism, exact, rows.copy(), stream, shaping, sample, seeded)
        )

    def sample_units(self, owner, position, n_units):
        """Stand for ``StreamRelease.sample``, and note the sample."""
        self.last_sample = _sample_units(owner, position, n_units)
        rate = getattr(owner.plan.mechanisms[0], "sampling_probability", 1.0)
        self.sizes.append((len(self.last_sample), n_units, rate))
        return self.last_sample

    def option(self, mechanism, sums, generator):
        """Stand for the draw of an exponential mechanism."""
        drawn = np.array(float(_draw_option(mechanism, sums, generator)))
        return int(self.answer(Asked(mechanism, np.array(sums), drawn)))

    def block(self, ballot, number, X, y):
        """Stand for a block that votes, whose own noise is none of this tape."""
        self.in_block = True
        try:
            return _block(ballot, number, X, y)
        finally:
            self.in_block = False

    @contextlib.contextmanager
    def playing(self):
        """Take the place of all noise in this process."""

        def method(function):
            return lambda *args, **named: function(*args, **named)

        with contextlib.ExitStack() as stack:

            def put(where, name, what):
                plain = getattr(where, name)

                def played(*args, **named):
                    return (plain if self.in_block else what)(*args, **named)

                stack.enter_context(patch.object(where, name, played))

            put(noise, "_add_noise", self.add_noise)
            put(noise, "_above", self.above)
            put(noise, "noise_generator", self.generator)
            put(noise._ShapedNoise, "__init__", method(self.begin_stream))
            put(noise._ShapedNoise, "add_to", method(self.add_to))
            put(noise.StreamRelease, "sample", method(self.sample_units))
            put(noise, "draw_option", self.option)
            put(Ballot, "__call__", method(self.block))
            for module in (noise, _group_client):
                put(module, "charge", self.charge)
            ledger = types.SimpleNamespace(charge=self.charge)
            put(PrivatePipeline, "_governing_accountant", lambda pipeline: ledger)
            federated = _federated_pca.FederatedEstimator
            put(federated, "_charge", method(self._charge_clients))
            yield self

    def _charge_clients(self, estimator, plans):
        begin = len(self.mus)
        for plan in plans.values():
            self.charge(plan)
        self.mus[begin:] = [max(self.mus[begin:])]


_noise_generator = noise.noise_generator
_add_noise = noise._add_noise
_above, _draw_option = noise._above, noise.draw_option
_block = Ballot.__call__
_begin_stream, _add_to = noise._ShapedNoise.__init__, noise._ShapedNoise.add_to
_sample_units = noise.StreamRelease.sample


def _alike(one, other):
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


# -- how far releases have moved -------------------------------------------------------


def moved(mechanism, difference):
    """Return the norm of a difference of grid numbers, in the mechanism's geometry."""
    square = float(np.sum(np.square(difference)))
    return mechanism.grid * np.sqrt(square)


def shares(first, second, changed=None):
    """Yield for each release its mechanism, and the share of its cost that is realized.

    `changed` are units in which they differ: sums without them must be the same.
    """
    by_stream = {}
    for one, two in zip(first.asked, second.asked, strict=False):
        if one.exact is None or two.exact is None:
            continue
        difference = one.exact - two.exact
        if isinstance(one.mechanism, ExponentialMechanism):
            yield one.mechanism, np.abs(difference).max() / one.mechanism.sensitivity
        elif one.stream is None:
            # Whole symmetric matrices: off-diagonals count twice, as in the isometry.
            ratio = moved(one.mechanism, difference) / one.mechanism.charged_sensitivity
            yield one.mechanism, ratio
        elif isinstance(one.mechanism, SampledGaussian):
            replaced = first.plans[0].neighbors is Neighbors.REPLACE_ONE
            yield one.mechanism, _sampled_share(one, difference, changed, 1 + replaced)
        else:
            by_stream.setdefault(one.stream, (one, []))[1].append(difference)
    for one, parts in by_stream.values():
        yield one.mechanism, _stream_share(one, np.concatenate(parts))


def _sampled_share(asked, difference, changed, n_terms):
    """Return the share of one step, whose sum has one term more, or two others."""
    distance = moved(asked.mechanism, difference)
    if changed is not None and not changed & set(asked.sample.tolist()):
        return np.inf if distance else 0.0
    return distance / asked.mechanism.charged_sensitivity / n_terms


def _stream_share(asked, difference):
    """Return that of a whole stream: the norm of C times the differences of rows."""
    distance = moved(asked.mechanism, _whitened(asked, difference))
    return distance / asked.mechanism.charged_sensitivity


def _whitened(asked, rows):
    """Return C times rows, where the filter multiplies by the inverse of C."""
    touched = np.flatnonzero(rows.any(axis=1))
    whitened, rest = np.zeros_like(rows), rows.copy()
    if len(touched):
        # Forward substitution: what is left at a step is what this step has of it.
        for step in range(touched[0], len(rows)):
            answer = _pulse(asked, len(rows), step)
            whitened[step] = rest[step] / answer[step]
            rest -= answer * whitened[step]
    return whitened


_pulses: dict = {}


def _pulse(asked, n_steps, step):
    """Return what the filter makes of ones in one step, in each column."""
    key = asked.mechanism, n_steps, step
    if key not in _pulses:
        pulse = np.zeros((n_steps, asked.exact.shape[1]))
        pulse[step] = 1.0
        _pulses[key] = copy.deepcopy(asked.shaping).push(pulse).copy()
    return _pulses[key]


# -- everything else -------------------------------------------------------------------


def encode(value):
    """Return something comparable that has every bit of a value."""
    if isinstance(value, np.ma.MaskedArray):
        return "masked", encode(
            value.filled(None) if value.dtype == object else value.data
        )
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return value.shape, tuple(map(encode, value.ravel().tolist()))
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return str(value.dtype), value.tobytes()
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, dict):
        return "dict", tuple((repr(k), encode(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(encode, value))
    if isinstance(value, PrivacyPlan):
        return str(value), value.to_json()
    if hasattr(value, "toarray"):
        return encode(value.toarray())
    if hasattr(value, "to_numpy"):
        return list(map(str, getattr(value, "columns", ()))), encode(value.to_numpy())
    if isinstance(value, BaseEstimator):
        return type(value).__name__, encode(public_of(value))
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return type(value).__name__, _text_of(value)


def _text_of(value):
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def public_of(model):
    """Return the public attributes and parameters of a fitted model."""
    found = {
        name: value
        for name, value in sorted(vars(model).items())
        if name.endswith("_") and not name.startswith("_")
    }
    parameters = model.get_params(deep=False)
    return found | {f"({name})": parameters[name] for name in sorted(parameters)}


# Models of users are theirs, and noise of a stream is secret: the threat model says so.
SECRET_STATE = {"_personal", "_stream", "_users_given", "accountant"}


def _inside(value, depth=3):
    """Return all bits of an object, of the attributes of its attributes too."""
    with contextlib.suppress(Exception):  # of functions, what they close over
        return cloudpickle.dumps(value)
    if type(value).__module__.startswith(("skdpspectral", "sklearn")) and depth:
        held = getattr(value, "__dict__", {})
        return type(value).__name__, tuple(
            (name, _inside(one, depth - 1)) for name, one in sorted(held.items())
        )
    return encode(value)


def leaving(model):
    """Return everything that a fitted model shows or holds, by name."""
    found = {f"attribute {k}": encode(v) for k, v in public_of(model).items()}
    found |= {
        f"private {k}": _inside(v)
        for k, v in vars(model).items()
        if f"attribute {k}" not in found and k not in SECRET_STATE
    }
    found["repr"] = repr(model)
    for name in ("privacy_", "n_iter_"):
        if hasattr(model, name):
            found[f"text of {name}"] = str(getattr(model, name))
    if isinstance(model, PrivateEstimator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            published = model.publish()
        found["published"] = {k: encode(v) for k, v in sorted(vars(published).items())}
        # A saved file is made of this object, and of nothing else.
        found["pickle of published"] = pickle.dumps(published)
    return found


@dataclass
class Played:
    """A fit that was played: its tape, what it shows, and its error."""

    tape: Tape
    seen: dict
    error: str | None = None

    @property
    def charged(self):
        """Whether anything was charged."""
        return bool(self.tape.charged)


def play(act: Callable[[], dict], tape: Tape) -> Played:
    """Return what an act, which returns what it shows by name, lets out."""
    printed, error, seen = io.StringIO(), None, {}
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    with (
        tape.playing(),
        _in_one_thread(),
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        try:
            seen = act()
        except Exception as raised:
            error = _chain(raised)
    seen["warnings"] = [(w.category.__name__, str(w.message)) for w in caught]
    seen["printed"] = printed.getvalue()
    seen["plans"] = list(tape.charged)
    seen["later draws"] = np.random.random(), random.random()  # noqa: NPY002
    return Played(tape, seen, error)


def _in_one_thread():
    """Return a context in which dask computes at once, if it is there."""
    dask = sys.modules.get("dask")
    if dask is None:
        return contextlib.nullcontext()
    return dask.config.set(scheduler="synchronous")


def _chain(raised):
    """Return the texts of an error, and of what a traceback shows with it."""
    return "".join(
        line
        for part in _linked(raised)
        for line in traceback.format_exception_only(type(part), part)
    )


def _linked(raised):
    while raised is not None:
        yield raised
        hidden = None if raised.__suppress_context__ else raised.__context__
        raised = raised.__cause__ or hidden


# -- comparing -------------------------------------------------------------------------


class Found(NamedTuple):
    """Something that differs between neighbors, or moves too far."""

    case: str
    neighbor: str
    what: str
    more: str = ""


@dataclass
class Closest:
    """What came of a family's pairs."""

    # Pairs whose first data can be fitted; of these, refused ones; and without budget.
    n_pairs: int = 0
    n_refused: int = 0
    n_budgets: int = 0
    n_releases: int = 0
    # The largest share of its cost that a release, and a whole fit, has realized.
    ratio: float = 0.0
    where: str = ""
    total: float = 0.0
    found: list = field(default_factory=list)
    # Errors of first data, by case: of these nothing was seen.
    unfit: dict = field(default_factory=dict)

    def note(self, ratio, where):
        """Note the share of its cost that a release has realized."""
        self.n_releases += 1
        if ratio > self.ratio:
            self.ratio, self.where = float(ratio), where


@dataclass(frozen=True)
class Case:
    """Data with all their neighbors by name, and ``act(data)``, which shows a fit."""

    name: str
    act: Callable
    data: Any
    neighbors: dict
    # Positions of rows in which a neighbor differs, where these are public.
    changed: dict = field(default_factory=dict)
    # Neighbors whose unit can be no input: a fit may refuse them once it is charged, in
    # the same words whatever the value is and wherever, with `one_text`.
    invalid: frozenset = frozenset()
    # What no text may have in it.
    secrets: tuple = ()
    # Whether releases have a bound for all data, and not for those of a model alone.
    bounded: bool = True
    # Neighbors in which a unit leaves and another joins: two steps.
    twice: frozenset = frozenset()
    # Splits are not charged.
    charges: bool = True
    one_text: bool = True


def compare(case: Case, closest: Closest, budget: bool = True) -> None:
    """Play a case, and note what its neighbors show of it.

    Without a budget all fits must be refused alike: before a charge no value has a say.
    """
    first = play(lambda: case.act(case.data), Tape(budget=budget))
    if budget and first.error is not None:
        closest.unfit[case.name] = first.error
    refusals = {}
    for neighbor, data in case.neighbors.items():
        given = first.tape if budget else None
        second = play(lambda data=data: case.act(data), Tape(given, budget))
        if budget and first.error is None:
            closest.n_pairs += 1
        else:
            closest.n_budgets += 1

        def note(what, more="", neighbor=neighbor):
            closest.found.append(Found(case.name, neighbor, what, str(more)[:300]))

        for secret in case.secrets:
            if secret in f"{second.error}{second.seen['warnings']}":
                note("a secret in a text", second.error or second.seen["warnings"])
        may_refuse = budget or not case.charges
        # A form that is refused before the charge is refused in the same words.
        known = first.error is None or first.charged
        invalid = neighbor in case.invalid and may_refuse and known
        if invalid and second.error is not None:
            closest.n_refused += 1
            if case.charges and not second.charged:
                note("refused before the charge", second.error)
            if first.tape.charged[: len(second.tape.charged)] != second.tape.charged:
                note("other charges", second.tape.charged)
            refusals.setdefault(neighbor.split(":")[0], {})[neighbor] = second.error
            continue
        if first.error != second.error:
            note("error", f"{first.error} -> {second.error}")
            continue
        _compare_seen(first, second, note)
        if budget:
            _compare_releases(case, first, second, neighbor, closest, note)
    for kind, texts in refusals.items():
        if case.one_text and len(set(texts.values())) > 1:
            closest.found.append(
                Found(
                    case.name, kind, "refusals differ", str(set(texts.values()))[:400]
                )
            )


def _compare_seen(first, second, note):
    for part in first.seen.keys() | second.seen.keys():
        one, two = first.seen.get(part), second.seen.get(part)
        if one != two:
            note(part, f"{str(one)[:140]} -> {str(two)[:140]}")


def _compare_releases(case, first, second, neighbor, closest, note):
    apart = second.tape.apart
    if apart is None and len(first.tape.asked) != len(second.tape.asked):
        apart = "number of releases"
    if apart is not None:
        note("other releases", apart)
        return
    if not case.bounded:
        return
    limit = 1.0 + ROUNDING
    changed, steps = case.changed.get(neighbor), 1 + (neighbor in case.twice)
    square = 0.0
    for mechanism, ratio in shares(first.tape, second.tape, changed):
        ratio /= steps
        closest.note(ratio, f"{case.name} | {neighbor} | {mechanism.name}")
        if not ratio <= limit:
            note(f"moved {mechanism.name}", f"{ratio} of what is charged")
        if type(mechanism) in (Gaussian, CorrelatedGaussian):
            square += (ratio * mechanism.mu) ** 2
    planned = math.hypot(*first.tape.mus)
    if planned:
        closest.total = max(closest.total, math.sqrt(square) / planned if square else 0)
        if math.sqrt(square) > planned * limit:
            note("moved the fit", f"mu {math.sqrt(square)} of {planned} planned")


def tally(cases, closest=None, budgets=(True,)):
    """Return what all cases have come to."""
    closest = Closest() if closest is None else closest
    for case, budget in itertools.product(cases, budgets):
        compare(case, closest, budget)
    return closest
