#!/usr/bin/env bash
# The program from outside: exit status, what goes to standard output, and that the number of threads
# changes nothing. Without the embedded model: 77, skipped.
#
#   commands.sh MILLRACE
set -euo pipefail
millrace=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
server=  # runs, and ends with this script
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# expect_error WORDS COMMAND...: exit status 1 and one line on standard error with these words.
expect_error() {
  local words=$1
  shift
  if timeout 60 "$millrace" "$@" >out 2>err; then fail "$* succeeded"; else [ $? -eq 1 ] || fail "$*: status $?"; fi
  [ ! -s out ] || fail "$*: wrote to standard output"
  [ "$(wc -l <err)" -eq 1 ] || fail "$*: not one line: $(cat err)"
  grep -q -- "$words" err || fail "$*: no '$words' in: $(cat err)"
}

"$millrace" --help | grep -q serve || fail "--help"
"$millrace" --version | grep -q '^millrace [0-9]' || fail "--version"
for command in run serve bench load simulate inspect synth; do
  "$millrace" $command --help >out || fail "$command --help: status $?"  # no pipe: grep -q closes it early
  grep -q "Usage: millrace $command" out || fail "$command --help"
done
"$millrace" --help | grep -q 'Exit status' || fail "--help tells no exit status"
"$millrace" help run | grep -q 'Usage: millrace run' || fail "help run"
expect_error 'did you mean serve?' serv
expect_error 'did you mean --threads?' run x.gguf --thred 2
expect_error 'option --thred, did you mean --threads? (millrace run --help' run x.gguf --thred=2
expect_error 'no command pull, here: not built' pull llama3
expect_error 'did you mean millrace run x.gguf?' x.gguf
expect_error 'option -ngl, here: not built' run x.gguf -p hi -ngl 99
expect_error 'option -m, here: millrace COMMAND model.gguf' serve -m x.gguf
expect_error 'unknown options: -ngl, here: not built .*; -fa, not needed here (always on); --temp, here: --temperature' run x.gguf -ngl 99 -fa --temp 0
expect_error 'option --temp, here: "temperature" in each request' serve x.gguf --temp 0
expect_error 'option -tb, here: -t, --threads' run x.gguf -p Hi -tb 4
expect_error 'a prompt goes behind -p' run x.gguf 'Why is the sky blue?'
expect_error 'unknown argument b: --alias takes one value at a time' serve x.gguf --alias a b
expect_error 'unknown argument x.gguf: --alias takes one value at a time' serve --alias=a b x.gguf
expect_error 'unknown argument two: --stop takes one value at a time' run x.gguf -p hi --stop one two
expect_error 'did you mean --trace trace.jsonl?' simulate trace.jsonl
expect_error 'type Q4_K_M: mixtures of types are not made, did you mean Q4_K?' synth out.gguf --shape smollm2-135m --type Q4_K_M
expect_error 'did you mean Q3_K?' synth out.gguf --shape smollm2-135m --type q3_k_xl
expect_error '--type: .*IQ4_XS.*Q4_K' synth out.gguf --shape smollm2-135m --type IQ4_XS
expect_error 'did you mean millrace run MODEL -p TEXT?' -m x.gguf -p Hi
expect_error 'a command comes first' -p Hi
expect_error 'speculate: expected a value behind it: .*ngram or draft' bench x.gguf --speculate
expect_error 'speculate: expected a value behind it: .*ngram or draft' bench x.gguf --speculate --draft y.gguf
expect_error 'did you mean --model?' load http://127.0.0.1:1 --modl x
expect_error 'did you mean demo?' run demmo -p hi
touch here.gguf
expect_error 'did you mean here.gguf?' inspect her.gguf
expect_error 'did you mean ./here.gguf?' inspect ./her.gguf
expect_error '--raw goes with a prompt' run x.gguf --raw
expect_error '--system does not go with --raw' run x.gguf --raw -p hi --system be
expect_error '--stop: expected a text of 1 to 1024 bytes' run x.gguf -p hi --stop ''
expect_error 'max-model-len: expected 2 or more, got 1' run x.gguf -p hi --max-model-len 1
expect_error 'expected 1 to 1000000' serve x.gguf --max-waiting 0
expect_error 'expected 0 to 65535, got 70000' serve x.gguf --port 70000
expect_error 'policy: expected latency or throughput, got fastest' serve demo --policy fastest
expect_error 'leave out --max-step-ms' serve demo --policy throughput --max-step-ms 5
expect_error 'needs --api-key-file' serve demo --fair
expect_error 'response-cache: expected 0 to 1048576' serve demo --response-cache -1
expect_error 'response-cache-redis: expected redis://HOST' serve demo --response-cache-redis http://x
expect_error 'response-cache-redis: TLS' serve demo --response-cache-redis rediss://x
expect_error 'a password does not belong on a command line' serve demo --response-cache-redis redis://:p@x
expect_error 'needs --response-cache-redis' serve demo --redis-password-file x
expect_error 'redis-password-file nowhere.txt' serve demo --response-cache-redis redis://x --redis-password-file nowhere.txt
expect_error 'MODEL' run
expect_error 'missing.gguf' run missing.gguf -p hi
expect_error 'qwen3-0.6b' synth out.gguf --shape nonsense
expect_error 'is the server running' load http://127.0.0.1:1
expect_error 'only http' load https://127.0.0.1
expect_error 'the port is not a number from 1 to 65535' load http://127.0.0.1:73617
expect_error '--api-key-file missing.txt' load http://127.0.0.1:1 --api-key-file missing.txt
mkfifo pipe
for other in 'pipe:is a pipe' 'folder:is a folder' '/dev/zero:is a device'; do
  path=${other%%:*} what=${other#*:}
  [ "$path" != folder ] || mkdir folder
  expect_error "$path.*$what" inspect "$path"
  expect_error "$path.*$what" run "$path" -p hi
  expect_error "$path.*$what" serve "$path"
  expect_error "--api-key-file $path: $what" load http://127.0.0.1:1 --api-key-file "$path"
  expect_error "--prompts $path: $what" load http://127.0.0.1:1 --prompts "$path"
done
expect_error 'is a folder' synth folder --shape smollm2-135m
expect_error 'no folder' synth missing/out.gguf --shape smollm2-135m
expect_error 'not a regular file' synth /dev/null --shape smollm2-135m
"$millrace" synth part.gguf --shape smollm2-135m -t 1 2>err &
for _ in $(seq 200); do [ -e part.gguf.part ] && break; sleep 0.05; done
[ -e part.gguf.part ] || fail "synth wrote nothing"
kill -TERM $!
if wait $!; then fail "a stopped synth succeeded"; fi
grep -q 'part.gguf was not written' err || fail "a stopped synth: $(cat err)"
[ ! -e part.gguf ] && [ ! -e part.gguf.part ] || fail "a stopped synth left a file"
head -c 1000 "$millrace" >garbage.gguf
expect_error 'garbage.gguf' inspect garbage.gguf

# A folder of Hugging Face's, with a full stop in its name.
/usr/bin/python3 "$here/tiny_folder.py" Tiny-0.1B
expect_error 'did you mean Tiny-0.1B?' inspect Tiny-0.1
expect_error 'did you mean millrace run Tiny-0.1B?' Tiny-0.1B
"$millrace" inspect Tiny-0.1B/ >out || fail "inspect of a folder"
grep -q '^Tiny-0.1B: safetensors, 1 file, ' out || fail "inspect of a folder: $(cat out)"
"$millrace" inspect Tiny-0.1B --json >inspect.json || fail "inspect --json of a folder"
cp -r Tiny-0.1B Odd
echo "{% for i in range(2) %}{{ messages[0].content.strip() }}{% endfor %}" >Odd/chat_template.jinja
"$millrace" inspect Odd >out || fail "inspect of a folder whose template calls functions: status $?"
sed 's/LlamaFor/\\n\\u001b[2J&/' Tiny-0.1B/config.json >Odd/config.json
expect_error 'unknown architecture .  .2JLlamaForCausalLM' inspect Odd
python3 -c 'print("{\"architectures\": [\"" + "A" * 100000 + "\"]}")' >Odd/config.json
expect_error 'AAA\.\.\. (9.... bytes more)' inspect Odd
/usr/bin/python3 - <<'PYTHON' || fail "inspect --json of a folder"
import json
model = json.load(open("inspect.json"))
assert (model["name"], model["format"], model["files"]) == ("Tiny-0.1B", "safetensors", 1)
assert "version" not in model and model["has_chat_template"] and model["fits_memory"]
assert model["metadata"]["general.architecture"] == "llama" and model["shape"]["vocabulary"] == 257
PYTHON
for model in Tiny-0.1B Tiny-0.1B/config.json; do
  "$millrace" run "$model" -p "Hello." -n 12 -t 1 --seed 1 --ignore-eos --json >out || fail "run $model"
  /usr/bin/python3 -c 'import json; print(json.load(open("out"))["tokens"])' >"tokens.${model##*/}"
done
cmp tokens.Tiny-0.1B tokens.config.json || fail "a folder and its config.json give other tokens"
"$millrace" serve Tiny-0.1B --port 0 --port-file port -t 1 2>log &
server=$!
for _ in $(seq 200); do [ -s port ] && break; sleep 0.05; done
/usr/bin/python3 - <<'PYTHON' || fail "serve of a folder: $(cat log)"
import json, time, urllib.error, urllib.request
def ask(path, body=None):
    url = f"http://127.0.0.1:{open('port').read().split(':')[-1].strip()}{path}"
    data = None if body is None else json.dumps(body).encode()
    for _ in range(200):
        try:
            return json.load(urllib.request.urlopen(urllib.request.Request(url, data), timeout=30))
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(0.05)
    raise SystemExit("the server does not become ready")
message = {"role": "user", "content": "Hello."}
answer = ask("/v1/chat/completions", {"model": "Tiny-0.1B", "messages": [message], "max_tokens": 3})
assert answer["model"] == "Tiny-0.1B", answer
assert answer["usage"]["prompt_tokens"] == len("user: Hello.") + 1, answer
assert ask("/v1/models")["data"][0]["id"] == "Tiny-0.1B"
PYTHON
kill -TERM $server
wait $server || fail "serve of a folder: status $?: $(cat log)"
server=
rm port
mv Tiny-0.1B/tokenizer.json tokenizer.json
expect_error 'Tiny-0.1B has no tokenizer.json' run Tiny-0.1B -p hi
mv tokenizer.json Tiny-0.1B/
truncate -s -1 Tiny-0.1B/model.safetensors
expect_error 'Tiny-0.1B/model.safetensors is truncated' serve Tiny-0.1B
rm Tiny-0.1B/model.safetensors
expect_error 'has neither model.safetensors nor model.safetensors.index.json' inspect Tiny-0.1B
rm -r Tiny-0.1B

expect_error 'needs --trace FILE' simulate
expect_error 'trace missing.jsonl: No such file' simulate --trace missing.jsonl
expect_error 'expected a multiple of 64 or a divisor, got 100' simulate --trace x --prefill-chunk 100
expect_error 'steps would take no time' simulate --trace x --step-ms 0 --token-ms 0
expect_error 'policy: expected latency or throughput, got fastest' simulate --trace x --policy fastest
expect_error 'leave out --max-step-ms' simulate --trace x --policy throughput --max-step-ms 5
expect_error 'bench folder: is a folder' simulate --trace x --bench folder
/usr/bin/python3 - <<'PYTHON'
import json, random
random.seed(1)
with open("trace.jsonl", "w") as trace:
    for i in range(200):  # eight families of prompts
        ids = [i % 8 * 1000 + j for j in range(random.randrange(1, 5))] + [10000 + i]
        length = 512 * len(ids) - random.randrange(100)
        trace.write(json.dumps({"timestamp": 400 * i, "input_length": length,
                                "output_length": random.randrange(1, 80), "hash_ids": ids}) + "\n")
PYTHON
{ head -3 trace.jsonl && echo '{"timestamp": 1700, "input_length": "long"}'; } >bad.jsonl
expect_error "bad.jsonl:4: input_length: expected a whole number from 1 to 1073741824, got 'long'" simulate --trace bad.jsonl
expect_error 'trace.jsonl:1: key: expected one to share between, got nothing' simulate --trace trace.jsonl --fair
: >empty.jsonl
expect_error 'empty.jsonl: holds no request' simulate --trace empty.jsonl
small=(--kv-tokens 16384 --step-ms 10 --token-ms 0.5 --decode-attention-ms 1 --prompt-attention-ms 0.2)
for i in 1 2; do "$millrace" simulate --trace trace.jsonl "${small[@]}" --json >simulated$i.json || fail "simulate --json"; done
"$millrace" simulate --trace trace.jsonl "${small[@]}" --no-prefix-cache -r 150 --json >uncached.json || fail "simulate --no-prefix-cache"
sed 's/"hash_ids": \[\([0-9]\)/"key": "\1", &/' trace.jsonl >keyed.jsonl
"$millrace" simulate --trace keyed.jsonl "${small[@]}" --fair --policy throughput --json >fair.json || fail "simulate --fair"
/usr/bin/python3 - <<'PYTHON' || fail "simulate --json"
import json
first, second, uncached = [json.load(open(name)) for name in ("simulated1.json", "simulated2.json", "uncached.json")]
lines = [json.loads(line) for line in open("trace.jsonl")]
for report in (first, second):
    assert report.pop("real_seconds") > 0 and report.pop("times_real_time") > 100
assert first == second, "the same trace gives another report"
assert first["requests"] == first["finished"] + first["refused"] == len(lines) == 200
assert first["refused"] == 0 and first["completion_tokens"] == sum(line["output_length"] for line in lines)
assert first["prompt_tokens"] == sum(line["input_length"] for line in lines)
assert 0.3 < first["hit_rate"] < 0.9 and first["virtual_seconds"] >= lines[-1]["timestamp"] / 1e3
assert first["inter_token_seconds"]["n"] == first["completion_tokens"] - 200
assert first["cost"]["token_ms"] == 0.5
assert first["keys"] == []
fair = json.load(open("fair.json"))
assert fair["finished"] == 200 and fair["steps"] < first["steps"]
assert sorted(row["key"] for row in fair["keys"]) == list("01234567")
assert all(row["requests"] == row["finished"] == 25 and row["mean_first_token_seconds"] > 0 for row in fair["keys"])
assert uncached["requests"] == 150 and uncached["cached_tokens"] == 0
PYTHON
"$millrace" simulate --trace trace.jsonl "${small[@]}" >table || fail "simulate"
grep -q '^200 requests: 200 finished, 0 refused' table && grep -q 'times as fast' table || fail "simulate: $(cat table)"
"$millrace" simulate --trace trace.jsonl --kv-tokens 64 >table || fail "simulate with a small pool"
grep -q '^200 requests: 0 finished, 200 refused (200 too long' table || fail "simulate: $(cat table)"

if ! "$millrace" inspect demo >/dev/null 2>&1; then
  echo "skipped the rest: built without models/demo/demo.gguf"
  exit 77
fi
"$millrace" inspect demo --json >inspect.json || fail "inspect --json"
/usr/bin/python3 - <<'PYTHON' || fail "inspect --json is not whole"
import json
model = json.load(open("inspect.json"))
metadata = model["metadata"]
assert len(metadata["tokenizer.ggml.tokens"]) == model["shape"]["vocabulary"]
assert isinstance(metadata["tokenizer.ggml.tokens"][0], str)
assert len(metadata["tokenizer.chat_template"]) > 100
memory = model["memory"]
parts = ("weight_bytes", "scratch_bytes", "logits_bytes", "table_bytes", "kv_bytes")
assert memory["total_bytes"] == sum(memory[part] for part in parts)
PYTHON
"$millrace" inspect demo --metadata | grep -q 'and [0-9]* more]' || fail "inspect --metadata hides what it cut"
for other in pipe folder /dev/zero; do
  expect_error "--draft: $other.*is a" run demo -p hi --draft "$other"
  expect_error "--api-key-file $other: is a" serve demo --port 0 --api-key-file "$other"
done
expect_error 'TiB was asked for' run demo -p hi --kv-memory 67108864
"$millrace" inspect demo --kv-memory 67108864 >listing || fail "inspect of what does not fit is a look, not a failure"
grep -q 'does not fit; serve with these options refuses: --kv-memory of 64.0 TiB was asked for' listing || fail "$(cat listing)"
"$millrace" inspect demo --kv-memory 67108864 --json | grep -q '"fits_memory":false,"memory_error":"--kv-memory of' || fail "memory_error"
grep -q '"fits_memory":true' inspect.json || fail "fits_memory"
expect_error '--max-model-len must be 2 to 2048' inspect demo --max-model-len 5000
"$millrace" inspect demo --draft demo --json >two.json || fail "inspect --draft"
/usr/bin/python3 - <<'PYTHON' || fail "inspect --draft plans for one model"
import json
one, two = [json.load(open(name))["memory"] for name in ("inspect.json", "two.json")]
assert two["weight_bytes"] == 2 * one["weight_bytes"]
assert two["kv_bytes_per_token"] == 2 * one["kv_bytes_per_token"]
PYTHON
expect_error '--host 999.1.1.1: not an IP address' serve demo --host 999.1.1.1 --port 0
expect_error '--host must be an address of this machine' serve demo --host 192.0.2.1 --port 0
expect_error '--kv-disk-size needs a folder' serve demo --port 0 --kv-disk-size 100
expect_error '--kv-disk: expected a folder' serve demo --port 0 --kv-disk ''
expect_error '--warm: expected a file' serve demo --port 0 --warm ''
expect_error 'q8_0 is int8 here' serve demo --port 0 --kv-type q8_0
expect_error '--draft: nofile.gguf: No such file.*(expected a GGUF file' serve demo --port 0 --draft nofile.gguf
expect_error '--max-model-len must be 2 to 2048' serve demo --port 0 --max-model-len 5000
expect_error '--port-file /dev/null: is not a regular file' serve demo --port 0 --port-file /dev/null
expect_error 'expected 1 to 67108864' run demo -p hi --kv-memory 67108865
expect_error 'window of' bench demo --max-model-len 2 -p 0 -n 4
MILLRACE_ISA=nonsense expect_error 'MILLRACE_ISA' run demo -p hi
for lost in "inspect demo --json" "run demo -p hi -n 3" "--version"; do
  # shellcheck disable=SC2086
  if "$millrace" $lost >/dev/full 2>err; then fail "$lost: a full disk went unnoticed"; fi
  grep -q 'standard output' err || fail "$lost: $(cat err)"
done
timeout 20 "$millrace" run demo -n 5 <&- 2>/dev/null || fail "run without standard input"
"$millrace" run demo -p hi -n 3 >out 2>/dev/full || fail "run with a full standard error: status $?"
[ -s out ] || fail "run with a full standard error: no text"
status=0
"$millrace" nope 2>/dev/full || status=$?
[ "$status" = 1 ] || fail "an error that cannot be written ends with status $status"
if "$millrace" inspect demo >&- 2>err; then fail "a closed standard output went unnoticed"; fi
tell=(run demo -p "Tell me a story." -n 60)
"$millrace" run demo -p "Hi." -n 2 --seed -1 --json >any.json || fail "--seed -1"
grep -q '"seed":-1' any.json && fail "--seed -1 is no seed but asks for one: $(cat any.json)"
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
"$millrace" "${tell[@]}" --temperature 0 -t 1 --json >answer.json 2>err
[ ! -s err ] || fail "run --json wrote to standard error: $(cat err)"
"$millrace" "${tell[@]}" --temperature 0 -t 1 >one 2>err
grep -Eq '^\[[0-9]+ prompt tokens at [0-9.]+ tokens/s, [0-9]+ generated at [0-9.]+ tokens/s( \([0-9]+ of [0-9]+ guesses right\))?\]$' err || fail "timings: $(cat err)"
"$millrace" "${tell[@]}" --temperature 0 -t 1 --quiet >other 2>err
[ ! -s err ] || fail "run --quiet: $(cat err)"
cmp -s one other || fail "--quiet changes the text"
/usr/bin/python3 - <<'PYTHON' || fail "run --json"
import json
answer = json.load(open("answer.json"))
assert answer["text"] == open("one", newline="").read(), "a pipe gets exactly the text"
assert len(answer["tokens"]) == answer["usage"]["completion_tokens"] <= 60
assert answer["timings"]["decode_tokens_per_second"] > 0
assert answer["finish_reason"] in ("stop", "length")
PYTHON
printf 'Tell me a story.\n' | "$millrace" run demo -p - -n 60 --temperature 0 -t 1 >other 2>err
cmp -s one other || fail "-p - reads another prompt: $(cat err)"
printf 'Tell me a story.\r\n' | "$millrace" run demo -p - -n 60 --temperature 0 -t 1 >other 2>err
cmp -s one other || fail "-p - reads another prompt from a line of Windows: $(cat err)"
expect_error 'standard input is empty' run demo -p - <&-
"$millrace" "${tell[@]}" --temperature 0 -t 1 -n -1 --json | grep -q '"finish_reason":"stop"' || fail "-n -1"
"$millrace" "${tell[@]}" --top-p 0 --top-k -1 -t 1 2>/dev/null >other || fail "--top-p 0 --top-k -1"
cmp -s one other || fail "--top-p 0 is not the best token"
expect_error 'or -1 for what the window leaves, got 0' run demo -p hi -n 0
expect_error '(--max-tokens).*shorten the prompt or lower -n' run demo -p hi -n 5000
expect_error '--max-model-len must be 2 to 2048' run demo -p hi --max-model-len 5000
printf 'Hello.\nAnd again?\n' | "$millrace" run demo -n 8 --temperature 0 -t 1 >chat 2>err
[ "$(grep -c . chat)" -ge 1 ] || fail "chat: $(cat err)"
if grep -q '^> \|/help lists' err; then fail "a piped chat has signs for somebody who types: $(cat err)"; fi
/usr/bin/python3 - "$millrace" <<'PYTHON' || fail "a chat on a terminal"
import os, pty, sys, threading
try:
    for end in pty.openpty():
        os.close(end)
except OSError as error:  # a chroot without /dev/pts
    print(f"skipped a chat on a terminal: {error}")
    sys.exit()
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "run", "demo", "-n", "3", "-t", "1"])
shown = b""
def wait_for(words):
    global shown
    while words not in shown:
        shown += os.read(terminal, 4096)
    shown = shown.split(words, 1)[1]
