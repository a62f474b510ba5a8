"""Entries of OpenDP's registry of deployments."""

import json

import pytest

from skdpspectral import statement

yaml = pytest.importorskip("yaml")

# What schemas/deployments-schema.yaml requires.
REQUIRED = {
    "basic": (
        *("name", "data_curators", "description", "intended_use", "data_product_type"),
        *("data_product_region", "publication_date"),
    ),
    "dp_variant": ("variant_name",),
    "privacy_loss": ("privacy_unit", "privacy_parameters"),
    "deployment_model": ("model_name", "release_type"),
    "implementation": ("mechanisms",),
    "administrative": ("status", "registry_authors", "tier"),
}
CHOICES = {
    ("dp_variant", "variant_name"): {"Approximate DP"},
    ("deployment_model", "model_name"): {"Central", "Federated"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("administrative", "status"): {"Draft"},
}
WORDS = {
    "title": "Factors: a 'test' # of \"words\"",
    "curator": "Überall \U0001f600 & Co",
    "intended_use": "- none\n- at all",
    "description": "x: y",
    "date": "2026-01-31",
    "tuning": "None.",
}


@pytest.mark.parametrize(
    "name", ["estimator", "federation", "stream", "ledger", "open"]
)
@pytest.mark.parametrize("words", [{}, WORDS])
def test_entries_have_the_fields_of_the_registry(kinds, name, words):
    text = statement(kinds[name], **words).to_registry()
    entry = yaml.safe_load(text)
    assert entry == json.loads(text)
    assert list(entry) == ["url_slug", "deployment"]
    for section, fields in REQUIRED.items():
        found = entry["deployment"][section]
        assert set(fields) <= set(found)
        for field, value in found.items():
            assert value in CHOICES.get((section, field), [value])
    assert ("TODO" in str(entry["deployment"]["privacy_loss"])) == (name == "open")
    named = text.count("TODO")
    assert named == 2 if words and name != "open" else named > 2


def test_figures_and_words_are_those_of_the_statement(kinds):
    entry = yaml.safe_load(statement(kinds["estimator"], **WORDS).to_registry())
    plan, found = kinds["estimator"].privacy_, entry["deployment"]
    loss = found["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": plan.epsilon, "delta": plan.delta}
    basic = found["basic"]
    assert basic["name"] == WORDS["title"]
    assert basic["data_curators"][0]["data_curator_name"] == WORDS["curator"]
    assert basic["intended_use"] == WORDS["intended_use"]
    assert basic["publication_date"] == "2026-01-31"
