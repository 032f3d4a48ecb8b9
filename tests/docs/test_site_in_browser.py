"""Pages of the site in a browser, wide and narrow, light and dark: nothing is cut off, and all text can be read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from chromium import HEADLESS, needs_chromium

pytestmark = [needs_chromium, pytest.mark.slow]

WIDTHS = (1280, 390)
#: Chromium's settings number by theme.
THEMES = {"light": 1, "dark": 0}
#: Of text and what is behind it (Web Content Accessibility Guidelines 2.2, criterion 1.4.3).
LEAST_CONTRAST = 4.5
#: Folders whose pages are all opened; of those that are made alike every so manieth is.
FOLDERS = {"start": 1, "guide": 1, "algorithms": 1, "benchmarks": 1, "auto_gallery": 6, "commands": 8, "api": 60}
#: Shows pages in frames of given widths, and writes down what each measures once all are loaded.
MEASURE = """<!DOCTYPE html><body style="margin: 0">{frames}<script>
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const luminance = colour => colour.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
const style = e => e.ownerDocument.defaultView.getComputedStyle(e);
const behind = e => {{
  for (let at = e; at; at = at.parentElement) {{
    const colour = numbers(style(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0.99) return luminance(colour);
  }}
  return 1;
}};
const contrast = e => {{
  const both = [luminance(numbers(style(e).color)), behind(e)];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}};
const isText = e => e.getClientRects().length && !e.closest("svg, math, .headerlink")
  && [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
addEventListener("load", () => {{
  const measures = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const texts = [...page.querySelectorAll("article *, .bd-sidebar-primary *, header *")].filter(isText);
    return {{
      page: frame.title, width: frame.clientWidth, scrollWidth: root.scrollWidth, theme: root.dataset.theme,
      ground: behind(page.querySelector("article")), texts: texts.length,
      faint: texts.filter(e => contrast(e) < {contrast}).map(e => e.textContent.trim().slice(0, 40)),
      broken: [...page.images].filter(e => e.complete && !e.naturalWidth && e.getClientRects().length).map(e => e.src),
    }};
  }});
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {{textContent: JSON.stringify(measures)}}));
}});
</script></body>"""


def chosen(site: Path) -> Iterator[Path]:
    yield site / "index.html"
    for folder, step in FOLDERS.items():
        yield from sorted((site / folder).rglob("*.html"))[::step]


def measure(site: Path, theme: str, widths: tuple[int, ...], folder: Path) -> list[dict[str, Any]]:
    """Open the pages in a theme, and return what each measures at each width."""
    frames = "".join(
        f'<iframe title="{page.relative_to(site)}" style="border: 0; display: block; width: {width}px; height: 900px" '
        f'src="{page.as_uri()}"></iframe>'
        for page in chosen(site)
        for width in widths
    )
    (folder / "frames.html").write_text(MEASURE.format(frames=frames, contrast=LEAST_CONTRAST), "utf-8")
    command = [
        *(*HEADLESS, "--dump-dom", "--allow-file-access-from-files", "--timeout=240000"),
        *(f"--blink-settings=preferredColorScheme={THEMES[theme]}", f"--user-data-dir={folder / 'profile'}"),
        (folder / "frames.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    _, _, after = done.stdout.partition("<pre>")
    found: list[dict[str, Any]] = json.loads(unescape(after.partition("</pre>")[0]))
    return found


@pytest.mark.parametrize("theme", THEMES)
def test_pages_fit_and_can_be_read(site: Path, theme: str, tmp_path: Path) -> None:
    widths = WIDTHS if theme == "light" else WIDTHS[:1]  # themes differ in colours alone
    found = measure(site, theme, widths, tmp_path)
    assert len(found) == len(widths) * len(list(chosen(site))) > 75
    for one in found:
        assert one["texts"] > 20, one
        assert (one["theme"], one["ground"] < 0.05) == (theme, theme == "dark"), one
        assert one["scrollWidth"] <= one["width"], one
        assert (one["faint"], one["broken"]) == ([], []), one
