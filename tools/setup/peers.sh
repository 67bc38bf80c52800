#!/usr/bin/env bash
# Installs the competitors that the group_lookup benchmark compares with, separately under FOLDER:
#
#   FOLDER/fbgemm   virtual environment with PyTorch and FBGEMM for CPUs
#   FOLDER/tfra     folder of modules for use with the project's TensorFlow
#
# One that cannot be installed is skipped with a message; the benchmark then says so, too.
#
# usage: peers.sh FOLDER PYTHON      PYTHON is the interpreter of the project's environment
set -euo pipefail

folder=$1
python=$2

# Whether a peer was installed completely, in this checkout; otherwise it is installed again.
is_complete() { [ -e "$folder/$1/.complete" ] && [ "$(cat "$folder/$1/.complete")" = "$PWD" ]; }

install_fbgemm() {
  "$python" -m venv --clear "$folder/fbgemm"
  local pip="$folder/fbgemm/bin/python -m pip install --quiet"
  # FBGEMM declares dependencies that its operators do not need. Any build of PyTorch works: pip
  # takes a CPU build if its index has one, and PyPI's larger CUDA build otherwise.
  $pip --no-deps fbgemm-gpu-cpu==1.8.0
  $pip torch==2.13.0 numpy
  "$folder/fbgemm/bin/python" -c 'import fbgemm_gpu'
}

install_tfra() {
  # It imports pkg_resources, which later releases of setuptools lack.
  "$python" -m pip install --quiet --no-deps --upgrade --target "$folder/tfra" \
    tensorflow-recommenders-addons==0.7.2 setuptools==80.9.0
  PYTHONPATH="$folder/tfra" "$python" -c 'import tensorflow_recommenders_addons'
}

# usage: install NAME
install() {
  is_complete "$1" && return
  echo "==> $folder/$1: installing (takes a few minutes)"
  rm -rf "${folder:?}/$1"
  # In a subshell, because `set -e` has no effect inside a condition.
  set +e
  (
    set -e
    "install_$1"
  ) >"$folder/$1.log" 2>&1
  local status=$?
  set -e
  if [ $status -eq 0 ]; then
    echo "$PWD" >"$folder/$1/.complete"
  else
    rm -rf "${folder:?}/$1"
    echo "    $1 cannot be installed here and is skipped: see $folder/$1.log"
  fi
}

mkdir -p "$folder"
install fbgemm
install tfra
