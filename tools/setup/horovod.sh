#!/usr/bin/env bash
# Installs Horovod and what it needs, compiled for the TensorFlow of the environment, without MPI. What is
# downloaded must have the hashes of constraints/RELEASE.txt. Compiling takes minutes, so the wheel stays in the
# user's cache.
#
# usage: horovod.sh ENVIRONMENT RELEASE      RELEASE is that of TensorFlow
set -euo pipefail

environment=$1
release=$2
here=$(cd "$(dirname "$0")" && pwd)
python=$PWD/$environment/bin/python
sources=$environment/horovod
# A cache for each release, and for what is done to the source: pip's own tells wheels of one version apart by
# their Python alone.
wheels=${XDG_CACHE_HOME:-$HOME/.cache}/graph_opt/tensorflow-$release-$(cksum <"$here/horovod.sh" | cut -d ' ' -f 1)

pip() { "$here/quietly.sh" "$environment/setup.log" "$python" -m pip "$@"; }

# From the pinned source, which has no wheel.
build() {
  rm -rf "$sources"
  mkdir -p "$sources"
  pip download --require-hashes --no-deps --no-build-isolation --no-binary horovod --dest "$sources" --requirement "$1"
  tar -xzf "$sources"/horovod-*.tar.gz -C "$sources" --one-top-level=unpacked --strip-components=1
  # It has code for GPUs alone, but includes headers that need others, which TensorFlow 2.21 does not ship.
  sed -i '/xla_mpi_ops\.cc/d' "$sources/unpacked/horovod/tensorflow/CMakeLists.txt"
  # The hook that gives all ranks the variables of rank 0, which it has no more where there are no Estimators.
  sed -i 's/= tf\.estimator\.SessionRunHook/= tf.compat.v1.train.SessionRunHook/' \
    "$sources/unpacked/horovod/tensorflow/__init__.py"
  export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
  export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
  export HOROVOD_CMAKE=$PWD/$environment/bin/cmake MAKEFLAGS=-j$(nproc)
  # Horovod 0.28.1 asks for less than CMake 4 provides; both still understand each other from 3.5 on.
  export CMAKE_POLICY_VERSION_MINIMUM=3.5
  pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir "$wheels" "$sources/unpacked"
  rm -rf "$sources"
}

pins=$("$python" "$here/pins.py" "$release" horovod)
own=$environment/horovod.txt
sed -n '/^horovod==/,/[^\\]$/p' <<<"$pins" >"$own"
sed '/^horovod==/,/[^\\]$/d' <<<"$pins" >"$environment/pins.txt"
pip install --require-hashes --no-deps --requirement "$environment/pins.txt"
version=$(sed -n 's/^horovod==\([^ ]*\).*/\1/p' "$own")
from_cache=(install --force-reinstall --no-deps --no-index --find-links "$wheels" "horovod==$version")
mkdir -p "$wheels"
if ! "$python" -m pip "${from_cache[@]}" >/dev/null 2>&1; then
  build "$own"
  pip "${from_cache[@]}"
fi
pip check
