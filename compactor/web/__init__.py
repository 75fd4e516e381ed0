"""The compactor's page: what an operator sees of the process and of its tables, in a browser.

A page changes nothing: it shows, and names the command that does. The timeline and the look are
shared with the gateway (``blockstore.service.pages``).
"""

from blockstore.compactor.web.routes import PageSource, routes

__all__ = ["PageSource", "routes"]
