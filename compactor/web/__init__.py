"""The compactor's page: the process and its tables in a browser.

The page changes nothing: it shows the state, and names the command to run. It shares the timeline
and the look with the gateway (``blockstore.service.pages``).

- ``routes.routes``: the addresses; ``PageSource`` is what they need of the process.
- ``encode.encode_status``: the status as the page's JSON.
- ``static/``: the page itself.

Example::

    app = Starlette(routes=routes(process))
"""

from blockstore.compactor.web.routes import PageSource, routes

__all__ = ["PageSource", "routes"]
