"""Configuration of the documentation; it needs no network to build."""

import inspect
import os
import re
import sys
from importlib.metadata import files
from pathlib import Path

from sphinx.util.inspect import stringify_signature

import skdpspectral

project = "skdpspectral"
author = "The skdpspectral developers"
copyright = author
release = version = skdpspectral.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# Tables are written by scripts, and are parts of pages.
exclude_patterns = [
    *("_build", "auto_examples/**/*.ipynb", "benchmarks_table.rst", "tables/*"),
    "user_guide/pca_ranks_table.rst",
]
default_role = "code"

# -- the reference ---------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# The class template lists methods and properties; a second list is not needed.
numpydoc_show_class_members = False


def skip_foreign_members(app, what, name, obj, skip, options):
    """Leave out what Python or scikit-learn document, and plain attributes."""
    if isinstance(obj, property):
        obj = obj.fget
    elif isinstance(obj, (classmethod, staticmethod)):
        obj = obj.__func__
    module = getattr(obj, "__module__", None) or ""
    ours = callable(obj) and module.startswith("skdpspectral")
    return None if ours else True


def show_init(app, what, name, obj, options, signature, return_annotation):
    """Show the parameters of ``__init__``; the ``__new__`` of estimators takes any."""
    if what == "class" and signature == "(*args, **kwargs)":
        found = inspect.signature(obj)
        signature = stringify_signature(found, show_annotation=False)
    return signature, return_annotation


# -- the gallery -----------------------------------------------------------------------

sys.path.append(str(Path(__file__).parent))  # of gallery_style, also in its workers

# Pages that take minutes are shown with their code alone, unless they are asked for.
PAGES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
if not os.environ.get("SKDPSPECTRAL_FULL_GALLERY"):
    PAGES = [page for page in PAGES if "\n# tags: quick\n" in page.read_text()]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "|".join(re.escape(page.name) for page in PAGES),
    "ignore_pattern": r"benchmarks|__init__\.py|http_transport\.py",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skdpspectral",),
    "show_memory": False,
    "reset_modules": ("matplotlib", "gallery_style.use"),
    # Its page of times asks a network for scripts.
    "write_computation_times": False,
    "remove_config_comments": True,
    # A page that fails breaks the build.
    "abort_on_example_error": True,
    "parallel": 2,
}
# Pages by task, in the order of the gallery.
SECTIONS = {
    "First steps": [
        "quickstart",
        "few_rows",
        "noise_displays",
        "pca_mechanisms",
        "sparse_pca",
    ],
    "Tables and pipelines": [
        "private_table",
        "private_scaler",
        "private_pipeline",
        "private_search",
        "epsilon_grid_search",
        "classification_pipeline",
        "ridge_path",
        "anomaly_detection",
        "rows_per_person",
        "private_adam_pytorch",
    ],
    "Recommenders": [
        "matrix_factorization",
        "private_recommender",
        "movielens_privacy",
    ],
    "One model per user": ["personal_models", "personal_networks"],
    "Streams": ["stream_moments"],
    "Federations": ["federated_columns", "federated_sites", "federation_http"],
    "Ledgers and audits": ["statement", "ledger_displays", "audit", "spiked_violation"],
    "Figures of the papers": [
        "rates",
        "covariance_rates",
        "federated_simulation",
        "federated_small_clients",
        "jme_tradeoffs",
        "jme_density",
        "private_adam",
        "lrs_synthetic",
        "lrs_recovery_map",
        "lrs_dp_simulation",
        "movielens_groups",
    ],
}
# Of the index that sphinx-gallery writes: a thumbnail, the list of all, and their end.
THUMBNAIL = re.compile(
    r"\.\. raw:: html\n\n    <div class=\"sphx-glr-thumbcontainer\".*?\n    </div>\n",
    re.S,
)
THUMBNAILS = re.compile(
    r"\.\. raw:: html\n\n    <div class=\"sphx-glr-thumbnails\">.*"
    r"\.\. toctree::\n   :hidden:\n\n(?:   /auto_examples/\w+\n)+",
    re.S,
)
SECTION = """
{title}
{underline}

.. raw:: html

    <div class="sphx-glr-thumbnails">

.. thumbnail-parent-div-open

{thumbnails}

.. thumbnail-parent-div-close

.. raw:: html

    </div>

.. toctree::
   :hidden:
   :caption: {title}

{entries}
"""


def sort_gallery(app, docname, source):
    """Put the thumbnails of the gallery into sections."""
    if docname != "auto_examples/index":
        return
    found = {}
    for block in THUMBNAIL.findall(source[0]):
        name = re.search(r":doc:`/auto_examples/plot_(\w+)`", block)[1]
        found[name] = block
    listed = [name for names in SECTIONS.values() for name in names]
    if sorted(listed) != sorted(found):
        raise ValueError(f"in one of gallery and SECTIONS: {set(listed) ^ set(found)}")
    sections = [
        SECTION.format(
            title=title,
            underline="-" * len(title),
            thumbnails="\n".join(found[name] for name in names),
            entries="\n".join(f"   /auto_examples/plot_{name}" for name in names),
        )
        for title, names in SECTIONS.items()
    ]
    source[0] = THUMBNAILS.sub(lambda match: "\n".join(sections), source[0], count=1)


# The line by which tests choose examples; a reader has no use for it.
TAG_LINE = re.compile(
    r"\.\. GENERATED FROM PYTHON SOURCE LINES [\d-]+\s+"
    r"\.\. code-block:: Python\s+# tags: .*\n"
)


def drop_tag_line(app, docname, source):
    """Leave the tags of an example out of its page."""
    if docname.startswith("auto_examples/"):
        source[0] = TAG_LINE.sub("", source[0], count=1)


os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the guide imports of the examples, as a reader beside them would.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

# Blocks with code of another library are skipped where it is not installed. Noise of
# each page has keys of its own: no chance decides whether a page is right.
doctest_global_setup = """
import numpy as np
import random
import secrets
from importlib.util import find_spec
secrets.randbits = random.Random(0).getrandbits
secrets.token_bytes = random.Random(0).randbytes
"""

# -- the pages -------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = project
html_show_sourcelink = False
# One file that draws formulas as SVG: the built pages request nothing from a network,
# and work from a folder.
MATHJAX = next(
    path.locate()
    for path in files("sphinx-mathjax-offline")
    if path.name == "tex-svg-full.js"
)
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name
plot_formats = ["svg"]
plot_html_show_formats = False
html_css_files = ["custom.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
}


def setup(app):
    """Connect the functions of the reference and of the gallery."""
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-signature", show_init)
    app.connect("source-read", drop_tag_line)
    app.connect("source-read", sort_gallery)
