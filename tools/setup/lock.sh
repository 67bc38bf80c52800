#!/usr/bin/env bash
# Pins what graph_opt needs with a release of TensorFlow, in its newest versions, in constraints/RELEASE.txt:
# all groups with the default release, and otherwise those that `make demo`, `make test` and `make horovod` need.
#
# usage: lock.sh ENVIRONMENT RELEASE DEFAULT_RELEASE      ENVIRONMENT is that of the default release
set -euo pipefail

environment=$1
release=$2
default=$3
here=$(cd "$(dirname "$0")" && pwd)
read -ra pythons < <("$here/release.sh" pythons "$release")
"$here/install.sh" "$environment" "$default" lock
if [ "$release" = "$default" ]; then
  mapfile -t groups < <(sed -n '/^\[dependency-groups\]/,/^\[project/s/^\([a-z]*\) = .*/\1/p' pyproject.toml)
  chosen=(--fork-strategy requires-python)
  also='s/^tensorflow-cpu/tensorflow/p' # for GPUs
else
  groups=(build demo test horovod)
  chosen=()
  also=
fi
for group in "${groups[@]}"; do chosen+=(--group "$group"); done
if [ ${#pythons[@]} -gt 1 ]; then
  chosen+=(--universal --python-version "${pythons[0]}")
else
  # Not for later Pythons, which this release has no wheels of; some packages need a late patch release.
  chosen+=(--python-platform x86_64-manylinux_2_28 --python-version "${pythons[0]}.99")
fi
read -ra packages < <("$here/release.sh" packages "$release")
read -ra limits < <("$here/release.sh" limits "$release")
printf '%s\n' "${packages[@]}" "${limits[@]}" | sed "p;$also" | sort -u |
  "$environment/bin/python" -m uv pip compile -q --generate-hashes --upgrade \
    --custom-compile-command "make lock TF=$release" -o "constraints/$release.txt" "${chosen[@]}" - pyproject.toml
