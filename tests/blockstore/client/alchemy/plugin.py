"""SQLAlchemy's plugin of pytest."""

from sqlalchemy.dialects import registry
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403

# The plugin writes the name of the driver into its URLs.
registry.register("blockstore.auto", "blockstore.client.dialect", "BlockstoreDialect")
