"""A configuration as people read it: the commented TOML file with every key at its default, and its
page.

Both are written from the declaration alone, so that neither can say what the program does not do.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence

from blockstore.service.config import ConfigFile, Key, Named, Section

__all__ = ["page", "toml_file"]

_WIDTH = 116


def toml_file(file: ConfigFile) -> str:
    """The file under ``configs/``: every key at its default, with its sentence."""
    parts = [_comment(file.about)]
    for section in file.sections:
        keys = "\n".join(
            f"\n{_comment(_told(key))}\n{key.written} = {_toml(_shown(key))}"
            for key in section.keys
        )
        parts.append(f"{_comment(section.sentence)}\n[{section.name}]{keys}")
    for named in file.named:
        lines = "\n".join(f"# {key.written} = {_toml(_shown(key))}" for key in named.keys)
        parts.append(f'{_comment(named.sentence)}\n# [{named.name}."{named.example}"]\n{lines}')
    return "\n\n".join(parts) + "\n"


def page(title: str, about: str, files: Sequence[ConfigFile]) -> str:
    """One Markdown page for all files: every key, its default, its variable and its sentence."""
    lines = [f"# {title}", "", *textwrap.wrap(about, _WIDTH)]
    for file in files:
        lines += ["", f"## {file.name}", "", *textwrap.wrap(file.about, _WIDTH)]
        for section in file.sections:
            lines += ["", f"### [{section.name}]", "", section.sentence, "", *_rows(section)]
        for named in file.named:
            lines += [
                "",
                f'### [{named.name}."{named.example}"]',
                "",
                named.sentence,
                "",
                *_names(named),
            ]
    return "\n".join(lines) + "\n"


def _rows(section: Section[object]) -> Iterable[str]:
    yield "| key | default | environment | what it does |"
    yield "| --- | --- | --- | --- |"
    for key in section.keys:
        variable = f"BLOCKSTORE_{section.name}_{key.name}".upper()
        yield f"| `{key.written}` | `{_toml(_shown(key))}` | `{variable}` | {_cell(key)} |"


def _names(named: Named) -> Iterable[str]:
    yield f"Keys: {', '.join(f'`{key.written}`' for key in named.keys)}."


def _cell(key: Key) -> str:
    return _told(key).replace("|", "\\|")


def _told(key: Key) -> str:
    return f"{key.sentence} The path of a file that holds it." if key.secret else key.sentence


def _shown(key: Key) -> object:
    return "" if key.secret else key.default


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)
