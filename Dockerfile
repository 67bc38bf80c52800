# An image with graph_opt, TensorFlow and configs/, built from a checkout:
#
#   docker build -t graph-opt .
#   docker build -t graph-opt --build-arg TF=2.21.0 --build-arg PYTHON=3.12 .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" graph-opt \
#       graph-opt run train.py
#
# TF and PYTHON are those of a row of tools/setup/releases.txt. The second stage installs the
# wheel as `make wheel-check` does: with the versions and hashes of constraints/, and without a
# compiler.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
ARG TF=2.15.1
# Debian's own Python is for the tools that link and check the wheel, whatever PYTHON is.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /graph_opt
COPY . .
RUN make TF=$TF wheel
RUN python tools/setup/pins.py $TF cpu >build/dist/pins.txt

FROM python:${PYTHON}-slim-bookworm
COPY --from=build /graph_opt/build/dist /wheels
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement /wheels/pins.txt \
    && pip install --no-cache-dir --no-deps /wheels/graph_opt-*.whl \
    && pip check
COPY configs /opt/graph_opt/configs
RUN graph-opt --version
WORKDIR /work
CMD ["graph-opt", "--help"]