wait_for(b"/help lists commands")
wait_for(b"> ")
os.write(terminal, b"Hello.\n")
wait_for(b"tokens/s")
wait_for(b"> ")
threading.Thread(target=os.write, args=(terminal, b"x" * 5000 + b"\n")).start()  # echoed meanwhile
wait_for(b"is lost: nothing was sent")
wait_for(b"> ")
os.write(terminal, b"\x04")  # Ctrl-D
assert os.waitpid(pid, 0)[1] == 0
PYTHON
printf '/help\n/help x\n/regne\n/bye\n/regen\nHello.\n/regen\n/clear\n/system Be kind.\nHello.\n/exit\nnever\n' |
  "$millrace" run demo -n 8 --temperature 0 -t 1 --json >chat 2>err || fail "chat commands: $(cat err)"
[ "$(wc -l <chat)" -eq 3 ] || fail "three answers were asked for: $(cat chat)"
grep -q '/regen .*once more' err || fail "/help: $(cat err)"
grep -q '/help takes no text behind it' err || fail "/help x: $(cat err)"
grep -q 'no command /bye, here: /exit' err || fail "a chat command of others: $(cat err)"
grep -q 'did you mean /regen?' err || fail "an unknown chat command: $(cat err)"
grep -q 'is forgotten\|message is set' err && fail "--json: $(cat err)"
grep -q 'no answer yet' err || fail "/regen without an answer: $(cat err)"
/usr/bin/python3 - <<'PYTHON' || fail "chat: what the model was sent"
import json
first, again, kind = [json.loads(line)["prompt_tokens"] for line in open("chat")]
assert first == again and len(kind) > len(first)
PYTHON
printf 'Hello.\n/clear\n/system Be kind.\n/clear\n/system\nTell me a story.\n' |
  "$millrace" run demo -n 3 --temperature 0 --ignore-eos -t 1 >chat 2>err || fail "chat: $(cat err)"
