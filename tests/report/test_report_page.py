"""The page: one self-contained file that says what it measured, whatever the names in it are."""

from __future__ import annotations

import csv
import io
import re
import stat
from pathlib import Path
from urllib.parse import unquote

import matplotlib as mpl
import numpy as np
import pytest
from parsed_page import ParsedPage, without_own_script
from report_cases import CASES, PARTY, RIGHT_TO_LEFT, binary, hostile_report, multiclass

import calibrant as cb
from calibrant.phrases import decimals
from calibrant.report.pages import count, percent
from calibrant.report.scores import MEANINGS, score_section

URL_ATTRIBUTES = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background", "formaction", "ping"}


def test_page_is_well_formed_with_language_viewport_and_policy(html: str, page: ParsedPage) -> None:
    assert html.startswith("<!DOCTYPE html>\n")
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("meta", name="viewport").attributes["content"] == "width=device-width, initial-scale=1"
    without_own_script(html)  # which checks the policy
    assert len(page.all("meta", **{"http-equiv": "Content-Security-Policy"})) == 1
    assert len(page.all("h1")) == 1
    assert len(page.all("title")) == 1 + len(page.all("svg"))


def test_page_runs_its_own_script_alone_and_fetches_nothing(html: str, page: ParsedPage) -> None:
    tags = {element.tag for element in page.elements}
    assert len(page.all("script")) == 1
    assert tags.isdisjoint({"link", "iframe", "object", "embed", "img", "base", "form", "image", "foreignobject"})
    for element in page.elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"<{element.tag} {name}>"
            if element.tag == "a" and name == "href":
                assert value.startswith("data:text/csv;charset=utf-8,"), value
                assert element.attributes["download"] == "bins.csv"
            elif name in URL_ATTRIBUTES:
                assert value.startswith("#"), f"<{element.tag} {name}={value!r}>"
            elif name not in {"xmlns", "xmlns:xlink"}:
                assert "://" not in value, f"<{element.tag} {name}={value!r}>"
    styles = "".join(element.text for element in page.all("style"))
    styles += "".join(element.attributes.get("style", "") for element in page.elements)
    assert "@import" not in styles
    assert [url for url in re.findall(r"url\(\s*['\"]?([^)'\"]+)", html) if not url.startswith("#")] == []


def test_page_is_small(html: str) -> None:
    assert len(html.encode("utf-8")) < 500_000


def test_ids_are_unique_and_every_reference_has_its_target(html: str, page: ParsedPage) -> None:
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    references = re.findall(r"url\(#([^)]+)\)", html) + re.findall(r'href="#([^"]+)"', html)
    references += [name for e in page.elements for name in e.attributes.get("aria-labelledby", "").split()]
    assert references
    assert set(references) <= set(ids)


def test_figures_have_a_text_alternative_and_the_colours_of_the_page(page: ParsedPage) -> None:
    for svg in page.all("svg"):
        assert svg.attributes["role"] == "img"
        (title,), (description,) = page.within(svg, "title"), page.within(svg, "desc")
        if title.text == "Segments":
            assert re.search(r"Errors of \d+ segments in standard deviations .* The worst: ", description.text)
        else:
            assert title.text.startswith("Reliability diagram, ")
            assert re.search(r"of \d+ bins?: .* predicted, .* observed", description.text)
        assert ("Calibrated forecasts would be observed within" in description.text) == (svg is page.all("svg")[0])
        assert svg.attributes["aria-labelledby"].split() == [title.attributes["id"], description.attributes["id"]]
        inner = [e for e in page.elements if e.parent is not None and "style" in e.attributes]
        assert {c for e in inner for c in re.findall(r"#[0-9a-fA-F]{3,6}\b", e.attributes["style"])} == set()


def test_tables_have_headers_for_rows_and_columns(page: ParsedPage) -> None:
    for table in page.all("table"):
        headers = page.within(table, "th")
        assert {header.attributes["scope"] for header in headers} == {"row", "col"}
        n_columns = sum(header.attributes["scope"] == "col" for header in headers)
        for row in page.within(table, "tr"):
            cells = [e for e in page.elements if e.parent is row and e.tag in {"th", "td"}]
            assert sum(int(cell.attributes.get("colspan", "1")) for cell in cells) == n_columns


def test_page_states_what_the_summary_holds(report: cb.Report, page: ParsedPage) -> None:
    summary = report.summary()
    assert page.one("p", class_="headline").text == summary["verdict"]["headline"]
    text = page.one("body").text
    for question in ("is_it_calibrated", "which_way", "where", "what_to_do"):
        assert " ".join(summary["verdict"][question].split()) in text
    scores = " ".join(table.text for table in page.all("table", class_="scores"))
    fine = 5 if 0.0 < summary["scores"]["brier"]["value"] < 0.01 else 4
    for name, score in summary["scores"].items():
        if name in MEANINGS and score["value"] is not None:
            digits = decimals(score["value"], 3 if name in {"slope", "intercept"} else fine)
            assert f"{score['value']:z.{digits}f}".replace("-", "\N{MINUS SIGN}") in scores
    bins = page.within(page.one("table", class_="bins"), "tr")
    assert len(bins) == 1 + len(summary["curve"]["bins"])


