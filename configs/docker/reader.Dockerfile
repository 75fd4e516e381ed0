# The gateway in a container. Its settings, with the hashes of its tokens, are mounted; without tokens it does not start.
#   docker build -f configs/docker/reader.Dockerfile -t blockstore-reader .
#   docker run -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY -v $PWD/reader.toml:/etc/blockstore/reader.toml:ro \
#     -p 8080:8080 --memory 8g --stop-timeout 60 blockstore-reader s3://bucket/lake
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md LICENSE pyspark_blockstore.py ./
COPY blockstore blockstore
COPY compactor compactor
COPY reader reader
COPY spark spark
RUN python -m venv /opt/blockstore
RUN /opt/blockstore/bin/pip install --no-cache-dir ".[s3,reader]"
RUN useradd --system --create-home --home-dir /var/lib/blockstore blockstore
RUN mkdir -p /var/lib/blockstore/work /var/lib/blockstore/cache && chown -R blockstore /var/lib/blockstore

COPY configs/reader.toml /etc/blockstore/reader.toml
ENV PATH=/opt/blockstore/bin:$PATH \
    BLOCKSTORE_HTTP_LISTEN=0.0.0.0:8080 \
    BLOCKSTORE_JOBS_WORK_DIR=/var/lib/blockstore/work \
    BLOCKSTORE_CACHE_FOLDER=/var/lib/blockstore/cache
USER blockstore
VOLUME /var/lib/blockstore
EXPOSE 8080
STOPSIGNAL SIGTERM
# With tls_cert it speaks https alone; whose name the certificate bears does not matter to a question from inside.
HEALTHCHECK --start-period=60s CMD \
    python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/-/healthy', timeout=5)" 2>/dev/null || \
    python -c "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:8080/-/healthy', timeout=5, context=ssl._create_unverified_context())"
ENTRYPOINT ["blockstore", "serve", "--config", "/etc/blockstore/reader.toml"]
CMD ["--help"]