[ "$(grep -c '^the conversation is forgotten' err)" -eq 2 ] || fail "/clear: $(cat err)"
grep -q '^the system message is set$' err && grep -q '^there is no system message$' err || fail "/system: $(cat err)"
[ "$(grep -c '^\[cut off: -n 3 allows no more\]$' err)" -eq 2 ] || fail "an answer that -n cut: $(cat err)"
"$millrace" run demo -p 'Tell me a story.' --ignore-eos --max-model-len 64 -t 1 >out 2>err || fail "run: $(cat err)"
grep -q '^\[cut off: the window of 64 tokens is full\]$' err || fail "an answer that the window cut: $(cat err)"
printf 'One \\\nline.\n/system Be kind.\nHi.' | "$millrace" run demo -n 8 -s 1 -t 1 --json >chat 2>err || fail "chat: $(cat err)"
printf 'One \\\r\nline.\r\n/system Be kind.\r\nHi.\r' | "$millrace" run demo -n 8 -s 1 -t 1 --json >other 2>err || fail "chat: $(cat err)"
/usr/bin/python3 - <<'PYTHON' || fail "chat: lines that end in CR LF are other messages"
import json
lf, crlf = [[json.loads(line) for line in open(name)] for name in ("chat", "other")]
assert len(lf) == len(crlf) == 2
for one, other in zip(lf, crlf):
    assert one["prompt_tokens"] == other["prompt_tokens"] and one["text"] == other["text"]
