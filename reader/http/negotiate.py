"""Which form an Accept header asks for."""

from __future__ import annotations

from reader.http.encoding import Form
from reader.http.problems import Problem

__all__ = ["form_asked_for"]

_BY_NAME = {
    **{form.media_type: form for form in Form},
    "application/parquet": Form.PARQUET,
    "application/x-parquet": Form.PARQUET,
    "*/*": Form.ARROW,
    "application/*": Form.ARROW,
    "text/*": Form.CSV,
}


def form_asked_for(accept: str | None, default: Form = Form.ARROW) -> Form:
    """The form with the highest weight, the first of equals; the default where nothing is asked for. Raises Problem 406."""
    if not (accept or "").strip():
        return default
    best: tuple[float, Form] | None = None
    for part in (accept or "").split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        form = default if name == "*/*" else _BY_NAME.get(name)
        weight = _weight(parameters)
        if form is not None and weight > 0 and (best is None or weight > best[0]):
            best = (weight, form)
    if best is None:
        known = ", ".join(form.media_type for form in Form)
        raise Problem(406, f"none of what Accept names can be answered, expected one of {known}")
    return best[1]


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
