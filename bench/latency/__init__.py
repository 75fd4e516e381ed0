"""A store with latency: a proxy between a client and an S3 server, and what it saw.

On object storage a request costs 10 to 50 ms, and the requests that must follow one another decide
how long a piece of work takes. A server on this machine responds in one. The proxy adds the rest:

- Each response waits for a set time, once, however many pieces its request and its body come in.
  A request with ``Expect: 100-continue`` waits twice, as it does on a real network.
- All bytes pass one line in each direction, which has a bandwidth.
- Requests are recorded: how many, how many bytes, what they cost by list prices, and the depth,
  the longest chain of requests of which each began after the one before it had ended.

::

    framing    where an HTTP/1.1 message begins and ends
    line       the bandwidth
    fate       what happens to a request: the seam for delays, and for faults
    faults     faults drawn from a seed, counted by kind
    relay      one client's connection: requests up, responses down
    broken     what a client receives of a response that a fault has changed
    record     what was seen, as a value; its depth and its price (prices.py)
    process    the proxy as a process with a control port (python -m bench.latency)
    proxy      starts that process, and controls it

Example::

    with Proxy.between("http://127.0.0.1:8333", delay_ms=25) as proxy:
        client = boto3.client("s3", endpoint_url=proxy.endpoint)
        proxy.reset()
        client.get_object(Bucket="bench", Key="a")
        print(proxy.take().depth)
"""
