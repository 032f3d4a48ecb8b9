"""The browser that pages are opened in.

It can't come from the package index: CI installs one first, elsewhere a missing one is said with -ra.
"""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Without a window, as any user, and without a network.
HEADLESS = (
    *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed: chromium, chromium-browser, ..."
)
