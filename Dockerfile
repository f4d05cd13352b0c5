# The base install: predict, report, export, split, score of scene lists. Without PyTorch.
#
#   docker build -t bassl .
#   docker run --rm -v "$PWD:/videos" bassl predict movie.mp4 -o scenes.json
FROM python:3.12-slim

COPY pyproject.toml README.md LICENSE /src/
COPY bassl /src/bassl
COPY bassl_cli /src/bassl_cli
COPY pipelines /src/pipelines
RUN pip install --no-cache-dir /src && rm -rf /src

RUN useradd --create-home --uid 1000 bassl
USER 1000
WORKDIR /videos
ENTRYPOINT ["bassl"]
CMD ["--help"]
