#!/usr/bin/env bash
# Installs what groups of pyproject.toml need, in the versions of constraints/RELEASE.txt; what is
# downloaded must have the hashes there. Ends with an error if something is missing that they need.
#
# usage: install.sh ENVIRONMENT RELEASE GROUP...      RELEASE is that of TensorFlow
set -euo pipefail

environment=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
pins=$environment/pins.txt
"$environment/bin/python" "$here/pins.py" "$@" >"$pins"
# What has no wheel is built with what is pinned, and not with the newest of everything.
"$here/quietly.sh" "$environment/setup.log" "$environment/bin/python" -m pip install \
  --require-hashes --no-deps --no-build-isolation --requirement "$pins"
"$here/quietly.sh" "$environment/check.log" "$environment/bin/python" -m pip check
