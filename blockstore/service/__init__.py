"""What every process of the project shares: configuration, logs, metrics, HTTP, and the web pages.

A process (the compactor, the gateway) declares its configuration once, as sections of keys. The
declaration is also the source of the file under ``configs/`` and of ``docs/configuration.md``, so
the documentation cannot differ from the program. At its start the process loads the configuration,
sets up logs, registers its metrics in a registry of its own, and serves an ASGI application with
probes.

    config.py, kinds.py     declared keys and how their values are read; listening.py: the address
    logs.py                 one line per record, as JSON or text, with fields of the current work
    metrics.py              helpers for Prometheus; every series exists from the start
    billing.py              requests as the store bills them, and an estimate for a month
    serving.py              an ASGI application in a thread, probes, security headers
    pages/                  the timeline of a table's blocks, for both processes' pages

Example::

    FILE = ConfigFile(name="reader.toml", about="…", sections=(TABLES, HTTP, LOG))
    config = FILE.load(path)
    set_up(config.of(LOG))
    with Server(application, config.of(HTTP).listening) as server:
        ...
"""
