"""Configuration of the documentation; it needs no network to build."""

import os
import re
import sys
from pathlib import Path

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
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# The table of benchmarks is made by a script, and is part of their page.
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "benchmarks_table.rst"]
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


# -- the gallery -----------------------------------------------------------------------

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
    "remove_config_comments": True,
    # A page that fails breaks the build.
    "abort_on_example_error": True,
    "parallel": 2,
}
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

# -- the pages -------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = project
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
}


def setup(app):
    """Connect the filters of the reference and of the gallery."""
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("source-read", drop_tag_line)
