"""Entries of OpenDP's registry of deployments."""

import pytest

from skdpspectral import statement

yaml = pytest.importorskip("yaml")

# Of schemas/deployments-schema.yaml, in its order.
FIELDS = {
    "basic": (
        *("name", "data_curators", "description", "intended_use", "data_product_type"),
        *("data_product_region", "data_product_sector", "publication_date"),
    ),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": (
        *("privacy_unit", "privacy_unit_details", "number_of_privacy_units"),
        *("privacy_parameters", "privacy_parameters_details"),
    ),
    "deployment_model": (
        *("model_name", "model_name_details", "trust_assumptions", "actors"),
        *("release_type", "release_type_details", "data_source_type"),
        *("data_source_type_details", "access_type", "access_type_details"),
    ),
    "implementation": (
        *("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition"),
        *("post_processing", "justification", "utility", "additional_information"),
    ),
    "administrative": ("evidence_sources", "status", "registry_authors", "tier"),
}
CHOICES = {
    ("basic", "data_product_type"): {"Machine learning model"},
    ("dp_variant", "variant_name"): {"Approximate DP"},
    ("deployment_model", "model_name"): {"Central", "Federated"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("deployment_model", "data_source_type"): {"Static", "Dynamic"},
    ("deployment_model", "access_type"): {"Interactive", "Non-interactive"},
    ("administrative", "status"): {"Draft"},
    ("administrative", "tier"): {1, 2, 3},
}
REQUIRED = {
    *("name", "data_curators", "description", "intended_use", "data_product_type"),
    *("data_product_region", "publication_date", "status", "registry_authors", "tier"),
}
WORDS = {
    "title": "Factors: a 'test' # of \"words\"",
    "curator": "Überall \U0001f600 & Co",
    "intended_use": "- none\n- at all",
    "description": "x: y",
    "date": "2026-01-31",
    "tuning": "None.",
    "utility": "Good.",
    "registry": {
        "data_product_region": "no",
        "data_domain": "All tables.",
        "justification": "Known.",
        "data_curator_type": "Government",
    },
}


@pytest.mark.parametrize(
    "name", ["estimator", "federation", "stream", "ledger", "open"]
)
@pytest.mark.parametrize("words", [{}, WORDS])
def test_entries_have_the_fields_of_the_registry(kinds, name, words):
    text = statement(kinds[name], **words).to_registry_yaml()
    entry = yaml.safe_load(text)
    assert list(entry) == ["url_slug", "deployment"]
    assert list(entry["deployment"]) == list(FIELDS)
    for section, fields in entry["deployment"].items():
        names = FIELDS[section]
        assert list(fields) == [field for field in names if field in fields]
        missing = set(names) - set(fields)
        assert not missing & REQUIRED
        for field in missing:
            assert f"    # {field}: TODO" in text
        for field, value in fields.items():
            kinds_of = {"number_of_privacy_units": int, "tier": int}
            kinds_of |= {"privacy_parameters": dict, "data_curators": list}
            kinds_of["registry_authors"] = list
            assert isinstance(value, kinds_of.get(field, str)), field
            assert value in CHOICES.get((section, field), [value])
    for token in yaml.scan(text):
        assert getattr(token, "style", None) in (None, '"', "|")


def test_figures_and_words_are_those_of_the_statement(kinds):
    made = statement(kinds["estimator"], **WORDS)
    entry = yaml.safe_load(made.to_registry_yaml())["deployment"]
    plan = kinds["estimator"].privacy_
    loss = entry["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": plan.epsilon, "delta": plan.delta}
    assert loss["number_of_privacy_units"] == 400
    basic = entry["basic"]
    assert basic["name"] == WORDS["title"]
    assert basic["data_curators"][0]["data_curator_name"] == WORDS["curator"]
    assert basic["intended_use"] == WORDS["intended_use"]
    assert basic["data_product_region"] == "no"
    assert basic["publication_date"] == "2026-01-31"
    assert entry["administrative"]["tier"] == 3
    assert "TODO" not in str(entry["implementation"])
    bare = yaml.safe_load(statement(kinds["estimator"]).to_registry_yaml())
    assert bare["deployment"]["administrative"]["tier"] == 1
    none = yaml.safe_load(statement(kinds["open"], **WORDS).to_registry_yaml())
    assert "privacy_parameters" not in none["deployment"]["privacy_loss"]
