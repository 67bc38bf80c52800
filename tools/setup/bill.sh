#!/usr/bin/env bash
# Writes the wheel's bill of materials beside it: what it needs to run, with versions and hashes, for all
# Pythons that it is for.
#
# usage: bill.sh ENVIRONMENT RELEASE EXTRA      of TensorFlow; EXTRA is that of its wheel: cpu or gpu
set -euo pipefail

environment=$1
release=$2
extra=$3
here=$(cd "$(dirname "$0")" && pwd)
python=$environment/bin/python
version=$("$python" -c 'from graph_opt.cli.release import RELEASE; print(RELEASE)')
# The tool reads the version from the project's file, where it is not written out.
sed "s/^dynamic = .*/version = \"$version\"/" pyproject.toml >"$environment/described.toml"
"$python" "$here/pins.py" "$release" "$extra" |
  "$python" -W ignore -m cyclonedx_py requirements - --pyproject "$environment/described.toml" \
    --mc-type library --output-reproducible -o "build/dist/graph_opt-$version.cdx.json"
