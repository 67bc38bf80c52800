#!/usr/bin/env bash
# Writes a wheel's bill of materials: what it needs to run, with versions and hashes, for all Pythons
# that it is for.
#
# usage: bill.sh ENVIRONMENT RELEASE DEVICE WHEEL FOLDER     RELEASE of TensorFlow; DEVICE is cpu or gpu
set -euo pipefail

environment=$1
release=$2
device=$3
version=$(basename "$4" | cut -d- -f2)
folder=$5
here=$(cd "$(dirname "$0")" && pwd)
# The tool reads the version from the project's file, where it is not written out.
sed "s/^dynamic = .*/version = \"$version\"/" pyproject.toml >"$environment/described.toml"
"$environment/bin/python" "$here/pins.py" "$release" "$device" |
  "$environment/bin/python" -W ignore -m cyclonedx_py requirements - --pyproject "$environment/described.toml" \
    --mc-type library --output-reproducible -o "$folder/graph_opt-$version.cdx.json"
