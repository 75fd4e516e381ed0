"""Which form of a result an Accept header selects, and the media type of each form."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.reader.forms.encode import Form
from blockstore.reader.http.problems import Problem

MEDIA_TYPES = {
    Form.ARROW: "application/vnd.apache.arrow.stream",
    Form.JSON: "application/json",
    Form.NDJSON: "application/x-ndjson",
    Form.CSV: "text/csv",
    Form.TSV: "text/tab-separated-values",
    Form.PARQUET: "application/vnd.apache.parquet",
}

_BY_NAME = {
    **{media: form for form, media in MEDIA_TYPES.items()},
    "application/parquet": Form.PARQUET,
    "application/x-parquet": Form.PARQUET,
    "*/*": Form.ARROW,
    "application/*": Form.ARROW,
    "text/*": Form.CSV,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A form, and how its numbers are written."""

    form: Form
    long_as_text: bool = False
    """In JSON: numbers of types with more digits than a double has are texts."""

    @property
    def media_type(self) -> str:
        """The value of Content-Type."""
        media = MEDIA_TYPES[self.form]
        return f"{media};numbers=text" if self.long_as_text else media


def form_of(accept: str | None, default: Form = Form.ARROW) -> Wanted:
    """The form with the highest weight, the first of equals; ``default`` without an Accept header.
    Raises Problem 406."""
    if not (accept or "").strip():
        return Wanted(form=default)
    best: tuple[float, Wanted] | None = None
    for part in (accept or "").split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        form = default if name == "*/*" else _BY_NAME.get(name)
        weight = _weight(parameters)
        if form is not None and weight > 0 and (best is None or weight > best[0]):
            as_text = form is Form.JSON and _parameter(parameters, "numbers") == "text"
            best = (weight, Wanted(form=form, long_as_text=as_text))
    if best is None:
        known = ", ".join(MEDIA_TYPES.values())
        raise Problem(406, f"Accept names no media type of a result: use one of {known}")
    return best[1]


def _weight(parameters: list[str]) -> float:
    given = _parameter(parameters, "q")
    try:
        return 1.0 if given is None else min(1.0, max(0.0, float(given)))
    except ValueError:
        return 0.0


def _parameter(parameters: list[str], wanted: str) -> str | None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == wanted:
            return value.strip()
    return None
