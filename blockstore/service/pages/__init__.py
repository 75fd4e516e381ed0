"""The part of the web pages that the compactor and the gateway share: a timeline of a table's
blocks.

A process looks at its tables (``live.py``), turns the index and a listing into one value per table
(``timeline.py``), and sends it as JSON in columns (``columns.py``). The scripts under
``static/shared`` draw it; they also contain the theme. ``detail.py`` describes one block, for the
panel of a selected one, and ``routes.py`` has the addresses.

Rules:
- A page loads nothing from another host: its libraries are package data (``static/vendor``, made by
  ``scripts/assets``).
- The content security policy allows no inline script and no inline style
  (``blockstore.service.serving``).
- Names, labels and reasons come from the bucket: a page receives them as JSON and shows them as
  text, never as markup.

Example::

    timelines = LiveTimelines(open_table, world)
    routes = [*timeline_routes(timelines), *page_routes(folder)]
"""
