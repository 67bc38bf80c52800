#!/usr/bin/env bash
# Installs what `group_lookup` is compared with, under FOLDER, each in a place of its own:
#
#   FOLDER/fbgemm   virtual environment with PyTorch and FBGEMM for CPUs
#   FOLDER/tfra     folder of modules beside the project's TensorFlow
#
# One that cannot be installed is left out with a line; the benchmark then says so as well.
#
# usage: peers.sh FOLDER PYTHON      PYTHON is the interpreter of the project's environment
set -euo pipefail

folder=$1
python=$2

# What a peer that is complete holds; one that was interrupted is made anew.
is_complete() { [ -e "$folder/$1/.complete" ] && [ "$(cat "$folder/$1/.complete")" = "$PWD" ]; }

install_fbgemm() {
  "$python" -m venv --clear "$folder/fbgemm"
  local pip="$folder/fbgemm/bin/python -m pip install --quiet"
  # FBGEMM asks for packages that its operators do not need. Of PyTorch any build will do: where
  # pip's index has one for CPUs, it is taken; PyPI's own for CUDA is larger.
  $pip --no-deps fbgemm-gpu-cpu==1.8.0
  $pip torch==2.13.0 numpy
  "$folder/fbgemm/bin/python" -c 'import fbgemm_gpu'
}

install_tfra() {
  # It imports pkg_resources, which later setuptools do not have.
  "$python" -m pip install --quiet --no-deps --upgrade --target "$folder/tfra" \
    tensorflow-recommenders-addons==0.7.2 setuptools==80.9.0
  PYTHONPATH="$folder/tfra" "$python" -c 'import tensorflow_recommenders_addons'
}

# usage: install NAME
install() {
  is_complete "$1" && return
  echo "==> $folder/$1: installing (some minutes)"
  rm -rf "${folder:?}/$1"
  # In a shell of its own: `set -e` counts for nothing in a condition.
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
    echo "    $1 cannot be installed here, and is left out: see $folder/$1.log"
  fi
}

mkdir -p "$folder"
install fbgemm
install tfra