PYTHON
# expect_late_error WORDS OPTION...: a server that listens, then ends with status 1 and these words.
expect_late_error() {
  local words=$1
  shift
  if timeout 60 "$millrace" serve demo --port 0 -t 1 "$@" 2>err; then fail "serve $* succeeded"; else [ $? -eq 1 ] || fail "serve $*: status $?"; fi
  tail -1 err | grep -q -- "$words" || fail "serve $*: no '$words' in: $(cat err)"
}
# Prompts of --warm are computed once, on disk when the server is ready, and found by the next one.
{
  printf 'Tell me %0200d stories about a fox who wants to learn how to swim.\n' 7
  printf '{"messages": [{"role": "system", "content": "%0300d"}, {"role": "user", "content": "Hi"}]}\n' 8
} >prompts.txt
warm_server() {  # warm_server [OPTION...]: up to ready, then stopped
  : >log  # what the one before said must not be read
  "$millrace" serve demo --port 0 --port-file warm_port -t 1 --kv-disk disk --warm prompts.txt "$@" 2>log &
  pid=$! server=$!
  for _ in $(seq 300); do grep -q 'ready:' log && break; kill -0 $pid 2>/dev/null || break; sleep 0.1; done
  grep -q 'ready:' log || fail "serve --warm: $(cat log)"
}
warm_server
grep -q 'computed prompts are kept in disk, up to' log || fail "serve --kv-disk says nothing: $(cat log)"
grep -q 'kv. disk: 0 blocks of .* found' log || fail "--kv-disk says nothing of what is there: $(cat log)"
grep -q -- '--warm: 2 prompts of .*, 0 of them found' log || fail "first --warm: $(cat log)"
expect_late_error 'is in use by another server' --kv-disk disk
kill -KILL $pid
wait $pid || true
warm_server
grep -Eq 'kv. disk: [1-9][0-9]* blocks? of .* found, in .* of files' log || fail "--kv-disk says nothing of what is there: $(cat log)"
grep -q -- '--warm: 2 prompts of .*, [1-9][0-9]* of them found' log || fail "second --warm: $(cat log)"
kill -TERM $pid
wait $pid || fail "serve --kv-disk: status $?: $(cat log)"
server=
printf 'Some text.\n\n \n{"messages": []}\n' >bad.txt
expect_late_error 'warm bad.txt: line 4: messages' --warm bad.txt
printf '\n{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}\n' >other.txt
expect_late_error "warm other.txt: line 2: model: 'gpt-4o' is not served here; there is demo" --warm other.txt
expect_late_error 'there is mine, demo (--alias' --warm other.txt --alias mine --alias demo --alias mine
expect_late_error 'there is mine, yours, third, demo (--alias' --warm other.txt --alias mine,yours --alias third
expect_late_error '--kv-disk missing/disk: no folder' --kv-disk missing/disk
expect_late_error '--kv-disk keeps the prefix cache' --kv-disk disk --no-prefix-cache
for signal in INT TERM; do
  "$millrace" run demo -p 'Tell me a story.' --ignore-eos -q -t 1 >half.txt 2>err &
  pid=$!
  for _ in $(seq 100); do [ -s half.txt ] && break; sleep 0.1; done
  kill -s "$signal" "$pid"
  status=0
  wait "$pid" || status=$?
  case "$signal $status" in
    "INT 130" | "TERM 143") ;;
    *) fail "run ended by SIG$signal with status $status: $(cat err)" ;;
  esac
