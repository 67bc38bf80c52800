#!/usr/bin/env bash
# Prints the versions of Python that have wheels of a release of TensorFlow, oldest first: 3.9 3.10 3.11
#
# usage: supported_pythons.sh RELEASE
set -euo pipefail

releases=$(dirname "$0")/releases.txt
pythons=$(awk -v release="$1" '$1 == release { for (i = 2; $i ~ /^3\.[0-9]+$/; ++i) print $i }' "$releases")
if [ -z "$pythons" ]; then
  echo "error: TF=$1 is none of the releases of TensorFlow that have a set-up:" \
    "$(cut -d' ' -f1 "$releases" | xargs)" >&2
  exit 1
fi
echo $pythons
