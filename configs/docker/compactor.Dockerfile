# The compactor in a container:
#   docker build -f configs/docker/compactor.Dockerfile -t blockstore-compactor .
#   docker run -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY -p 8081:8081 --stop-timeout 90 blockstore-compactor s3://bucket/lake --wait
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md LICENSE pyspark_blockstore.py ./
COPY blockstore blockstore
COPY compactor compactor
COPY reader reader
COPY spark spark
RUN python -m venv /opt/blockstore
RUN /opt/blockstore/bin/pip install --no-cache-dir ".[s3,compactor]"
RUN useradd --system --create-home --home-dir /var/lib/blockstore blockstore
RUN mkdir -p /var/lib/blockstore/work /var/lib/blockstore/cache && chown -R blockstore /var/lib/blockstore

COPY configs/compactor.toml /etc/blockstore/compactor.toml
ENV PATH=/opt/blockstore/bin:$PATH \
    BLOCKSTORE_HTTP_LISTEN=0.0.0.0:8081 \
    BLOCKSTORE_COMPACTOR_WORK_DIR=/var/lib/blockstore/work \
    BLOCKSTORE_LOOPS_CACHE=/var/lib/blockstore/cache
USER blockstore
VOLUME /var/lib/blockstore
EXPOSE 8081
STOPSIGNAL SIGTERM
# With tls_cert it speaks https alone; whose name the certificate bears does not matter to a question from inside.
HEALTHCHECK --start-period=60s CMD \
    python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/-/healthy', timeout=5)" 2>/dev/null || \
    python -c "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:8081/-/healthy', timeout=5, context=ssl._create_unverified_context())"
ENTRYPOINT ["blockstore", "compact", "--config", "/etc/blockstore/compactor.toml"]
CMD ["--help"]
