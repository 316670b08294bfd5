#!/usr/bin/env bash
# The program from outside: exit status, what goes to standard output, and that the number of threads
# changes nothing. Without the embedded model: 77, skipped.
#
#   commands.sh MILLRACE
set -euo pipefail
millrace=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# expect_error WORDS COMMAND...: exit status 1 and one line on standard error with these words.
expect_error() {
  local words=$1
  shift
  if "$millrace" "$@" >out 2>err; then fail "$* succeeded"; else [ $? -eq 1 ] || fail "$*: status $?"; fi
  [ ! -s out ] || fail "$*: wrote to standard output"
  [ "$(wc -l <err)" -eq 1 ] || fail "$*: not one line: $(cat err)"
  grep -q -- "$words" err || fail "$*: no '$words' in: $(cat err)"
}

"$millrace" --help | grep -q serve || fail "--help"
"$millrace" --version | grep -q '^millrace [0-9]' || fail "--version"
for command in run serve bench load inspect synth; do
  "$millrace" $command --help | grep -q "Usage: millrace $command" || fail "$command --help"
done
expect_error 'did you mean serve?' serv
expect_error 'did you mean --threads?' run x.gguf --thred 2
expect_error 'expected 0 to 65535, got 70000' serve x.gguf --port 70000
expect_error 'MODEL' run
expect_error 'missing.gguf' run missing.gguf -p hi
expect_error 'qwen3-0.6b' synth out.gguf --shape nonsense
expect_error 'is the server running' load http://127.0.0.1:1
expect_error 'only http' load https://127.0.0.1
head -c 1000 "$millrace" >garbage.gguf
expect_error 'garbage.gguf' inspect garbage.gguf

if ! "$millrace" inspect demo >/dev/null 2>&1; then
  echo "skipped the rest: built without models/demo/demo.gguf"
  exit 77
fi
"$millrace" inspect demo --json | /usr/bin/python3 -m json.tool >/dev/null || fail "inspect --json"
MILLRACE_ISA=nonsense expect_error 'MILLRACE_ISA' run demo -p hi
for lost in "inspect demo --json" "run demo -p hi -n 3" "--version"; do
  # shellcheck disable=SC2086
  if "$millrace" $lost >/dev/full 2>err; then fail "$lost: a full disk went unnoticed"; fi
  grep -q 'standard output' err || fail "$lost: $(cat err)"
done
timeout 20 "$millrace" run demo -n 5 <&- 2>/dev/null || fail "run without standard input"
tell=(run demo -p "Tell me a story." -n 60)
for sampling in "--temperature 0" "--temperature 0.8 --seed 7"; do
  # shellcheck disable=SC2086
  "$millrace" "${tell[@]}" $sampling -t 1 >one 2>/dev/null
  [ -s one ] || fail "no text"
  for threads in 2 3; do
    # shellcheck disable=SC2086
    "$millrace" "${tell[@]}" $sampling -t $threads >other 2>/dev/null
    cmp -s one other || fail "$threads threads give another text"
  done
done
"$millrace" "${tell[@]}" --temperature 0 -t 1 --json >answer.json 2>/dev/null
/usr/bin/python3 - <<'PYTHON' || fail "run --json"
import json
answer = json.load(open("answer.json"))
assert len(answer["tokens"]) == answer["usage"]["completion_tokens"] <= 60
assert answer["timings"]["decode_tokens_per_second"] > 0
assert answer["finish_reason"] in ("stop", "length")
PYTHON
printf 'Hello.\nAnd again?\n' | "$millrace" run demo -n 8 --temperature 0 -t 1 >chat 2>err
[ "$(grep -c . chat)" -ge 1 ] || fail "chat: $(cat err)"
grep -q '^> ' err || fail "the prompt of a chat belongs to standard error"
"$millrace" run demo -p "Tell me a story." -n 1900 --ignore-eos -t 1 --json >long.json 2>/dev/null &
sleep 0.5
kill -TERM $!
wait $! || fail "a stop signal: status $?"
grep -q '"finish_reason":"cancelled"' long.json || fail "a stop signal did not end the answer"
"$millrace" bench demo -p 32 -n 4 -r 1 -t 1 --json | /usr/bin/python3 -m json.tool >/dev/null || fail "bench"
echo "the commands behave"
