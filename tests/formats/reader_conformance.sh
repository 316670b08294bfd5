#!/bin/bash
# Compares our GGUF reader and writer with @huggingface/gguf. Usage: reader_conformance.sh GGUF_DUMP
# Exit status 77: the npm package is not installed (see tests/npm).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compare() {
  node "$here/reference_dump.mjs" "$1" > "$work/theirs" || exit $?
  diff "$2" "$work/theirs" > "$work/diff" || {
    echo "$1 reads differently (ours <, @huggingface/gguf >):"
    cut -c -200 "$work/diff" | head -20
    exit 1
  }
  echo "$(basename "$1"): $(wc -l < "$2") lines agree"
}

command -v node > /dev/null || exit 77
"$1" --write "$work/random.gguf" > "$work/ours"
compare "$work/random.gguf" "$work/ours"
for name in sound_all_types sound_alignment_64 sound_version_2; do
  "$1" "$here/../fuzz/corpus/gguf/$name.gguf" > "$work/ours"
  compare "$here/../fuzz/corpus/gguf/$name.gguf" "$work/ours"
done