def test_consistency_band_is_shaded_and_in_the_table(report: cb.Report, page: ParsedPage) -> None:
    bins = report.summary()["curve"]["bins"]
    cells = page.within(page.one("table", class_="bins"), "td")
    shown = [cell.text for cell in cells if cell.attributes.get("class") == "band"]
    assert len(shown) == len(bins)
    for text, row in zip(shown, bins, strict=True):
        assert [float(end) for end in text.split("\N{EN DASH}")] == pytest.approx(
            [row["band_low"], row["band_high"]], abs=1e-3
        )
    (figure, *_) = page.all("svg")
    styles = [e.attributes.get("style", "") for e in page.within(figure, "path") + page.within(figure, "use")]
    assert any("fill: var(--muted)" in style and "fill-opacity: 0.16" in style for style in styles)


@pytest.mark.slow
def test_same_data_gives_the_same_bytes() -> None:
    for kind in ("over-confident", "3 classes"):
        assert CASES[kind]().html() == CASES[kind]().html()


@pytest.mark.slow
def test_bytes_don_t_depend_on_the_users_style_and_leave_it_alone() -> None:
    report = CASES["over-confident"]()
    expected = report.html()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9, "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        assert report.html() == expected
        assert dict(mpl.rcParams) == before


def test_hostile_names_stay_text() -> None:
    html = hostile_report().html()
    page = ParsedPage(html)
    assert "img" not in {element.tag for element in page.elements}
    assert len(page.all("style")) == len(page.all("script")) == 1
    without_own_script(html)
    assert "alert(1)&lt;/script&gt;" in html
    assert "{{ 7*7 }}" in page.one("body").text
    assert page.one("h1").text.startswith("<script>alert(1)</script></style>\"'&<img")
    assert any(RIGHT_TO_LEFT in element.text for element in page.all("bdi"))
    assert any(PARTY in element.text for element in page.all("bdi"))
    assert "W" * 200 not in html, "a name of thousands of characters is cut"


def test_user_texts_are_isolated_from_the_direction_of_the_page() -> None:
    page = ParsedPage(hostile_report().html())
    for element in page.elements:
        if "\N{RIGHT-TO-LEFT OVERRIDE}" in "".join(element.texts) and not page.within(element, "bdi"):
            assert element.tag in {"bdi", "title"} or page.within(element, "title")


def test_undefined_scores_are_called_so_with_the_reason() -> None:
    page = ParsedPage(CASES["single class"]().html())
    text = " ".join(table.text for table in page.all("table", class_="scores"))
    assert "AUC undefined" in text
    assert "one class" in text
    assert "nan" not in page.one("body").text.lower().split()


def test_infinite_log_loss_is_called_so_with_the_reason() -> None:
    text = ParsedPage(CASES["infinite loss"]().html()).all("table", class_="scores")[0].text
    assert "Log loss infinite" in text
    assert "Infinite: something happened that had probability 0." in text


def test_each_class_has_a_panel_and_a_row() -> None:
    y, p = multiclass(1_000, 4)
    page = ParsedPage(cb.Report(np.array(["ant", "bee", "cow", "dog"])[y], p).html())
    assert len(page.all("svg")) == 1 + 4
    tables = [table for table in page.all("table") if table.attributes["class"].startswith("classes")]
    assert len(tables) == 3
    for table in tables:
        heads = [th.text for th in page.within(page.within(table, "tbody")[0], "th")]
        assert sorted(heads) == ["ant", "bee", "cow", "dog"]
    assert "All 4 classes, the worst first." in page.one("body").text


@pytest.mark.slow
def test_of_many_classes_the_worst_are_shown_and_it_is_said() -> None:
    report = CASES["15 classes"]()
    page = ParsedPage(report.html())
    assert len(page.all("svg")) == 1 + 12
    assert "Shown are the worst 12 of 15 classes, the worst first." in page.one("body").text
    assert "Of 15 classes the same 12." in page.one("body").text


def test_command_is_shown_only_where_a_correction_is_called_for(report: cb.Report, page: ParsedPage) -> None:
    command = report.summary()["verdict"]["command"]
    assert [code.text for code in page.all("code")] == ([command] if command else [])


