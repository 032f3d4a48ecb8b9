"""Small pictures of curves as inline SVG, for notebooks: drawn in the colour of the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Side of the plot, and room for the numbers at its left and below, in pixels.
_SIDE, _LEFT, _BELOW, _ABOVE = 190.0, 34.0, 34.0, 8.0
_CURVE = "#2f6fb7"


def sketch_of_curve(
    x: Sequence[float],
    y: Sequence[float],
    *,
    x_range: tuple[float, float],
    words: str,
    axes: tuple[str, str],
    top: float = 1.0,
    diagonal: bool = True,
    bars: Iterable[tuple[float, float, float]] = (),
    dots: bool = False,
) -> str:
    """Return a curve over `x_range` and [0, top]: `bars` are (x, low, high), `axes` names, `words` the alternative."""
    from html import escape

    low, high = x_range
    span = high - low or 1.0

    def at(u: float, v: float) -> str:
        return f"{_LEFT + (u - low) / span * _SIDE:.1f},{_ABOVE + (1.0 - v / top) * _SIDE:.1f}"

    parts = [
        f'<rect x="{_LEFT:g}" y="{_ABOVE:g}" width="{_SIDE:g}" height="{_SIDE:g}" fill="none" stroke-opacity=".35"/>'
    ]
    if diagonal:
        parts.append(f'<polyline points="{at(low, 0.0)} {at(high, top)}" stroke-dasharray="4 3" stroke-opacity=".6"/>')
    parts += [f'<polyline points="{at(u, v)} {at(u, w)}" stroke="{_CURVE}" stroke-opacity=".55"/>' for u, v, w in bars]
    points = [at(u, v) for u, v in zip(x, y, strict=True)]
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{_CURVE}" stroke-width="1.8"/>')
    if dots:
        places = (point.split(",") for point in points)
        parts += [f'<circle cx="{cx}" cy="{cy}" r="2.6" fill="{_CURVE}" stroke="none"/>' for cx, cy in places]
    parts += _labels(x_range, top, axes)
    width, height = _LEFT + _SIDE + 12.0, _ABOVE + _SIDE + _BELOW
    return (
        f'<svg role="img" aria-label="{escape(words)}" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" stroke="currentColor" font-size="10" '
        f'font-family="sans-serif">{"".join(parts)}</svg>'
    )


def _labels(x_range: tuple[float, float], top: float, axes: tuple[str, str]) -> list[str]:
    from html import escape

    bottom, right = _ABOVE + _SIDE, _LEFT + _SIDE
    style = 'fill="currentColor" stroke="none"'
    ends = [(_LEFT, x_range[0], "start"), (right, x_range[1], "end")]
    texts = [
        f'<text {style} x="{x:g}" y="{bottom + 13:g}" text-anchor="{anchor}">{v:g}</text>' for x, v, anchor in ends
    ]
    for y, value in ((bottom, 0.0), (_ABOVE + 8.0, top)):
        texts.append(f'<text {style} x="{_LEFT - 5:g}" y="{y:g}" text-anchor="end">{value:.2g}</text>')
    middle_x, middle_y = _LEFT + _SIDE / 2.0, _ABOVE + _SIDE / 2.0
    texts.append(f'<text {style} x="{middle_x:g}" y="{bottom + 27:g}" text-anchor="middle">{escape(axes[0])}</text>')
    turn = f'transform="rotate(-90 12 {middle_y:g})"'
    texts.append(f'<text {style} x="12" y="{middle_y:g}" text-anchor="middle" {turn}>{escape(axes[1])}</text>')
    return texts