done
# A file that becomes shorter under a server ends it with a line that says so.
/usr/bin/python3 "$here/tiny_folder.py" Short
"$millrace" serve Short --port 0 --port-file short_port -t 1 2>err &
server=$!
for _ in $(seq 300); do [ -s short_port ] && break; sleep 0.1; done
truncate -s 100 Short/model.safetensors
"$millrace" load "http://127.0.0.1:$(cat short_port)" -r 1 -n 1 >/dev/null 2>&1 || true
status=0
wait $server || status=$?
server=
[ "$status" = 1 ] || fail "a file cut short ended serve with status $status: $(cat err)"
tail -1 err | grep -q 'became shorter' || fail "serve of a file cut short: $(cat err)"
# Ctrl-C shows what load has until then; on a terminal a line tells how far it is.
: >log  # what the one before said must not be read
"$millrace" serve demo --port 0 --port-file load_port -t 1 --verbose 2>log &
server=$!
for _ in $(seq 300); do grep -q 'ready:' log && break; sleep 0.1; done
url=http://127.0.0.1:$(cat load_port)
"$millrace" load "$url" -r 100000 -c 2 -n 4 --json >cut.json 2>err &
pid=$!
for _ in $(seq 300); do [ "$(grep -c 'POST /v1/chat/completions 200' log)" -ge 3 ] && break; sleep 0.1; done
kill -INT $pid
status=0
wait $pid || status=$?
[ "$status" = 130 ] || fail "load ended by SIGINT with status $status: $(cat err)"
[ ! -s err ] || fail "load --json wrote to standard error: $(cat err)"
/usr/bin/python3 - "$millrace" "$url" <<'PYTHON' || fail "load cut short: $(cat cut.json)"
import json, os, pty, sys
report = json.load(open("cut.json"))
assert report["cut_short"] and 0 < report["requests"] < report["requests_asked"] == 100000
assert report["whole"] == report["requests"] and report["broken"] == 0
try:
    for end in pty.openpty():
        os.close(end)
