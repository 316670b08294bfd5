#include "cli/foreign_names.h"

#include <array>

namespace millrace {
namespace {

using Kind = ForeignKind;

constexpr std::array kRows = {
    ForeignName{Kind::kCommand, "chat, llama-cli", "millrace run MODEL"},
    ForeignName{Kind::kCommand, "start, server, llama-server, api_server", "millrace serve MODEL"},
    ForeignName{Kind::kCommand, "show", "millrace inspect MODEL"},
    ForeignName{Kind::kCommand, "complete, generate", "millrace run MODEL -p TEXT"},
    ForeignName{Kind::kCommand, "llama-bench", "millrace bench MODEL"},
    ForeignName{Kind::kCommand,
                "pull, push, download",
                "not built (fetch a GGUF file yourself, its path is the MODEL)"},
    ForeignName{Kind::kCommand,
                "list, ls, ps, rm, cp, create, stop",
                "not built (models are files, a server is a process)"},
    ForeignName{
        Kind::kCommand, "quantize, llama-quantize", "not built (take a quantised GGUF file)"},
    ForeignName{Kind::kCommand, "version, -v, -V", "millrace --version"},
    ForeignName{Kind::kOption, "-m, --model, --model-path", "millrace COMMAND model.gguf"},
    ForeignName{Kind::kOption,
                "-hf, --hf-repo, -hff, --hf-file",
                "not built (fetch a GGUF file yourself, its path is the MODEL)"},
    ForeignName{Kind::kOption, "-c, --ctx-size, --num-ctx, --context-length", "--max-model-len"},
    ForeignName{Kind::kOption, "-np, --parallel, --max-num-seqs", "serve --max-sequences"},
    ForeignName{Kind::kOption,
                "--max-num-batched-tokens, -b, --batch-size, -ub, --ubatch-size",
                "nothing (steps are sized by themselves)"},
    ForeignName{Kind::kOption,
                "--scheduling-policy, --schedule-policy",
                "nothing (by priority, then arrival; serve --policy, --fair)"},
    ForeignName{Kind::kOption, "--n-predict, --predict, --num-predict", "-n, --max-tokens"},
    ForeignName{Kind::kOption, "--temp", "--temperature"},
    ForeignName{Kind::kOption, "--repeat-penalty", "--repetition-penalty"},
    ForeignName{Kind::kOption, "--typical", "--typical-p"},
    ForeignName{Kind::kOption, "-f, --file", "-p - < FILE"},
    ForeignName{Kind::kOption, "-sys, --system-prompt", "--system"},
    ForeignName{Kind::kOption,
                "-i, --interactive, -cnv, --conversation, -it",
                "nothing (run without -p is a chat)"},
    ForeignName{Kind::kOption, "-no-cnv, --no-conversation", "--raw"},
    ForeignName{Kind::kOption, "-md, --model-draft, --speculative-model", "--draft"},
    ForeignName{Kind::kOption, "--draft-n, --num-speculative-tokens", "--draft-max"},
    ForeignName{Kind::kOption, "-a, --served-model-name", "serve --alias"},
    ForeignName{Kind::kOption,
                "--api-key",
                "serve --api-key-file (other processes can read a command line)"},
    ForeignName{Kind::kOption, "--allowed-origins", "serve --allow-origin"},
    ForeignName{Kind::kOption, "-v, --log-level", "serve --verbose"},
    ForeignName{Kind::kOption, "--gpu-memory-utilization, --cache-ram", "--kv-memory (in MiB)"},
    ForeignName{
        Kind::kOption, "--slot-save-path, --prompt-cache, --kv-transfer-config", "serve --kv-disk"},
    ForeignName{Kind::kOption,
                "--enable-prefix-caching, --enable-chunked-prefill, -cb, --cont-batching",
                "nothing (always on)"},
    ForeignName{
        Kind::kOption, "--no-enable-prefix-caching, --no-cache-prompt", "--no-prefix-cache"},
    ForeignName{Kind::kOption, "--jinja", "nothing (the model's own template is always used)"},
    ForeignName{Kind::kOption,
                "--chat-template, --chat-template-file",
                "not built (the template comes with the model)"},
    ForeignName{Kind::kOption,
                "-ngl, --gpu-layers, --n-gpu-layers, --device, -sm, --split-mode, -mg, --main-gpu",
                "not built (Millrace computes on the CPU)"},
    ForeignName{Kind::kOption,
                "-tp, --tensor-parallel-size, --pipeline-parallel-size, --tensor-split",
                "not built (one machine, no GPU)"},
    ForeignName{Kind::kOption, "-fa, --flash-attn", "nothing (always on)"},
    ForeignName{Kind::kOption,
                "--dtype, --quantization, --load-format",
                "nothing (the model's files say it)"},
    ForeignName{Kind::kOption,
                "-ctk, --cache-type-k, -ctv, --cache-type-v, --kv-cache-dtype",
                "--kv-type (one for keys and values)"},
    ForeignName{Kind::kOption,
                "--grammar, --grammar-file, -j, --json-schema",
                "not built (structured output)"},
    ForeignName{Kind::kOption, "--lora, --lora-modules, --enable-lora", "not built (adapters)"},
    ForeignName{Kind::kOption,
                "--embedding, --embeddings, --pooling, --rerank, --reranking, --mmproj",
                "not built (text in, text out)"},
    ForeignName{
        Kind::kOption, "--mlock, --no-mmap, --numa", "nothing (weights are packed in memory)"},
    ForeignName{Kind::kOption,
                "-tb, --threads-batch",
                "-t, --threads (one number for prompts and answers)"},
    ForeignName{Kind::kOption, "-st, --single-turn", "-p TEXT"},
    ForeignName{Kind::kOption, "-r, --reverse-prompt", "--stop"},
    ForeignName{Kind::kOption,
                "--repeat-last-n",
                "nothing (penalties look at the whole prompt and answer)"},
    ForeignName{Kind::kOption,
                "--mirostat, --mirostat-lr, --mirostat-ent, --dynatemp-range, --dry-multiplier, "
                "--xtc-probability, --samplers, --sampling-seq",
                "not built (other ways of sampling)"},
    ForeignName{Kind::kOption, "--logit-bias", "\"logit_bias\" in a request to serve"},
    ForeignName{Kind::kOption, "--color, --colour", "nothing (the text is plain)"},
    ForeignName{Kind::kOption, "--metrics", "nothing (GET /metrics is always on)"},
    ForeignName{Kind::kOption,
                "--slots, --no-slots, --props",
                "nothing (GET /metrics has what runs and waits)"},
    ForeignName{Kind::kOption, "--no-webui, --webui, --path", "nothing (there is no web page)"},
    ForeignName{Kind::kOption, "-to, --timeout", "\"timeout_ms\" in a request to serve"},
    ForeignName{Kind::kOption,
                "--ssl-key-file, --ssl-cert-file, --ssl-keyfile, --ssl-certfile",
                "not built (TLS belongs to a proxy in front)"},
    ForeignName{Kind::kOption, "--swap-space", "serve --kv-disk"},
    ForeignName{Kind::kOption, "--cpu-offload-gb", "nothing (all weights are in memory)"},
    ForeignName{Kind::kOption, "--num-prompts", "load --requests"},
    ForeignName{Kind::kOption, "--request-rate", "load --rate"},
    ForeignName{Kind::kOption, "--max-concurrency", "load --concurrency"},
    ForeignName{Kind::kOption, "--speculative-config", "--draft, --draft-max, --speculate"},
    ForeignName{Kind::kOption, "--cache-reuse", "nothing (reuse is exact to the token)"},
    ForeignName{Kind::kOption, "--block-size", "nothing (blocks have 64 tokens)"},
    ForeignName{Kind::kOption, "--no-warmup", "nothing (the warm-up is one token)"},
    ForeignName{Kind::kOption, "--no-context-shift", "nothing (a full window ends the answer)"},
    ForeignName{Kind::kOption, "--trust-remote-code", "nothing (no code of a model is run)"},
    ForeignName{Kind::kOption, "--enforce-eager", "nothing (no graphs are captured)"},
    ForeignName{Kind::kOption, "--tokenizer", "nothing (the model's files have it)"},
    ForeignName{Kind::kOption,
                "--enable-auto-tool-choice, --tool-call-parser",
                "not built (calls of tools come back as text)"},
    ForeignName{Kind::kOption, "--keep-alive, --keepalive", "nothing (the model stays loaded)"},
    ForeignName{Kind::kOption, "--format", "not built (structured output)"},
    ForeignName{Kind::kOption,
                "--think, --reasoning-budget, --reasoning-format",
                "not built (the text of the model is shown as it is)"},
    ForeignName{Kind::kServeOption, "--temp, --temperature", "\"temperature\" in each request"},
    ForeignName{Kind::kServeOption, "-s, --seed", "\"seed\" in each request"},
    ForeignName{Kind::kServeOption, "--top-k", "\"top_k\" in each request"},
    ForeignName{Kind::kServeOption, "--top-p", "\"top_p\" in each request"},
    ForeignName{Kind::kServeOption, "--min-p", "\"min_p\" in each request"},
    ForeignName{Kind::kServeOption, "--typical, --typical-p", "\"typical_p\" in each request"},
    ForeignName{Kind::kServeOption,
                "--repeat-penalty, --repetition-penalty",
                "\"repetition_penalty\" in each request"},
    ForeignName{Kind::kServeOption, "--frequency-penalty", "\"frequency_penalty\" in each request"},
    ForeignName{Kind::kServeOption, "--presence-penalty", "\"presence_penalty\" in each request"},
    ForeignName{Kind::kServeOption, "-r, --reverse-prompt, --stop", "\"stop\" in each request"},
    ForeignName{Kind::kServeOption,
                "-n, --max-tokens, --n-predict, --predict, --num-predict",
                "\"max_tokens\" in each request"},
    ForeignName{Kind::kServeOption, "--ignore-eos", "\"ignore_eos\" in each request"},
    ForeignName{
        Kind::kServeOption, "-sys, --system-prompt, --system", "a system message in each request"},
    ForeignName{Kind::kServeOption, "-p, --prompt", "\"messages\" or \"prompt\" of a request"},
    ForeignName{Kind::kChatCommand, "/bye, /quit, /q", "/exit"},
    ForeignName{Kind::kChatCommand, "/?", "/help"},
    ForeignName{Kind::kChatCommand, "/reset, /new", "/clear"},
    ForeignName{Kind::kChatCommand, "/set", "/system TEXT, or an option of millrace run"},
    ForeignName{Kind::kChatCommand, "/show", "millrace inspect MODEL"},
};

}  // namespace

std::span<const ForeignName> foreign_names() {
  return kRows;
}

const ForeignName* find_foreign_name(ForeignKind kind, std::string_view name) {
  for (const ForeignName& row : kRows) {
    for (std::string_view left = row.names; row.kind == kind && !left.empty();) {
      const size_t end = left.find(", ");
      if (left.substr(0, end) == name) {
        return &row;
      }
      left = end == std::string_view::npos ? "" : left.substr(end + 2);
    }
  }
  return nullptr;
}

}  // namespace millrace
