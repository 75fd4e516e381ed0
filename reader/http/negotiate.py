"""Which form an Accept header asks for."""

from __future__ import annotations

from blockstore.reader.forms.encode import Form, Wanted
from blockstore.reader.http.problems import Problem

_BY_NAME = {
    **{form.media_type: form for form in Form},
    "application/parquet": Form.PARQUET,
    "application/x-parquet": Form.PARQUET,
    "*/*": Form.ARROW,
    "application/*": Form.ARROW,
    "text/*": Form.CSV,
}


def form_asked_for(accept: str | None, default: Form = Form.ARROW) -> Wanted:
    """The form with the highest weight, the first of equals; the default where nothing is asked
    for. Raises Problem 406."""
    if not (accept or "").strip():
        return Wanted(form=default)
    best: tuple[float, Wanted] | None = None
    for part in (accept or "").split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        form = default if name == "*/*" else _BY_NAME.get(name)
        weight = _weight(parameters)
        if form is not None and weight > 0 and (best is None or weight > best[0]):
            as_text = form is Form.JSON and _of(parameters, "numbers") == "text"
            best = (weight, Wanted(form=form, long_as_text=as_text))
    if best is None:
        known = ", ".join(form.media_type for form in Form)
        raise Problem(406, f"none of what Accept names can be answered, expected one of {known}")
    return best[1]


def _weight(parameters: list[str]) -> float:
    given = _of(parameters, "q")
    try:
        return 1.0 if given is None else min(1.0, max(0.0, float(given)))
    except ValueError:
        return 0.0


def _of(parameters: list[str], wanted: str) -> str | None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == wanted:
            return value.strip()
    return None