except OSError as error:  # a chroot without /dev/pts
    print(f"skipped load on a terminal: {error}")
    sys.exit()
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "load", sys.argv[2], "-r", "100000", "-n", "4"])
shown = b""
def wait_for(words):
    global shown
    while words not in shown:
        shown += os.read(terminal, 4096)
    shown = shown.split(words, 1)[1]
wait_for(b"load: 0 of 100000 ended")
wait_for(b" of 100000 ended, ")  # it renews itself
os.write(terminal, b"\x03")
wait_for(b"cut short: ")
wait_for(b"whole answer")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
PYTHON
kill -TERM $server
wait $server || fail "serve: status $?: $(cat log)"
server=
grep -Eq '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}[+-][0-9]{2}:[0-9]{2} info \[serve\] ready' log || fail "log lines: $(head -5 log)"
expect_error '--warm missing.txt' serve demo --port 0 -t 1 --warm missing.txt
expect_error 'as https://app.example' serve demo --allow-origin foo
expect_error 'without spaces' serve demo --alias ''
expect_error 'without spaces, got ""' serve demo --alias a,,b
expect_error 'did you mean demo' run demo.gguf -p hi
expect_error 'fetch a GGUF file yourself' run owner/name -p hi
expect_error 'fetch a GGUF file yourself' run https://models.example/a.gguf -p hi
"$millrace" synth small.gguf --shape smollm2-135m --type Q4_K 2>err || fail "synth: $(cat err)"
grep -q 'Q5_0: their rows are not a multiple of the 256' err || fail "synth says nothing of it: $(cat err)"
expect_error 'small.gguf is there already: --force' synth small.gguf --shape smollm2-135m
"$millrace" synth small.gguf --shape smollm2-135m --layers 1 --force 2>err || fail "synth --force: $(cat err)"
grep -q 'small.gguf: smollm2-135m, [0-9.]* MiB' err || fail "synth says no size: $(cat err)"
rm small.gguf
expect_error 'needs a MODEL' bench
expect_error 'expected auto, ngram, draft or off' run demo -p hi --speculate yes
expect_error 'needs a model: --draft' run demo -p hi --speculate draft
expect_error 'no use for --draft' run demo -p hi --speculate ngram --draft demo
"$millrace" bench demo --speculate auto -n 24 -r 1 -t 1 >speculate.txt || fail "bench --speculate: $(cat speculate.txt)"
grep -q '^copying' speculate.txt && grep -q '^story' speculate.txt || fail "bench --speculate: $(cat speculate.txt)"
echo 'Tell me a story.' | "$millrace" bench demo --speculate ngram --prompts - -n 8 -r 1 -t 1 --json |
  /usr/bin/python3 -m json.tool >/dev/null || fail "bench --speculate --json"
