"""Showing a figure in a notebook and in the book made of it, with its alt text."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO

from IPython.display import display
from matplotlib.figure import Figure

from harmony_utils.errors import InputError


def figure_html(figure: Figure, alt: str, *, caption: str) -> str:
    """Return a figure as one piece of HTML that needs no file beside it.

    Parameters
    ----------
    figure : Figure
        From a function of :mod:`harmony_utils.plots`.
    alt : str
        What is seen, for readers who cannot see it.
    caption : str
        What the figure finds, computed from the run. Plain text: nothing in it is markup.

    Returns
    -------
    str
        A ``figure`` element: the image in its own size, or the page's width if that is smaller.

    Raises
    ------
    InputError
        If the alt text or the caption is empty.
    """
    if not alt.strip() or not caption.strip():
        raise InputError("figure: give an alt text (what is seen) and a caption (what it finds)")
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    width = round(96 * figure.get_size_inches()[0])  # a CSS inch has 96 pixels
    return (
        '<figure class="harmony-figure" style="margin: 1em 0">'
        f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" width="{width}" '
        'style="max-width: 100%; height: auto">'
        '<figcaption style="margin-top: 0.5em; color: inherit; font-weight: normal">'
        f"{escape(caption)}</figcaption></figure>"
    )


def show(figure: Figure, alt: str, *, caption: str) -> None:
    """Display a figure with its alt text and caption; the last line of a notebook cell.

    A plain figure would lose its alt text: Jupyter keeps none, and the book would give the name
    of a file instead.

    Parameters
    ----------
    figure, alt, caption
        As in :func:`figure_html`.
    """
    described = {"text/html": figure_html(figure, alt, caption=caption), "text/plain": alt}
    display(described, raw=True)
