"""``python -m bench.latency http://127.0.0.1:8333 25 1000``: delay in ms, bandwidth in Mbit/s."""

import asyncio
import sys

from bench.latency.process import main

if __name__ == "__main__":
    upstream, delay_ms, mbit_per_s = sys.argv[1:]
    asyncio.run(main(upstream, float(delay_ms), float(mbit_per_s)))
