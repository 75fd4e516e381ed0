"""Hooks of the documentation site (``mkdocs.yml``): generated reference pages, pages from outside
``docs/``, and links that leave it.

- A page with ``<!-- generated: cli -->`` or ``<!-- generated: http -->`` gets that reference in its
  place, so the page can be linked to and read in the repository too.
- ``OUTSIDE`` lists the pages that come from elsewhere in the repository.
- A link to a file that the site does not have becomes its path as code. A link to a file that does
  not exist is a warning, and a strict build fails on warnings.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
from reference import cli, http  # noqa: E402 - a hook is loaded by path, with no package around it

OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "specs/README.md": "project/models.md",
}
"""Files of the repository, and the pages that they become."""
GENERATED = {"cli": cli, "http": http}
LINK = re.compile(r"(!?)\[([^\]\n]*(?:\n[^\]\n]+)?)\]\(([^)\s]+)\)")
NAMED_FENCE = re.compile(r"^(```[a-z]+) [a-z-]+$", flags=re.MULTILINE)
"""A block whose name is for the tests (``json entry``): the site knows no names."""
_logger = logging.getLogger("mkdocs.hooks.site")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: one entry a decision, one a page of measurements."""
    explanation = next(part["Explanation"] for part in config.nav or [] if "Explanation" in part)
    for part in explanation:
        for name, folder in (("Measurements", "benchmarks"), ("Decisions", "decisions")):
            if name in part:
                part[name] = _pages(folder)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that come from outside ``docs/``."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=_linked(text, source, page)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is generated, drop the names of blocks, rewrite links that leave ``docs/``."""
    for name, generate in GENERATED.items():
        if (mark := f"<!-- generated: {name} -->") in markdown:
            markdown = markdown.replace(mark, generate())
    markdown = NAMED_FENCE.sub(r"\1", markdown)
    here = page.file.src_uri
    return markdown if here in OUTSIDE.values() else _linked(markdown, f"docs/{here}", here)


def _pages(folder: str) -> list[str]:
    found = sorted(path.name for path in (ROOT / "docs" / folder).glob("*.md"))
    found.sort(key=lambda name: name != "README.md")
    return [f"{folder}/{name}" for name in found]


def _linked(markdown: str, source: str, page: str) -> str:
    """The links of ``source``, a path in the repository, as links of the site's page ``page``."""
    return LINK.sub(lambda link: _link(link, source, page), markdown)


def _link(link: re.Match[str], source: str, page: str) -> str:
    image, text, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    wanted = PurePosixPath(os.path.normpath(PurePosixPath(source).parent / path))
    if not (ROOT / wanted).exists():
        _logger.warning("%s: no file %s, which a link names", source, wanted)
        return link[0]
    inside = wanted.relative_to("docs") if wanted.is_relative_to("docs") else None
    there = OUTSIDE.get(str(wanted)) or (None if inside is None else str(inside))
    if there is None:
        return f"{text} (`{wanted}`)" if text.strip("`") != str(wanted) else f"`{wanted}`"
    way = os.path.relpath(there, PurePosixPath(page).parent)
    return f"{image}[{text}]({way}{'#' if anchor else ''}{anchor})"