"$millrace" bench --machine -t 2 >machine.txt || fail "bench --machine"
grep -q 'memory read, GB/s' machine.txt && grep -q 'barrier' machine.txt || fail "bench --machine: $(cat machine.txt)"
"$millrace" bench --machine -t 1 --json | /usr/bin/python3 -m json.tool >/dev/null || fail "bench --machine --json"
rm -f port
(ulimit -n 200 && exec "$millrace" serve demo --host localhost --port 0 --port-file port 2>log) &
for _ in $(seq 200); do [ -s port ] && break; sleep 0.05; done
kill -TERM $!
wait $! || fail "serve: status $?: $(cat log)"
grep -q 'listening on http://127.0.0.1:' log || fail "serve --host localhost: $(cat log)"
grep -q -- '--max-connections 1024 needs more files open than the 200' log || fail "serve with few descriptors: $(cat log)"
"$millrace" bench demo -p 32 -n 4 -r 1 -t 1 --json | /usr/bin/python3 -m json.tool >/dev/null || fail "bench"
expect_error 'leaves no room for 64 sequences of 8 tokens' bench demo -p 0 -n 8 --sequences 64 --max-model-len 64
"$millrace" bench demo -p 0 -d 100 -n 8 --sequences 3 -r 1 -t 1 >bench.txt || fail "bench --sequences"
grep -q '8 tokens after   100 .* tokens/s of 3 sequences' bench.txt || fail "bench --sequences: $(cat bench.txt)"
"$millrace" bench demo -p 0 -d 100 -n 8 --sequences 3 -r 1 -t 1 --json >bench.json || fail "bench --sequences --json"
/usr/bin/python3 - <<'PYTHON' || fail "bench --sequences --json: $(cat bench.json)"
import json
report = json.load(open("bench.json"))
assert (report["sequences"], report["depth"], report["tokens"]) == (3, 100, 8)
assert report["decode_tokens_per_second"] > 0
assert report["decode_all"] == [report["decode_tokens_per_second"]]
assert report["decode_bytes_per_second"] > 0
in_cache = report["decode_bytes_per_step"] <= report["cache_bytes"]  # 0: unknown
assert in_cache == (report["decode_share_of_bandwidth"] is None) == ("in cache: " in open("bench.txt").read())
assert in_cache or report["decode_share_of_bandwidth"] > 0
assert report["prefill_all"] == []
PYTHON
expect_error '40 sequences of 1161 tokens (--sequences) do not fit' bench demo -p 0 -d 1000 -n 160 --sequences 40 -r 1 --kv-memory 8
"$millrace" bench demo --max-model-len 64 -n 0 -r 1 -t 1 --json >bench.json 2>err || fail "bench in a small window: $(cat err)"
grep -q '"prompt_tokens":63' bench.json || fail "bench: $(cat bench.json)"
grep -q 'does not fit the window of 64: 63 instead' err || fail "bench says nothing of it: $(cat err)"
{ "$millrace" bench demo -p 64 -n 8 -r 1 -t 1 --json; "$millrace" bench demo -p 512 -d 512 -n 8 -r 1 -t 1 --json; } >two.bench
"$millrace" simulate --trace trace.jsonl --bench two.bench >table || fail "simulate --bench"
grep -Eq 'of Millrace Demo \(.* KV, 1 thread, .*\)$' table || fail "simulate --bench: $(cat table)"
expect_error 'bench bench.json: .* two depths (-d), got 1 and 0' simulate --trace trace.jsonl --bench bench.json
echo "the commands behave"
