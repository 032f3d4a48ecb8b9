"""How the site is built: `make docs`. Nothing is fetched, neither by the build nor by its pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
os.environ["MPLBACKEND"] = "Agg"

from calibrant import __version__  # noqa: E402

project = "calibrant"
author = "The calibrant developers"
copyright = "the calibrant developers"  # noqa: A001
version = release = __version__

extensions = [
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "api_pages",
    "benchmark_pages",
    "command_pages",
    "mathml",
]
exclude_patterns = ["_build", "gallery"]
suppress_warnings = ["config.cache"]
default_role = "autolink"  # the names in docstrings, where there is something of that name
smartquotes = False  # "--label" is an option, and no dash
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
highlight_language = "default"

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc's sections say what arguments are
autodoc_default_options = {"members": True, "inherited-members": "object, Exception, tuple, dict"}
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "subsection_order": [
        f"gallery/{name}"
        for name in ("scikit_learn", "calibrators", "measuring", "decisions", "forecasts", "totals", "production")
    ],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its page fetches scripts from elsewhere
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"calibrant {__version__}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["calibrant.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "logo": {"text": "calibrant"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "footer_start": ["sphinx-version"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "api/index": ["sidebar-nav-bs"]}
