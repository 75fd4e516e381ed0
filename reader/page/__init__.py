"""The gateway's page: static files that a browser turns into tables, a console, history and jobs.

It asks the HTTP API only.
"""

from blockstore.reader.page.routes import page_routes

__all__ = ["page_routes"]