def test_write_html_writes_the_page_whole(tmp_path: Path) -> None:
    report = cb.Report(*binary(200), title=f"title {PARTY}")
    path = tmp_path / "report.html"
    path.write_text("old", "utf-8")
    report.write_html(path)
    assert path.read_bytes().decode("utf-8") == report.html()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_failed_write_leaves_the_old_page_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", "utf-8")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        cb.Report(*binary(200)).write_html(path)
    assert path.read_text("utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cb.Report(*binary(200)).write_html(tmp_path / "nowhere" / "report.html")


@pytest.mark.slow
def test_notebook_shows_the_page_in_a_sandboxed_frame() -> None:
    report = hostile_report()
    frame = ParsedPage(report._repr_html_())
    (iframe,) = frame.elements
    assert iframe.tag == "iframe"
    assert iframe.attributes["sandbox"] == ""
    assert iframe.attributes["srcdoc"] == report.html()


@pytest.mark.parametrize("kind", ["binary", "weighted", "groups", "classes"])
def test_one_of_a_kind_is_singular(kind: str) -> None:
    y, p = binary(60)
    report = {
        "binary": lambda: cb.Report([1], [0.7]),
        "weighted": lambda: cb.Report([1, 0], [0.7, 0.1], sample_weight=[1.0, 1e-9]),
        "groups": lambda: cb.Report(y, p, groups=np.minimum(np.arange(60), 1)),
        "classes": lambda: cb.Report([1, 0, 2], np.full((3, 3), 1.0 / 3.0)),
    }[kind]()
    for text in (report.html(), report.markdown(), repr(report)):
        assert not re.findall(r"(?<![\d.,])1 (?:rows|events|bins|more scores|equally weighted rows)\b", text)
    assert "1 row" in report.html()


def test_repr_says_the_verdict() -> None:
    assert repr(CASES["over-confident"]()) == "<Report: Not calibrated: predictions are over-confident, n = 2,000 rows>"


def test_a_score_without_words_is_shown_by_its_name() -> None:
    """So a new score of `evaluate` reaches the page without a change here."""
    summary = CASES["30 rows"]().summary()
    summary["scores"]["quadratic_skill"] = dict(summary["scores"]["brier"])
    (_, first, more) = score_section(summary).blocks
    assert more.rows[-1].cells[0] == "Quadratic skill"
    assert [row.cells[0] for row in first.rows][:2] == ["Brier score", "Log loss"]


def test_diagram_comes_first_then_at_most_six_scores_and_the_rest_folded(html: str, page: ParsedPage) -> None:
    first, *more = page.all("table", class_="scores")
    assert len(page.within(first, "tr")) <= 1 + 2 * 6
    assert html.index("<svg") < html.index('<table class="scores"')
    bins, details = page.all("details")
    assert "open" not in details.attributes | bins.attributes
    assert page.within(bins, "table") == page.all("table", class_="bins")
    assert page.within(details, "table") == more
    assert page.within(details, "summary")[0].text.split()[1:] == ["more", "scores"]


def test_points_of_the_diagram_tell_their_figures(report: cb.Report, page: ParsedPage) -> None:
    curve = report.summary()["curve"]
    told = [e.attributes["data-tell"] for e in page.within(page.all("svg")[0], "use") if "data-tell" in e.attributes]
    assert len(told) == len(curve["bins"])
    for text, b in zip(told, curve["bins"], strict=True):
        unit = "in weight" if curve["is_weighted"] else "row" if b["n"] == 1 else "rows"
        assert text.startswith(f"{percent(b['predicted'])} predicted, {percent(b['observed'])} observed (95% interval ")
        assert text.endswith(f"{percent(b['low'])} to {percent(b['high'])}), {count(b['n'])} {unit}")


def test_markers_that_tell_lie_where_their_figures_say(page: ParsedPage, report: cb.Report) -> None:
    """So that no point tells what another one shows: markers rise as their observed frequencies do."""
    bins = report.summary()["curve"]["bins"]
    markers = [e for e in page.within(page.all("svg")[0], "use") if "data-tell" in e.attributes]
    for name, key, sign in (("x", "predicted", 1.0), ("y", "observed", -1.0)):
        placed = np.array([sign * float(each.attributes[name]) for each in markers])
        wanted = np.array([b[key] for b in bins])
        slope = np.ptp(placed) / np.ptp(wanted) if np.ptp(wanted) > 0.0 else 0.0
        np.testing.assert_allclose(placed - placed[0], slope * (wanted - wanted[0]), atol=1e-3)


def test_bins_can_be_downloaded_whole(report: cb.Report, page: ParsedPage) -> None:
    (link,) = page.all("a")
    rows = list(csv.DictReader(io.StringIO(unquote(link.attributes["href"].split(",", 1)[1]))))
    bins = report.summary()["curve"]["bins"]
    assert len(rows) == len(bins)
    for row, b in zip(rows, bins, strict=True):
        assert {key: float(value) for key, value in row.items()} == {key: b[key] for key in row}


def test_tables_of_like_rows_can_be_sorted_and_those_of_scores_not(page: ParsedPage) -> None:
    for table in page.all("table"):
        n_rows = len([tr for tr in page.within(table, "tr") if tr.attributes.get("class") != "meaning"]) - 1
        is_of_scores = table.attributes["class"].startswith("scores")
        assert ("data-sort" in table.attributes) == (n_rows > 1 and not is_of_scores)
